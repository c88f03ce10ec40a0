#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Dispatch and combine of examples/ep through mapped memory, against the same tokens moved by
# MPI_Alltoallv with its packing and unpacking (bench/ep_alltoallv.c), between the same number of
# processes:
#
#     bench/ep.sh [--rounds 1] [--ranks "2 4 8"] [--kib "64 1024 16384"] [--hidden 2048] [--top-k 2]
#
# A size is that of the token rows of one rank, 64 to 65536 KiB. Both sides take turns within a
# round; MPI with each of the settings below, of which the best one counts.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../tests/lib.sh"

rounds=1 rank_counts="2 4 8" sizes="64 1024 16384" hidden=2048 top_k=2 experts=16
while [ $# -gt 0 ]; do
    case $1 in
    --rounds) rounds=$2 ;;
    --ranks) rank_counts=$2 ;;
    --kib) sizes=$2 ;;
    --hidden) hidden=$2 ;;
    --top-k) top_k=$2 ;;
    *)
        echo "ep.sh: $1 is none of --rounds --ranks --kib --hidden --top-k" >&2
        exit 2
        ;;
    esac
    shift 2
done

# One copy between processes by process_vm_readv (cma), or two through shared memory (none); and
# how Open MPI orders the messages of an alltoallv: 1 all at once, 2 in pairs.
mechanisms=(cma none)
algorithms=(1 2)
export OMPI_MCA_coll_tuned_use_dynamic_rules=1

# take RANKS OUT WORD…: runs it on so many ranks; what it prints goes to OUT.
take() {
    local ranks=$1 out=$2
    shift 2
    time_limit=550 launch "$ranks" "$@"
    if ! ended_with 0; then
        cat "$run/command" "$run/err" >&2
        exit 1
    fi
    cp "$run/out" "$out"
}

# alltoallv CASE ROUND RANKS MECHANISM ALGORITHM WORD…
alltoallv() {
    local case=$1 round=$2 ranks=$3 mechanism=$4 algorithm=$5
    shift 5
    OMPI_MCA_btl_vader_single_copy_mechanism=$mechanism OMPI_MCA_coll_tuned_alltoallv_algorithm=$algorithm \
        program=$build/bench/ep_alltoallv \
        take "$ranks" "$case/alltoallv-$mechanism$algorithm-$round.json" "$@"
}

# one_case RANKS KIB: all rounds of a size.
one_case() {
    local ranks=$1 tokens=$(($2 * 512 / hidden)) case=$work/cases/$1-$2 steps round mechanism algorithm
    steps=$((40960 / $2))
    steps=$((steps < 5 ? 5 : steps > 100 ? 100 : steps))
    local words=("$tokens" "$hidden" "$top_k" "$experts" "$steps" "$((steps / 5))")
    mkdir -p "$case"
    python3 -B "$source_dir/bench/ep_manifest.py" --kernels "$build/kernels" --out "$case" --ranks "$ranks" \
        --tokens "$tokens" --hidden "$hidden" --top-k "$top_k" --experts "$experts" || exit 1
    for ((round = 0; round < rounds; round++)); do
        for mechanism in "${mechanisms[@]}"; do
            for algorithm in "${algorithms[@]}"; do
                alltoallv "$case" "$round" "$ranks" "$mechanism" "$algorithm" "${words[@]}" "$case"
            done
        done
        take "$ranks" "$case/out" "$case/model.json" --input "$case/inputs-{rank}.safetensors" \
            --check "$case/expected-{rank}.safetensors" -n "$steps" -w "$((steps / 5))" \
            --json "$case/report-$round.json"
    done
    rm "$case"/*.safetensors
}

for ranks in $rank_counts; do
    for size in $sizes; do
        one_case "$ranks" "$size"
    done
done
echo "# $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg); $rounds rounds; $(mpirun --version | head -1)"
echo "# MPI settings: cma one copy, none two; 1 messages at once, 2 in pairs; ratio: kern-rank / MPI"
python3 -B "$source_dir/bench/ep_table.py" --hidden "$hidden" --top-k "$top_k" --experts "$experts" "$work"/cases/*
