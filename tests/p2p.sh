#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# examples/p2p: the matrix is whole, its figures are possible ones, and wrong bytes and missing pairs
# are found.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"
example=$source_dir/examples/p2p
export KERN_BUILD=$build TMPDIR=$work

# matrix RANKS [WORD…]: run.sh with these words; its JSON goes to $work/matrix.json.
matrix() {
    local ranks=$1
    shift
    echo "run.sh -np $ranks $*" >"$run/command"
    rm -f "$work/matrix.json"
    bash "$example/run.sh" -np "$ranks" --bytes 65536 --rounds 5 --json "$work/matrix.json" "$@" \
        -- --device emu >"$run/out" 2>"$run/err"
    echo $? >"$run/status"
}

# of_pairs EXPRESSION: whether it holds for every rank a, every rank b and the tables t.
of_pairs() {
    python3 -B -c 'import json, sys
t = json.load(open(sys.argv[1]))
n = range(t["ranks"])
names = ("write_gb_s", "read_gb_s", "flag_us")
sys.exit(not all(len(t[name]) == len(n) and all(len(row) == len(n) for row in t[name]) for name in names)
         or not all(eval(sys.argv[2]) for a in n for b in n))' "$work/matrix.json" "$1"
}

look() { # WHAT
    check "$1: ends with 0" ended_with 0
    check "$1: copies between all pairs took time, and less than forever" \
        of_pairs "0 < t['write_gb_s'][a][b] < 1e5 and 0 < t['read_gb_s'][a][b] < 1e5"
    check "$1: flags between all pairs, and none between a rank and itself" \
        of_pairs "t['flag_us'][a][b] is None if a == b else 0 < t['flag_us'][a][b] < 1e7"
    check "$1: three tables" test "$(grep -c '^# \(write\|read\|flag\): ' "$run/out")" -eq 3
}
for ranks in 1 2 4; do
    matrix "$ranks"
    look "$ranks ranks"
done
for ranks in 3 4; do
    matrix "$ranks" --concurrent
    look "$ranks ranks, pairs at once"
done
matrix 2 --bytes 7
check "a size that is no multiple of 16: the generator says so" says "--bytes is a multiple of 16"
check "a size that is no multiple of 16: ends with 1" ended_with 1

# By hand: too few steps, and bytes that came wrong.
python3 -B "$example/generate.py" --kernels "$build/kernels" --out "$work/model" --ranks 2 --bytes 4096
launch 2 "$work/model/model.json" --output "$work/out-{rank}" --check "$work/model/expected-{rank}.safetensors" \
    -w 0 -n 3
check "2 ranks by hand: ends with 0" ended_with 0
check "2 ranks by hand: no word is wrong" prints "check ok"
table() {
    python3 -B "$example/matrix.py" "$@" >"$run/out" 2>"$run/err"
    echo $? >"$run/status"
}
table "$work/out-{rank}"
check "3 steps of 2 ranks: matrix.py ends with 1" ended_with 1
check "3 steps of 2 ranks: matrix.py names the pair and the remedy" says "the first of them (1, 1)"
check "3 steps of 2 ranks: matrix.py names the remedy" says "--steps 4"
launch 2 "$work/model/model.json" --output "$work/out-{rank}" -w 0 -n 4
table "$work/out-{rank}"
check "4 steps of 2 ranks: matrix.py ends with 0" ended_with 0
python3 -B "$source_dir/tests/tensors.py" change "$work/out-1" "$work/wrong-1" value=wrong_words:0:3
cp "$work/out-0" "$work/wrong-0"
table "$work/wrong-{rank}"
check "wrong bytes: matrix.py ends with 1" ended_with 1
check "wrong bytes: matrix.py says whose" says "(1, 0)"
edit_manifest "$work/model/model.json" "$work/model/model.json" \
    'm["programs"]["ready"]["calls"][0]["args"][1] = {"i32": 1}'
launch 2 "$work/model/model.json" --check "$work/model/expected-{rank}.safetensors" -w 0 -n 4
check "rank 0 fills its outbox with what is not its own: the kernels see every word of it" \
    says "the first is [0]: 2048, expected 0" # 1024 that rank 0 wrote, 1024 that were read from it
check "rank 0 fills its outbox with what is not its own: ends with 1" ended_with 1
table "$work/absent-{rank}"
check "no outputs: matrix.py says how to get them" says "--output"
finish
