#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What a start costs: start.sh [RUNS] (5). The whole of a run of ep with 8 ranks and a single step
# against the whole of an empty MPI program, in turns; medians, and from the least to the most.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../tests/lib.sh"

runs=${1-5}
ranks=8
ep=$examples/ep

# time_of NAME [WORD…]: adds the seconds of one run to the file NAME.
time_of() {
    local name=$1
    shift
    launch "$ranks" "$@"
    if ! ended_with 0; then
        cat "$run/err" >&2
        exit 1
    fi
    awk '{ printf "%.3f\n", $1 / 1000 }' "$run/ms" >>"$work/$name"
}

# summary NAME: "MEDIAN  LEAST .. MOST" of the file.
summary() {
    sort -n "$work/$1" | awk '{ s[NR] = $1 } END { printf "%8.3f   %.3f .. %.3f", s[int((NR + 1) / 2)], s[1], s[NR] }'
}

for ((i = 0; i < runs; i++)); do
    program=$build/bench/empty_mpi time_of empty
    time_of whole "$ep/model.json" --weights "$ep/weights.safetensors" \
        --input "$ep/inputs-{rank}.safetensors" -n 1 -w 0 --json "$work/report.json"
    python3 -B -c 'import json, sys
print(max(rank["start_seconds"] for rank in json.load(open(sys.argv[1]))["ranks"]))' \
        "$work/report.json" >>"$work/main"
done
median() {
    summary "$1" | awk '{ print $1 }'
}
cat <<TEXT
# start: $ranks ranks on $(nproc) processors, median of $runs runs in turns, seconds
mpirun of an empty MPI program        $(summary empty)
mpirun of kern-rank, ep, one step     $(summary whole)
difference                            $(awk -v a="$(median whole)" -v b="$(median empty)" 'BEGIN { printf "%8.3f", a - b }')
main to first step, slowest rank      $(summary main)
TEXT
