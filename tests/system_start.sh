#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The start of a job: bench/start.sh gives its figures, and handles of exported memory cross in one
# collective per group, whatever the number of buffers.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"

use_run "$work/bench"
echo "bench/start.sh 1" >"$run/command"
KERN_BUILD=$build bash "$source_dir/bench/start.sh" 1 >"$run/out" 2>"$run/err"
echo $? >"$run/status"
check "bench/start.sh: ends with 0" ended_with 0
for line in "mpirun of an empty MPI program" "mpirun of kern-rank, ep, one step" "difference" \
    "main to first step, slowest rank"; do
    check "bench/start.sh: has a figure for: $line" grep -qE "^$line +-?[0-9]+\.[0-9]{3}" "$run/out"
done

# export_manifest BUFFERS: a model of so many exported buffers in $work/BUFFERS. Each has its addresses
# in two groups of 2 of a world of 4: one of neighbours, one across.
export_manifest() {
    PYTHONPATH=$source_dir/examples python3 -B - "$build/kernels" "$work/$1" "$1" <<'PY'
import sys

from manifest import Manifest, call, forward, launch

kernels, out, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
m = Manifest("exports", kernels, out)
m.module("toy_scale")
m.group("near", 2)
m.group("across", 2)
# The kernel knows nothing of the peers; that it is given them makes the runtime map them.
m.op("scale", ["inout buffer<f32>", "in buffer<u64>", "in buffer<u64>", "f32", "f32", "i32"],
     [launch("toy_scale", "toy_scale_f32", [1], 32,
             params=["in buffer<f32>", "inout buffer<f32>", "f32", "f32", "i32"], args=forward(0, 0, 3, 4, 5))])
calls = []
for i in range(count):
    m.buffer(f"x{i}", "f32", [16], "carry", export=True)
    for group in ("near", "across"):
        m.buffer(f"x{i}_{group}", "u64", [2], "peer", of=f"x{i}", group=group)
    calls.append(call("scale", f"x{i}", f"x{i}_near", f"x{i}_across", {"f32": 0.5}, {"f32": 1.0}, {"i32": 16}))
m.program("step", calls)
m.write()
PY
}

for count in 1 10 200; do
    check "$count exported buffers: a manifest is made" export_manifest "$count"
    use_run "$work/exports"
    launch 4 "$work/$count/model.json" --group across=stride -n 2 -w 0 --json "$work/$count.json"
    check "$count exported buffers: ends with 0" ended_with 0
    check "$count exported buffers in two groups: two collectives, $((2 * count)) mappings on each of 4 ranks" \
        json "$work/$count.json" "len(r['ranks']) == 4 and all(rank['fabric']['collectives'] == 2
            and rank['fabric']['mappings'] == 2 * $count for rank in r['ranks'])"
    check "$count exported buffers: nothing is left" nothing_left
done
finish
