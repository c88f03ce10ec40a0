#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Pipelines: the stages of a cut give what the whole gives, byte for byte, whatever the depth, with graphs
# and without, one beside the other, with groups in a stage; and what is refused.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/lib.sh"
kern=$build/bin/kern
chain=$examples/chain
model=$chain/model.json
data=(--input "$chain/inputs-0.safetensors" --check "$chain/expected-0.safetensors")

is_right() { # WHAT
    check "$1: ends with 0" ended_with 0
    check "$1: nothing on stderr" test ! -s "$run/err"
    check "$1: nothing is left" nothing_left
}

# 2, 3 and 4 stages. The running sum is written on an early one and read back there.
for way in "4 1" "4,6 3" "2,4,6 2"; do
    points=${way% *} depth=${way#* }
    commas=${points//[!,]/}
    ranks=$((${#commas} + 2))
    for graphs in off on; do
        what="cut at $points, depth $depth, graphs $graphs"
        rm -f "$work/cut.json"
        launch "$ranks" --cut "$points" "$model" --depth "$depth" -G $graphs "${data[@]}" \
            --compare "$model" -n 12 -w 2 --json "$work/cut.json"
        is_right "$what"
        check "$what: what the whole gives" prints "compare ok: 3 outputs of 1 rank, 49152 bytes"
        check "$what: what was expected" prints "check ok: 3 outputs of 1 rank, 12288 elements, largest error 0"
    done
    check "$what: the report says where it ran" json "$work/cut.json" \
        "[rank['pipeline']['stage'] for rank in r['ranks']] == list(range($ranks)) and
         r['pipeline']['depth'] == $depth and len(r['pipeline']['stages']) == $ranks and
         all(rank['pipeline']['items'] == 24 for rank in r['ranks'])"
    check "$what: every part of an item was timed" json "$work/cut.json" \
        "all(0 < rank['pipeline']['busy_ns'] and
             sum(rank['pipeline'][part] for part in ('busy_ns', 'input_wait_ns', 'room_wait_ns', 'copy_ns'))
             <= rank['pipeline']['span_ns'] for rank in r['ranks'])"
    check "$what: graphs were graphs" json "$work/cut.json" "all(p['graph'] for p in r['programs'])"
done
digest=$(sha256sum <"$model" | cut -d ' ' -f 1)
check "cut by the run: the whole is named with its hash" prints "$model (sha256 ${digest:0:12})"
check "cut by the run: the whole is named with its hash, in JSON" json "$work/cut.json" \
    "{part['manifest_sha256'] for part in (r, *r['pipeline']['stages'])} == {'$digest'}"
check "the table of stages" grep -qE '^#  stage  rank  items +busy +input +room +copy +bubble$' "$run/out"

# Fewer rows than the maximum, random delays before everything that a device does, file descriptors.
KERN_EMU_DELAY_US_MAX=300 KERN_EMU_FABRIC=0 launch 3 --cut 4,6 "$model" --var rows=1000 \
    --compare "$model" -n 10 -w 1 --seed 7
is_right "delays and file descriptors"
check "delays and file descriptors: the live bytes" prints "compare ok: 3 outputs of 1 rank, 12000 bytes"

# Files, in any order, two pipelines side by side; {rank} is the pipeline's number.
"$kern" cut --at 4 --out "$work/stages" "$model" >/dev/null
cp "$chain"/*.so "$work/stages"
stages=("$work/stages/stage1.json" "$work/stages/stage0.json")
cp "$chain/inputs-0.safetensors" "$work/in-0"
cp "$chain/expected-0.safetensors" "$work/want-0"
python3 -B "$source_dir/examples/chain/generate.py" --kernels "$build/kernels" --out "$work/other" --seed 2
cp "$work/other/inputs-0.safetensors" "$work/in-1"
cp "$work/other/expected-0.safetensors" "$work/want-1"
launch 4 "${stages[@]}" --input "$work/in-{rank}" --check "$work/want-{rank}" --output "$work/out-{rank}" -n 5 \
    --json "$work/two.json"
is_right "two pipelines"
check "two pipelines: each gives its own" prints "check ok: 6 outputs of 2 ranks"
check "two pipelines: two files, by the last stage" test -s "$work/out-0" -a -s "$work/out-1" -a ! -e "$work/out-2"
check "two pipelines: each stage is named with its hash" json "$work/two.json" \
    "[stage['manifest_sha256'] for stage in r['pipeline']['stages']] ==
     '$(sha256sum "$work"/stages/stage{0,1}.json | cut -d ' ' -f 1 | tr '\n' ' ')'.split()"
check "two pipelines: member i hands to member i" grep -qE '^#   stage 1 on ranks 2 to 3: .*/stage1.json$' "$run/out"

# What is made up, whichever stage reads it.
launch 2 --cut 3 "$model" -n 1
check "no inputs: those of all stages are named" prints "# inputs made up from their domains: x, total; --seed 1"

# A stage alone: what would arrive is an input like others.
python3 -B - "$source_dir" "$work" <<'PYTHON'
import pathlib, sys
sys.path.insert(0, sys.argv[1] + "/examples")
from manifest import Tensor, f32, write_safetensors
work, rows = pathlib.Path(sys.argv[2]), 4096
left, right = [f32(i / 8192) for i in range(rows)], [f32(-i / 4096) for i in range(rows)]
step = lambda values, a, b: [f32(f32(a * v) + b) for v in values]
tensor = lambda values: Tensor("f32", [rows], values)
write_safetensors(work / "arriving", {"left": tensor(left), "right": tensor(right)})
left, right = step(left, 1.25, 0.125), step(right, -1.5, 0.5)
write_safetensors(work / "leaving", {
    "left": tensor(left), "right": tensor(right),
    "y": tensor(step(left, 3.0, -1.0)), "z": tensor(step(right, 0.25, 0.75))})
PYTHON
launch 1 "$work/stages/stage1.json" --program a --input "$work/arriving" --check "$work/leaving" -n 3
is_right "a stage alone"
check "a stage alone: right" prints "check ok: 4 outputs of 1 rank"
launch 1 "$work/stages/stage1.json" -n 2
is_right "a stage alone, with made-up arrivals"

# Groups in a stage: every program of every stage ends with a barrier of two ranks.
python3 -B - "$model" "$examples/barrier2/model.json" "$work" <<'PYTHON'
import json, pathlib, sys
chain, barrier = (json.load(open(path)) for path in sys.argv[1:3])
work = pathlib.Path(sys.argv[3])
def with_barrier(m, name):
    m["topology"] = barrier["topology"]
    for part in ("buffers", "modules", "ops"):
        m[part].update(barrier[part])
    for program in m["programs"].values():
        program["calls"].append(barrier["programs"]["step"]["calls"][0])
    (work / name).write_text(json.dumps(m))
with_barrier(chain, "whole-tp2.json")
for stage in range(2):
    with_barrier(json.load(open(work / f"stages/stage{stage}.json")), f"stage{stage}-tp2.json")
PYTHON
cp "$examples/barrier2/peer_barrier.so" "$work/stages"
launch 4 "$work"/stage{0,1}-tp2.json --kernels "$work/stages" --compare "$work/whole-tp2.json" -n 6 -w 1 \
    --json "$work/tp2.json" --picture "$work/tp2.svg" --seed-per-rank
is_right "groups in a stage"
check "groups in a stage: what the whole gives" prints "compare ok: 8 outputs of 2 ranks"
check "groups in a stage: they lie in it" json "$work/tp2.json" \
    "[[rank['groups']['all'][part] for part in ('number', 'index')] for rank in r['ranks']] ==
     [[0, 0], [0, 1], [0, 0], [0, 1]]"
check "groups in a stage: what is mapped, of peers and of the stage after" json "$work/tp2.json" \
    "[rank['fabric']['mappings'] for rank in r['ranks']] == [2, 2, 1, 1]"
check "groups in a stage: the roads of each" json "$work/tp2.json" \
    "[(g['name'], g['stage'], g['members'], g['groups'], g['shared_exports'], g['memory']) for g in r['groups']] ==
     [('all', 0, 2, 1, 1, 'fabric'), ('all', 1, 2, 1, 1, 'fabric')]"
for what in "stage: 2 groups of 2" "0: ranks 0-1" "1: ranks 2-3" "stage 0 all: 1 group of 2" "stage 1 all: 1 group of 2"; do
    check "groups in a stage: the picture shows $what" grep -qF ">$what" "$work/tp2.svg"
done

# A checkpoint, states and a once program, on 4 stages.
llama=$examples/llama
for way in "1 --eager" "3 -Gon"; do
    launch 4 --cut 7,14,20 "$llama/tp1/model.json" --weights "$llama/checkpoint" --depth "${way% *}" "${way#* }" \
        --compare "$llama/tp1/model.json" -n 6 -w 1
    is_right "llama, depth $way"
    check "llama, depth $way: what the whole gives" prints "compare ok: 1 output of 1 rank"
done

# A cut that computes something else is found.
python3 -B -c 'import json, sys
m = json.load(open(sys.argv[1]))
m["programs"]["b"]["calls"][0]["args"][1]["f32"] = 1.75
json.dump(m, open(sys.argv[2], "w"))' "$work/stages/stage1.json" "$work/stages/wrong.json"
launch 2 "$work/stages/stage0.json" "$work/stages/wrong.json" --compare "$model" -n 2 -w 0
check "a stage that differs: ends with 1" ended_with 1
check "a stage that differs: it is said" grep -qE 'error: y: [0-9]+ of 4096 elements differ' "$run/err"

# Refused, before anything is loaded.
job refuses 2 3 "3 ranks for 2 stages" "${stages[@]}" -- "3 ranks cannot run 2 stages" "mpirun -np 2"
job refuses 3 2 "the same stage twice" "${stages[0]}" "${stages[0]}" -- "is stage 1, which" "kern cut"
job refuses 3 2 "a stage and a whole" "${stages[0]}" "$model" -- "is no stage of a pipeline"
"$kern" cut --at 2 --out "$work/others" "$model" >/dev/null
job refuses 3 2 "stages of two cuts" "${stages[0]}" "$work/others/stage0.json" -- "was cut as" "stage 0 ("
job refuses 3 2 "a point that is none" --cut 8 "$model" -- "none of them behind the point 8"
job refuses 2 2 "an unknown var" "${stages[@]}" --var row=3 -- 'no var "row"'
job refuses 2 4 "outputs of two pipelines in one file" "${stages[@]}" --output "$work/one" -- \
    "all 2 ranks of the last stage would write"
job refuses 4 2 "an input that no stage has" "${stages[@]}" --input "$work/arriving" -- \
    'no input or inout buffer "left"'
end_jobs

# A handle that is not to be had on one rank, by either road: all leave at once.
for road in 1 0; do
    export KERN_EMU_FABRIC=$road KERN_EMU_FAIL=cuMemExportToShareableHandle:2@1
    launch 3 --cut 4,6 "$model" -n 2
    unset KERN_EMU_FABRIC KERN_EMU_FAIL
    check "no handle, road $road: ends with 5" ended_with 5
    check "no handle, road $road: rank and reason" grep -qE 'share: rank 1 .*what arrives from the stage before' "$run/err"
    check "no handle, road $road: in time" in_time
    check "no handle, road $road: nothing is left" nothing_left
done

# A stage that stands still is named by both neighbours.
KERN_EMU_FAIL=cuLaunchKernelEx:60:stop@1 launch 3 --cut 4,6 "$model" -n 1000000 -T 2
check "a stopped stage: ends with 6" ended_with 6
check "a stopped stage: it is named" grep -qE 'rank 1 \(.*\) is stopped: phase drive' "$run/err"
check "a stopped stage: by the one before" grep -qE 'rank 0 \(.*waits for room in stage 1 \(rank 1,' "$run/err"
check "a stopped stage: by the one after" grep -qE 'rank 2 \(.*waits for input from stage 1 \(rank 1,' "$run/err"
check "a stopped stage: nothing is left" nothing_left
finish
