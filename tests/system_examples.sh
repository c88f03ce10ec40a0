#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The examples, run as a user runs them: results against the expected files, the tables, the report
# for machines, the options that choose what is run and with what.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"

tolerances="--atol 1e-6 --rtol 1e-5"

# options EXAMPLE: weights, inputs and expected outputs, as far as the example has them. What ep should
# give is computed in double precision, the rest to the bit.
options() {
    local at=$examples/$1
    [[ $1 == ep* ]] && echo "$tolerances"
    example_files "$1"
    echo "--check $at/expected-{rank}.safetensors"
}

# Whether each figure of the tables is that of the report: the path of a step, the counts, the groups.
tables_match() {
    python3 -B - "$run/out" "$1" <<'PY'
import json
import sys

lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
report = json.load(open(sys.argv[2], encoding="utf-8"))


def rows(first):
    """The table whose heading begins with this word: {heading: cell} per row."""
    at = next(i for i, line in enumerate(lines) if line.startswith("#") and line[1:].split()[:1] == [first])
    body = []
    for line in lines[at + 1:]:
        if line.startswith("#"):
            break
        body.append(line.split())
    return lines[at][1:].split(), body


heads, body = rows("program")
assert len(body) == len(report["programs"]) > 0, "a row per program"
for cells, program in zip(body, report["programs"]):
    name, cells = cells[0], cells[1:]
    assert name == program["name"], name
    count = max(1, len(program["vars"]))
    shown = dict(cell.split("=") for cell in cells[:count] if cell != "-")
    assert shown == {key: str(value) for key, value in program["vars"].items()}, shown
    steps, launches, size, low, median, p99, high = cells[count:count + 7]
    assert [int(steps), int(launches), int(size)] == [program[k] for k in ("steps", "launches", "bytes")]
    for cell, key in ((low, "min"), (median, "median"), (p99, "p99"), (high, "max")):
        assert abs(float(cell) * 1e3 - program["step_ns"][key]) <= 51, (key, cell, program["step_ns"])
    figures = program["step_ns"]
    assert 0 < figures["min"] <= figures["median"] <= figures["p99"] <= figures["max"], figures
    assert figures["min"] <= figures["mean"] <= figures["max"], figures
    assert program["fastest_rank_median_ns"] <= program["slowest_rank_median_ns"]

heads, body = rows("rank")
assert [int(cells[0]) for cells in body] == [rank["rank"] for rank in report["ranks"]]
assert len({rank["bus_id"] for rank in report["ranks"]}) == len(body), "a device of its own for each"
for cells, rank in zip(body, report["ranks"]):
    assert rank["bus_id"] in cells and rank["host"] in cells, cells
    for group in rank["groups"].values():
        assert f"{group['number']}.{group['index']}" in cells, cells
    assert rank["start_seconds"] > 0
PY
}

# run_example EXAMPLE RANKS: results, tables and report of one.
run_example() {
    local name=$1 ranks=$2 report=$work/report.json
    rm -f "$report"
    # shellcheck disable=SC2046
    launch "$ranks" "$examples/$name/model.json" $(options "$name") --json "$report" \
        --output "$work/$name-{rank}.safetensors" -n 5 -w 2
    check "$name, $ranks ranks: ends with 0" ended_with 0
    check "$name, $ranks ranks: outputs are as expected" grep -q '^check ok: ' "$run/out"
    check "$name, $ranks ranks: nothing on stderr" test ! -s "$run/err"
    check "$name, $ranks ranks: the report is JSON, of $ranks ranks, and checked" \
        json "$report" "len(r['ranks']) == $ranks and r['check']['verdict'] == 'ok'
            and r['check']['elements'] > 0 and r['device'] == 'emu'"
    check "$name, $ranks ranks: tables and report hold the same figures" tables_match "$report"
    check "$name, $ranks ranks: nothing is left" nothing_left
}

run_example minimal 1
run_example neighbour 2
run_example neighbour4 4
for name in barrier allreduce ep; do
    run_example "${name}2" 2
    run_example "${name}4" 4
    run_example "$name" 8
done
run_example ep1 1

# The same tokens over any number of ranks give the same rows.
for ranks in 2 4 8; do
    name=ep$ranks
    [ "$ranks" -eq 8 ] && name=ep
    files=()
    for ((rank = 0; rank < ranks; rank++)); do
        files+=("$work/$name-$rank.safetensors")
    done
    check "ep: y of $ranks ranks is that of 1 rank, byte for byte" \
        tensors same y "$work/ep1-0.safetensors" -- "${files[@]}"
done

# The road of exported memory: fabric handles, else file descriptors, on all ranks the same.
run_road() { # NAME KIND RANKS EXAMPLE, in the environment as it is
    # shellcheck disable=SC2046
    launch "$3" "$examples/$4/model.json" $(options "$4") -n 2 -w 1 --json "$work/road.json"
    check "$1, $3 ranks: ends with 0" ended_with 0
    check "$1, $3 ranks: outputs are as expected" prints "check ok"
    check "$1, $3 ranks: the road is named" grep -q "^# shared memory: $2" "$run/out"
    check "$1, $3 ranks: it is in the report" json "$work/road.json" "r['handle_kind_why'].startswith('$2')"
    check "$1, $3 ranks: nothing is left" nothing_left
}
run_road "fabric handles" "fabric handles" 2 ep2
export KERN_EMU_FABRIC=0
run_road "a device without fabric handles" "file descriptors, because " 2 ep2
run_road "a device without fabric handles" "file descriptors, because " 8 allreduce
export KERN_EMU_FABRIC=refuse
run_road "fabric handles that nobody may make" "file descriptors, because " 4 ep4
unset KERN_EMU_FABRIC
export KERN_EMU_FAIL=cuMemCreate:1:CUDA_ERROR_NOT_PERMITTED@1
run_road "fabric handles that one rank may not make" "file descriptors, because " 4 barrier4
export KERN_EMU_FAIL=cuMemImportFromShareableHandle:1:CUDA_ERROR_INVALID_DEVICE@0
run_road "fabric handles that one rank may not map" "file descriptors, because " 2 barrier2
unset KERN_EMU_FAIL

# Reports that follow each other.
minimal=$examples/minimal/model.json
report=$work/kept.json
launch 1 "$minimal" --json "$report"
cp "$report" "$work/first.json"
launch 1 "$minimal" -n 3 -w 1 -J "$report"
check "a second report: ends with 0" ended_with 0
check "a second report: the first is kept as FILE~" cmp "$work/first.json" "$report~"
check "a second report: it is said" says "$report~"
check "-n and -w: steps are counted" \
    json "$report" "r['programs'][0]['steps'] == 3 and r['programs'][0]['warmup'] == 1"
check "without --check nothing is called right" json "$report" "r['check']['verdict'] == 'unchecked'"
check "without --check it says how to ask for one" prints "check not asked for"
check "the report names manifest, digest and road" json "$report" "len(r['manifest_sha256']) == 64
    and r['manifest'] == '$minimal' and r['model'] == 'minimal' and r['handle_kind_why']"

if [ -z "$gpu" ]; then
    launch 1 "$minimal" --device auto --json "$report"
    check "without a GPU: emu, and why" json "$report" "r['device'] == 'emu' and 'libcuda.so.1' in r['device_why']"
fi

# Made-up inputs, and what chooses them.
made=$work/made
mkdir "$made"
launch 2 "$minimal" --output "$made/a{rank}"
check "made-up inputs: ends with 0" ended_with 0
launch 2 "$minimal" --output "$made/b{rank}" --seed 1
launch 2 "$minimal" --output "$made/c{rank}" --seed 2
launch 2 "$minimal" --output "$made/d{rank}" --seed=2 --seed-per-rank
for dtype in f32 bf16; do
    check "made-up inputs: $dtype, the same on every rank" tensors same "y_$dtype" "$made/a0" -- "$made/a1"
    check "--seed 1 is the default ($dtype)" tensors same "y_$dtype" "$made/a0" -- "$made/b0"
    check "--seed 2: others ($dtype)" eval "! tensors same y_$dtype $made/a0 -- $made/c0"
    check "--seed-per-rank: others on each rank ($dtype)" eval "! tensors same y_$dtype $made/d0 -- $made/d1"
done
# y = 1.5 x - 0.25, x in [-1, 1].
check "made-up inputs lie in their domain" tensors range y_f32 -1.75 1.25 "$made/a0" "$made/d0" "$made/d1"

# The options that choose programs and vars.
launch 1 "$minimal" --var count=5 --program step --json "$report" --output "$made/five"
check "--var: ends with 0" ended_with 0
check "--var and --program are in the report" json "$report" \
    "r['programs'][0]['name'] == 'step' and r['programs'][0]['vars'] == {'count': 5}"
check "--var: it is the shape of the output" eval "tensors show $made/five y_f32 | grep -q '^F32 \\[5\\] '"
launch 2 "$examples/ep2/model.json" --weights "$examples/ep2/weights.safetensors" --var tokens=3 \
    --output "$made/ep{rank}" --json "$report"
check "ep with made-up inputs: ends with 0" ended_with 0
check "ep with made-up inputs: 3 rows" eval "tensors show $made/ep1 y | grep -q '^F32 \\[3, 128\\] '"

# Groups: the ep example over 4 ranks as two groups in a world of 8, whose ranks get the inputs of
# their place in the group.
places() { # REPORT: the group and the index of each world rank
    python3 -B -c 'import json, sys
print(*("%(number)d.%(index)d" % rank["groups"]["ep"] for rank in json.load(open(sys.argv[1]))["ranks"]))' "$1"
}
run_groups() { # NAME "PLACES…" [WORD…]
    local name=$1 expected=$2 rank=0 place
    shift 2
    rm -rf "$work/placed"
    mkdir "$work/placed"
    for place in $expected; do
        cp "$examples/ep4/inputs-${place#*.}.safetensors" "$work/placed/inputs-$rank"
        cp "$examples/ep4/expected-${place#*.}.safetensors" "$work/placed/expected-$rank"
        rank=$((rank + 1))
    done
    # shellcheck disable=SC2086
    launch 8 "$examples/ep4/model.json" -n 5 -w 2 $tolerances --weights "$examples/ep4/weights.safetensors" \
        --input "$work/placed/inputs-{rank}" --check "$work/placed/expected-{rank}" --json "$report" "$@"
    check "$name: ends with 0" ended_with 0
    check "$name: outputs are as expected" grep -q '^check ok: ' "$run/out"
    check "$name: ranks are where they should be" test "$(places "$report")" = "$expected"
}
run_groups "groups of 4 in a world of 8, by default" "0.0 0.1 0.2 0.3 1.0 1.1 1.2 1.3"
run_groups "--group ep=stride" "0.0 1.0 0.1 1.1 0.2 1.2 0.3 1.3" --group ep=stride
printf '# the second half first, backwards\nep: 7 6 5 4\n\nep 0,1,2,3\n' >"$work/groups"
run_groups "--groups FILE" "1.0 1.1 1.2 1.3 0.3 0.2 0.1 0.0" --groups "$work/groups"
check "nothing is left" nothing_left
finish
