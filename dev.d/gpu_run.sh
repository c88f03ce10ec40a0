#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every example on a CUDA device, with one rank and with several that share the device, launch by
# launch and as graphs, and compares what comes out with what is expected and with what emu computes.
#
#     run.sh [--device cuda|emu] [--report FILE] [--seconds N] [--smallest] [--only REGEX]
#
# It stands in a folder that ./dev gpu --pack made, which may be moved, and needs bash, coreutils, awk and
# the C library of the machine, no Open MPI and no toolkit. Nothing but the report is written outside of a
# temporary folder. Exit: 0 all is well, 1 something is not or no example was run, 2 usage, 77 there is no CUDA device.
set -uo pipefail

pack=$(CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")" && pwd)
device=cuda report=gpu-report.txt seconds=540 smallest='' only=''

usage() {
    sed -n '/^#     run.sh/s/^# *//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
    --smallest) smallest=1 ;;
    --device | --report | --seconds | --only)
        [ $# -ge 2 ] || usage
        declare "${1#--}=$2"
        shift
        ;;
    *) usage ;;
    esac
    shift
done
case $device in cuda | emu) ;; *) usage ;; esac
[[ $seconds =~ ^[0-9]{1,9}$ ]] || {
    echo "run.sh: --seconds is a number of seconds, not '$seconds'" >&2
    exit 2
}
[[ '' =~ $only ]]
[ $? -le 1 ] || {
    echo "run.sh: --only '$only' is not a regular expression" >&2
    exit 2
}

export PATH=$pack/bin:${PATH:-/usr/bin:/bin} LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OPAL_PREFIX=$pack OPAL_BINDIR=$pack/bin OPAL_LIBDIR=$pack/lib OPAL_PKGLIBDIR=$pack/lib/openmpi
export OPAL_PKGDATADIR=$pack/share-openmpi OPAL_SYSCONFDIR=$pack/etc
export PMIX_PREFIX=$pack PMIX_LIBDIR=$pack/lib PMIX_PKGLIBDIR=$pack/lib/pmix
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
export KERN_CACHE_DIR=$pack/no-cache
unset CUDA_VISIBLE_DEVICES KERN_EMU_DEVICES KERN_EMU_MEMORY KERN_EMU_FABRIC KERN_EMU_FAIL

if [ "$device" = cuda ] && [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
    echo "run.sh: there is no CUDA device on this machine (no /dev/nvidiactl): nothing was run" >&2
    echo "run.sh: --device emu runs the same on the emulated one" >&2
    exit 77
fi
"$pack/bin/kern" --version >/dev/null || {
    echo "run.sh: the programs do not start here; they need the C library of the machine that packed them, or a later one" >&2
    exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# PMIx looks for a home, and ends with a fault where there is neither one nor an entry for the user.
export TMPDIR=$work HOME=$work
: >"$work/lines" && : >"$work/details"
passed=0 failed=0 skipped=0 runs=0

# has LIBRARY: whether the device's library is on this machine; emu has all of its own.
has() {
    local folders
    IFS=: read -ra folders <<<"$LD_LIBRARY_PATH"
    [ "$device" = emu ] || [[ $(PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null) = *"$1.so"* ]] ||
        [ -n "$(find "${folders[@]}" -maxdepth 1 -name "$1.so.*" 2>/dev/null | head -1)" ]
}

# line OUTCOME NAME SECONDS TEXT: of the report.
line() {
    printf '%-8s %-45s %6s  %s\n' "$@" | tee -a "$work/lines"
}

# run DEVICE RANKS WORD…: kern-rank, to its end; leaves out and err.
run() {
    local on=$1 ranks=$2 began=$SECONDS
    shift 2
    [ "$on" = emu ] || set -- --share-devices "$@"
    timeout -k 5 100 mpirun -np "$ranks" "$pack/bin/kern-rank" --device "$on" --timeout 60 "$@" \
        >"$work/out" 2>"$work/err" </dev/null
    status=$?
    took=$((SECONDS - began))
    runs=$((runs + 1))
}

# judge NAME: the outcome of the last run.
judge() {
    local text
    text=$(grep -E '^# check|^check' "$work/out" | tail -1 | sed 's/^# //')
    if [ $status -eq 0 ]; then
        passed=$((passed + 1))
        line ok "$1" "$took" "$text"
        { echo "=== $1" && grep -A8 -E '^# +program' "$work/out" | grep -v '^# *$'; } >>"$work/details"
        return 0
    fi
    failed=$((failed + 1))
    line FAILED "$1" "$took" "exit $status: $(grep -m1 -E 'kern-rank: ' "$work/err" || tail -n 1 "$work/err")"
    { echo "=== $1" && tail -n 40 "$work/out" "$work/err"; } >>"$work/details"
    return 1
}

skip() { # NAME WHY
    skipped=$((skipped + 1))
    line skipped "$1" - "$2"
}

# in_time NAME: whether it was asked for, and there is time for one more.
in_time() {
    [[ $1 =~ $only ]] || return
    [ $SECONDS -lt "$seconds" ] || {
        skip "$1" "the $seconds s are over"
        return 1
    }
}

mode_of() { # GRAPHS
    if [ "$1" = on ]; then echo graphs; else echo eager; fi
}

# The driven examples: NAME RANKS. Outputs must be those of emu, and as graphs the expected ones too.
driven() {
    local name=$1 ranks=$2 folder=$pack/examples/$1 words graphs right what computed=''
    local -A files=([emu]=$work/emu [expected]=$folder/expected)
    words=("$folder/model.json" --steps 5 --warmup 1)
    [ -e "$folder/inputs-0.safetensors" ] && words+=(--input "$folder/inputs-{rank}.safetensors")
    [ -e "$folder/weights.safetensors" ] && words+=(--weights "$folder/weights.safetensors")
    for graphs in off on; do
        for right in emu expected; do
            if [ $right = expected ] && { [ $graphs = off ] || [ ! -e "$folder/expected-0.safetensors" ]; }; then
                continue
            fi
            what="$name, $ranks ranks, $(mode_of $graphs): as $right"
            in_time "$what" || continue
            if [ $right = emu ] && [ -z "$computed" ]; then
                run emu "$ranks" "${words[@]}" --output "${files[emu]}-{rank}.safetensors"
                [ $status -eq 0 ] || judge "$name on emu" || return
                computed=1
            fi
            run "$device" "$ranks" "${words[@]}" -G $graphs --check "${files[$right]}-{rank}.safetensors" \
                --atol 1e-5 --rtol 1e-5
            judge "$what"
        done
    done
}

# Generation: MODEL NAME RANKS. Tokens must be those of the reference, and are emu's but for close calls.
generated() {
    local model=$1 name=$2 ranks=$3 checkpoint=$pack/examples/$1/checkpoint graphs what
    [ -d "$checkpoint" ] || return
    for graphs in off on; do
        what="$model $name, $ranks ranks, $(mode_of $graphs): as the reference"
        in_time "$what" || continue
        if ! has libcublasLt; then
            skip "$what" "libcublasLt is not on this machine"
        elif [ "$device" = cuda ] && [[ $name = *nccl* ]]; then
            skip "$what" "NCCL refuses ranks that share a device"
        else
            run "$device" "$ranks" "$pack/examples/$model/$name/model.json" --weights "$checkpoint" \
                --generate 16 --check-ids "$checkpoint/reference.json" -G $graphs
            judge "$what"
        fi
    done
}

machine() {
    echo "# kern-rank on $device: $("$pack/bin/kern" --version), $(date -u +%Y-%m-%dT%H:%MZ)"
    echo "# $(uname -srm), $(nproc) processors, C library $(getconf GNU_LIBC_VERSION 2>/dev/null)"
    if [ "$device" = cuda ]; then
        nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | sed 's/^/# /'
    fi
}

modules() {
    local manifest
    for manifest in "$pack"/examples/*/model.json "$pack"/examples/*/*/model.json; do
        "$pack/bin/kern" verify --kernels "$pack/kernels" "$manifest" >"$work/out" 2>"$work/err" && continue
        status=4 took=0
        judge "modules of ${manifest#"$pack"/examples/}"
        return
    done
    passed=$((passed + 1))
    line ok "modules of every manifest" 0 "$(grep -c . "$work/out") lines of the last: $(tail -n 1 "$work/out" | tr -s ' ')"
}

machine | tee "$work/machine"
modules
driven minimal 1
driven ep1 1
driven neighbour 2
for ranks in 2 4; do
    [ -z "$smallest" ] || [ $ranks = 2 ] || continue
    driven "barrier$ranks" $ranks
    driven "allreduce$ranks" $ranks
    driven "ep$ranks" $ranks
done
if [ -z "$smallest" ]; then
    driven neighbour4 4
    driven barrier 8
    driven allreduce 8
    driven ep 8
fi
for model in llama stories; do
    [ -z "$smallest" ] || [ $model = llama ] || continue
    generated $model tp1 1
    generated $model tp2 2
    [ -n "$smallest" ] || generated $model tp4 4
    generated $model tp2-nccl 2
done
summary="# $passed passed, $failed failed, $skipped skipped, in $SECONDS s"
echo "$summary"
{
    cat "$work/machine" "$work/lines"
    echo "$summary"
    echo
    cat "$work/details"
} >"$report" || exit 1
echo "# report: $report"
if [ $runs -eq 0 ]; then
    echo "run.sh: no example was run: $skipped skipped, of the others no name matches '$only'" >&2
    exit 1
fi
[ $failed -eq 0 ]
