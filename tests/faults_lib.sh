# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What becomes of a job when something happens to one of its ranks: one table of faults and phases for
# every launcher. A test calls cell for what it tries; each is tried, or its output says why not.
# shellcheck source=tests/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ulimit -c 0

# Most of the time a job waits: for mpirun, which takes a second to end what is left, or for a limit.
most_jobs=$((3 * $(nproc)))

faults=(kill stop exit abort error memory disk)

# phases_of DRIVEN|GENERATED: the phases of runs that drive programs, or generate, in their order.
phases_of() {
    echo start
    sed -n 's/^ *{"\([a-z]*\)", kern_[a-z_]*, \([A-Z| ]*\)},$/\1 \2/p' "$source_dir/launcher/main.c" |
        grep -w "$1" | cut -d' ' -f1
}
driven=$(phases_of DRIVEN)
generated=$(phases_of GENERATED)
# Every phase, those that only generation has at the end, and what is none: an item in a pipeline, and
# a call of one that generates.
mapfile -t phases < <(
    printf '%s\n' "$driven" leave
    grep -vxF "$driven" <<<"$generated"
    printf '%s\n' item tokens
)

# Where a rank is hit in a phase: in which call of the driver. In the others there is none; there it is
# in the agreement that ends them.
declare -A call=(
    [topology]=cuDeviceGetUuid:1
    [load]=cuModuleLoadData:2
    [share]=cuMemImportFromShareableHandle:2
    [peers]=cuMemcpyHtoDAsync:18
    [communicators]=ncclCommInitRankConfig:1
    [once]=cuLaunchKernelEx:1
    [capture]=cuStreamBeginCapture:1
    [drive]=cuLaunchKernelEx:60 # in the midst of a step
    [leave]=cuMemFree:1
    [generate]=cuGraphLaunch:3
    [item]=cuLaunchKernelEx:30
    [tokens]=cuGraphLaunch:9
)

# The code of the job: docs/exit-codes.md.
declare -A code=([kill]=137 [stop]=6 [exit]=70 [abort]=134 [error]=5 [memory]=5 [disk]=5)

# The seconds that others wait for a rank that is stopped; enough for a start on a busy machine.
timeout=4
nodes=1

# model_of PHASE: the words for a run that gets there and has every phase of its kind, in $words, its ranks
# ($world: for a launcher that needs more than two), and the one that is hit if rank 0 is not.
model_of() {
    ranks=${world:-2}
    [ "$1" = drive ] && ranks=4
    other=$((ranks - 1))
    local ep=$examples/ep$ranks
    words=("$ep/model.json" --weights "$ep/weights.safetensors" -n 20 -w 1
        --input "$ep/inputs-{rank}.safetensors" --check "$ep/expected-{rank}.safetensors"
        --atol 1e-6 --rtol 1e-5)
    case $1 in
    capture) words+=(-G on) ;;
    communicators)
        words=("$work/collective/model.json" -n 2)
        [ -d "$work/collective" ] || python3 -B "$source_dir/tests/rank_collective.py" 2 "$work/collective"
        ;;
    prompts | generate)
        words=("$examples/llama/tp2/model.json" --weights "$examples/llama/checkpoint"
            --generate 8 --prompt-ids "1,2,3" -G on)
        ;;
    item)
        ranks=3 other=1
        words=("$examples/chain/model.json" --cut "4,6" -n 20 --input "$examples/chain/inputs-0.safetensors")
        ;;
    tokens)
        ranks=3 other=1
        words=("$examples/llama/tp1/model.json" --cut "8,14" --weights "$examples/llama/checkpoint"
            --generate 40 --prompt-ids "1,2,3" --prompt-ids 7 -G on)
        ;;
    esac
    words+=(--picture "$run/picture.svg" --trace "$run/trace.json" --json "$run/report.json")
}
model_of communicators # makes it, before jobs run side by side

# Why a cell is not tried, line by line, or nothing.
reason() { # FAULT PHASE RANK
    case $1 in
    error | memory)
        [ -n "${call[$2]-}" ] || echo "no call of the device is made in this phase"
        ;;
    disk)
        case $2-$3 in
        check-* | picture-0 | trace-0 | report-0) ;;
        picture-* | trace-* | report-*) echo "only rank 0 writes that" ;;
        *) echo "nothing is written in this phase" ;;
        esac
        ;;
    esac
    # These end as kill does, and without memory as with any error, whoever it is: one rank each.
    case $1-$3-${KERN_TEST_ALL-} in
    exit-0- | memory-0- | abort-[1-9]-) echo "it is tried on another rank; KERN_TEST_ALL=1 tries all" ;;
    exit-* | abort-*)
        [ -n "${call[$2]-}${KERN_TEST_ALL-}" ] ||
            echo "a rank that is killed in this phase is as gone; KERN_TEST_ALL=1 tries all"
        ;;
    esac
}

# inject FAULT PHASE RANK: sets what makes that happen, and adds to $words.
inject() {
    local at=${call[$2]-} nth ending=${1#error}
    case $1 in
    disk)
        ln -s /dev/full "$run/full-$3"
        case $2 in
        check) words+=(--output "$run/full-{rank}") ;;
        report) words+=(--json "$run/full-$3") ;;
        *) words+=("--$2" "$run/full-$3") ;;
        esac
        return
        ;;
    memory)
        ending=CUDA_ERROR_OUT_OF_MEMORY
        [[ $at = nccl* ]] && ending=ncclSystemError
        ;;
    stop) words+=(-T "$timeout") ;;
    esac
    if [ -n "$at" ]; then
        export KERN_EMU_FAIL=$at${ending:+:$ending}@$3
        return
    fi
    nth=$(grep -nx "$2" <<<"$driven" || grep -nx "$2" <<<"$generated")
    export KERN_TEST_AGREEMENT=${nth%%:*}:$1@$3
    by_way=(env "LD_PRELOAD=$build/tests/libagreement_fault.so"
        "ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0")
}

# hit FAULT PHASE RANK: what happens.
hit() {
    local words ranks other by_way=()
    model_of "$2"
    inject "$@"
    launch "$ranks" "${words[@]}"
    look "$@"
}

# once WHAT PATTERN: whether one line of stderr, and no more, says that.
once() {
    check "$1" test "$(grep -cE -- "$2" "$run/err")" -eq 1
}

# look FAULT PHASE RANK: the end of the last run. A test may define launcher_says FAULT RANK, what the
# launcher says of it, and job_code FAULT, which codes it may make of it.
look() {
    local fault=$1 phase=$2 rank=$3 what="$1 in $2, rank $3" codes where at=${call[$2]-} cause stage=
    phase=${phase/item/drive} phase=${phase/tokens/generate}
    # In a pipeline both neighbours are named.
    [[ $2-$3 = @(item|tokens)-0 ]] && stage=", stage 0 before rank 1"
    [[ $2-$3 = @(item|tokens)-1 ]] && stage=", stage 1 between ranks 0 and 2"
    where="^kern-rank: rank $rank \([^),]+, pid [0-9]+$stage\)"
    # To give something back may fail: nothing depends on it any more.
    if [[ $fault-$phase = @(error|memory)-leave ]]; then
        check "$what: ends with 0" ended_with 0
        check "$what: outputs are as expected" prints "check ok"
        check "$what: nothing is left" nothing_left
        return
    fi
    read -ra codes < <(job_code "$fault")
    check "$what: ends with ${codes[*]}" ended_with "${codes[@]}"
    case $fault in
    kill | exit | abort)
        once "$what: the others say who is gone, and in which phase" "$where is gone: phase $phase\b"
        launcher_says "$what" "$fault" "$rank"
        check "$what: ends in time" in_time
        ;;
    stop)
        # Another node cannot see who it is. If that has ended the job first, the launcher wakes the rank,
        # and what its own node says of it, if anything, is not known.
        if [ "$nodes" -eq 1 ] || ! says "kern-rank: all ranks of this node are here; one on another node is late"; then
            once "$what: it is said who is stopped, and in which phase" "$where (is|was) stopped: phase $phase\b"
        fi
        check "$what: and for how long they waited, once on a node" grep -qx "[1-$nodes]" \
            < <(grep -c "^kern-rank: error: rank .* waited $timeout s .*--timeout" "$run/err")
        check "$what: ends in time after the limit" in_time "$timeout"
        ;;
    *)
        where="^kern-rank: $phase: rank $rank \([^),]+$stage\): error: "
        cause="\b${at%:*}\b"
        [ "$fault" = memory ] && cause+=".*(OUT_OF_MEMORY|system)"
        [ "$fault" = disk ] && cause="/full-$rank: cannot be written: No space left"
        once "$what: rank and cause are named" "$where.*$cause"
        check "$what: each message comes once" says_each_once
        check "$what: ends in time" in_time
        ;;
    esac
    check "$what: nothing is left" nothing_left
}
launcher_says() {
    :
}
job_code() {
    echo "${code[$1]}"
}

# cell FAULT PHASE RANK: tries it, beside others, or says why not.
cell() {
    local why
    why=$(reason "$@" | head -1)
    if [ -n "$why" ]; then
        echo "none  $1 in $2, rank $3: $why"
    else
        job hit "$@"
    fi
}
