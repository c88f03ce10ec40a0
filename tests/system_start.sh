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
    python3 -B "$source_dir/tests/exports.py" "$build/kernels" "$work/$1" "$1" near=2 across=2
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
