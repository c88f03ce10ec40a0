#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every driver function that a run of the ep example calls fails once: the job ends with 5 and says
# which function failed where, and nothing is left. Each on one rank, these in turn; KERN_TEST_ALL=1
# takes every rank.
# shellcheck source=tests/faults_lib.sh disable=SC2317
. "$(dirname "$0")/faults_lib.sh"

# These give back what is no longer used. That one fails changes nothing of what was computed and
# leaves nothing to do but to end, which gives everything back.
cleanup="cuMemUnmap cuMemAddressFree cuMemRelease cuMemFree cuMemFreeHost cuEventDestroy cuStreamDestroy
    cuModuleUnload cuDevicePrimaryCtxRelease"

# Its first calls, one for each of emu's 8 devices, ask for the NUMA node, which older drivers do not
# know: without it the process is not bound. Later calls matter.
optional=cuDeviceGetAttribute

# run_ep RANKS [WORD…]
run_ep() {
    local at=$examples/ep$1
    launch "$1" "$at/model.json" --weights "$at/weights.safetensors" -n 2 -w 1 \
        --input "$at/inputs-{rank}.safetensors" --check "$at/expected-{rank}.safetensors" \
        --atol 1e-6 --rtol 1e-5 "${@:2}"
}

# look_at WHAT FUNCTION RANK: the last run, in which FUNCTION failed on RANK.
look_at() {
    check "$1: ends with 5" ended_with 5
    check "$1: function and rank are named" \
        grep -qE "^kern-rank: [a-z]+: rank $3 \([^)]+\): error: .*\b$2\b" "$run/err"
    check "$1: each message comes once" says_each_once
    check "$1: ends in time" in_time
    check "$1: nothing is left" nothing_left
}

# fail FUNCTION NTH[:ERROR] RANK RANKS [WORD…]: the run in which the function's nth call fails on that rank.
fail() {
    export KERN_EMU_FAIL=$1:$2@$3
    run_ep "$4" "${@:5}"
    look_at "$1:$2 on rank $3 of $4" "$1" "$3"
}

# harmless FUNCTION NTH RANK: its nth call (or, for *, every one) fails, and the result is right.
harmless() {
    export KERN_EMU_FAIL="$1:$2@$3"
    run_ep 2
    check "$1:$2 on rank $3, harmless: ends with 0" ended_with 0
    check "$1:$2 on rank $3, harmless: outputs are as expected" prints "check ok"
    check "$1:$2 on rank $3, harmless: nothing is left" nothing_left
}

KERN_EMU_CALLS=$work/calls run_ep 2
check "without a fault: ends with 0" ended_with 0
for rank in 0 1; do
    sed -n "s/^$rank \([^ ]*\) .*/\1/p" "$work/calls" | sort >"$work/called$rank"
done
check "both ranks call the same functions" cmp "$work/called0" "$work/called1"
mapfile -t called <"$work/called0"
echo "${#called[@]} functions are called: ${called[*]}"
for function in cuInit cuDeviceGetCount cuDevicePrimaryCtxRetain cuModuleLoadData cuMemCreate cuMemAddressReserve \
    cuMemMap cuMemSetAccess cuMemExportToShareableHandle cuMemImportFromShareableHandle cuMemAlloc \
    cuMemcpyHtoDAsync cuMemcpyDtoHAsync cuLaunchKernelEx cuEventRecord $cleanup $optional; do
    check "$function is among them" grep -qx "$function" "$work/called0"
done

turn=0
for function in "${called[@]}"; do
    turn=$((1 - turn))
    for rank in 0 1; do
        [ "$rank" = "$turn" ] || [ -n "${KERN_TEST_ALL-}" ] || continue
        if grep -qw "$function" <<<"$cleanup"; then
            job harmless "$function" '*' "$rank"
        elif [ "$function" = "$optional" ]; then
            job harmless "$function" 1 "$rank"
            job fail "$function" 9 "$rank" 2
        else
            job fail "$function" 1 "$rank" 2
        fi
    done
done

# Later calls: in the midst of sharing and of the steps, with other errors.
job fail cuMemCreate 4 0 4
job fail cuMemCreate 2:CUDA_ERROR_OUT_OF_MEMORY 3 4
job fail cuMemSetAccess 6 1 4
job fail cuMemImportFromShareableHandle 4:CUDA_ERROR_INVALID_DEVICE 2 4
job fail cuMemcpyHtoDAsync 9 1 2
job fail cuLaunchKernelEx 7 0 2
job fail cuLaunchKernelEx 7 3 4
job fail cuLaunchKernelEx 7:CUDA_ERROR_ILLEGAL_ADDRESS 1 2
job fail cuLaunchKernelEx 60 1 2 -n 20
job fail cuEventRecord 5 2 4
# The same where memory is shared by file descriptors.
export KERN_EMU_FABRIC=0
job fail cuMemExportToShareableHandle 1 0 2
job fail cuMemExportToShareableHandle 4 3 4
job fail cuMemImportFromShareableHandle 1 1 2
job fail cuMemImportFromShareableHandle 5 2 4
job fail cuMemMap 7 1 4
unset KERN_EMU_FABRIC
end_jobs

# Failures of several ranks.
export KERN_EMU_FAIL=cuMemAlloc:1@0,cuModuleLoadData:1@1
run_ep 2
look_at "cuMemAlloc on rank 0, cuModuleLoadData on rank 1" cuModuleLoadData 1
export KERN_EMU_FAIL=cuModuleLoadData:1
run_ep 4
check "cuModuleLoadData on all of 4: ends with 5" ended_with 5
check "cuModuleLoadData on all of 4: comes once" \
    test "$(grep -c '^kern-rank: load: all 4 ranks: error: .*cuModuleLoadData' "$run/err")" -eq 1
check "cuModuleLoadData on all of 4: nothing is left" nothing_left
finish
