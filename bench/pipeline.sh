#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What the hand-over from stage to stage of a pipeline costs (bench/pipeline.c), in one table:
#
#     bench/pipeline.sh [--rounds 3] [--stages 4] [--us "1000 5000"] [--items 200] [--bytes "8192 16777216"]
#
# Stages that are busy for a known time: the time of an item through all of them, against that time (which
# says something where there are as many processors as stages) and against the same calls without hand-over.
# And the hand-over itself against MPI between the same two processes. Of several rounds the fastest counts;
# of hand-overs the one in which MPI was fastest, whichever of its ways to move a message that took.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../tests/lib.sh"

rounds=3 stages=4 times="1000 5000" items=200 sizes="8192 16777216"
while [ $# -gt 0 ]; do
    case $1 in
    --rounds) rounds=$2 ;;
    --stages) stages=$2 ;;
    --us) times=$2 ;;
    --items) items=$2 ;;
    --bytes) sizes=$2 ;;
    *)
        echo "pipeline.sh: $1 is none of --rounds --stages --us --items --bytes" >&2
        exit 2
        ;;
    esac
    shift 2
done
program=$build/bench/bench_pipeline

# take RANKS WORD…: a run whose row goes to the end of $work/rows.
take() {
    time_limit=300 launch "$@"
    if ! ended_with 0; then
        cat "$run/command" "$run/err" >&2
        exit 1
    fi
    cat "$run/out" >>"$work/rows"
}

# best COLUMN: of the rows, the one with the least there.
best() {
    sort -g -k "$1" "$work/rows" | head -1
}

echo "# $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg); best of $rounds rounds; $(mpirun --version | head -1)"
echo "# stages: µs of an item, of a stage, and without hand-over; stage / item and alone / item"
echo "# handover: µs of ours and of MPI; ours / MPI"
printf '# %-9s %6s %10s %12s %12s %12s %8s %8s\n' what ranks bytes item/ours stage/MPI alone ratio alone
for us in $times; do
    : >"$work/rows"
    for ((round = 0; round < rounds; round++)); do
        take "$stages" stages "$us" 8192 "$items"
    done
    best 4
done
for size in $sizes; do
    : >"$work/rows"
    for ((round = 0; round < rounds; round++)); do
        for mechanism in cma none; do
            OMPI_MCA_btl_vader_single_copy_mechanism=$mechanism take 2 handover "$size" 50
        done
    done
    best 5
done
