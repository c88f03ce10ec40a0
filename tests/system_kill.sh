#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Ranks that are killed or never come back, in every phase: the job ends soon, with 128 + 9 from mpirun
# or 6, and leaves nothing behind.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"

ep=$examples/ep4
ep_words=("$ep/model.json" --weights "$ep/weights.safetensors")

# kill_rank RANK SECONDS WHAT WORD…: kills this rank of 4 so many seconds after it has started.
kill_rank() {
    local rank=$1 delay=$2 what="$3, rank $1" pid="" tries began
    shift 3
    launch 4 "$@" &
    for ((tries = 0; tries < 200; tries++)); do
        pid=$(process_of_rank "$rank")
        [ -n "$pid" ] && break
        sleep 0.05
    done
    sleep "$delay"
    check "$what: it runs until then" kill -9 "$pid"
    began=$(date +%s%N)
    wait
    echo $((($(date +%s%N) - began) / 1000000)) >"$run/ms"
    check "$what: ends with 137" ended_with 137
    check "$what: ends in time" in_time
    check "$what: nothing is left" nothing_left
}

# kill_held FUNCTION SECONDS WHAT: two ranks, one after the other, while every rank is in this function.
kill_held() {
    export KERN_EMU_DELAY=$1
    job kill_rank 0 "$2" "$3" "${ep_words[@]}"
    job kill_rank 3 "$2" "$3" "${ep_words[@]}"
    unset KERN_EMU_DELAY
}

# A pipe that nobody writes to holds whoever reads it.
mkfifo "$work/pipe"

for rank in 0 2; do
    job kill_rank "$rank" 0 "as it starts" "${ep_words[@]}"
    job kill_rank "$rank" 1 "reading the manifest" "$work/pipe"
    job kill_rank "$rank" 2 "stepping" "${ep_words[@]}" -n 1000000
    job kill_rank "$rank" 2 "in a barrier" "$examples/barrier4/model.json" -n 1000000
done
export KERN_EMU_FABRIC=0
job kill_rank 1 2 "stepping, memory shared by file descriptors" "${ep_words[@]}" -n 1000000
kill_held cuMemImportFromShareableHandle:1500ms 4 "share, file descriptors"
unset KERN_EMU_FABRIC
kill_held cuInit:1000s 1 "topology, opening the device"
kill_held cuDeviceGetUuid:1000s 1 "topology, choosing the device"
kill_held cuModuleLoadData:1000s 1 "load, modules"
kill_held cuMemSetAccess:1000s 1 "load, memory"
# Once for the trial of fabric handles, then for each buffer of each peer.
kill_held cuMemImportFromShareableHandle:1500ms 4 "share"
kill_held cuLaunchKernelEx:1000s 1 "once"
kill_held cuEventElapsedTime:1000s 2 "after the first step"
# Wherever it is by then.
for delay in 0.1 0.2 0.3 0.4 0.5; do
    job kill_rank 1 "$delay" "after $delay s" "${ep_words[@]}" -n 1000000
done
end_jobs

# late FUNCTION PHASE: rank 1 never returns from it; the others give up after --timeout, which must be
# enough for a start on a busy machine, and say who is late.
late() {
    export KERN_EMU_DELAY=$1:1000s@1
    time_limit=30 launch 4 "${ep_words[@]}" -T 4
    echo $(($(cat "$run/ms") - 4000)) >"$run/ms"
    check "rank 1 stays in $1: ends with 6" ended_with 6
    check "rank 1 stays in $1: the limit is named" grep -qE "^kern-rank: .*waited 4 s .*--timeout" "$run/err"
    check "rank 1 stays in $1: rank and phase are named" \
        grep -qE "^kern-rank: rank 1 \([^)]*\) is still busy: phase ($2)\b" "$run/err"
    check "rank 1 stays in $1: they are named once" \
        test "$(grep -c '^kern-rank: rank 1 ' "$run/err")" -eq 1
    check "rank 1 stays in $1: ends in time after the limit" in_time
    check "rank 1 stays in $1: nothing is left" nothing_left
}
job late cuInit topology
job late cuDeviceGetUuid topology
job late cuMemExportToShareableHandle load
job late cuModuleLoadData load
job late cuMemcpyHtoDAsync "load|share|peers"
job late cuLaunchKernelEx "once"
job late cuEventElapsedTime "drive"
end_jobs

# mpirun ended from outside.
end_mpirun() { # SIGNAL
    local pid tries
    launch 4 "${ep_words[@]}" -n 1000000 &
    for ((tries = 0; tries < 200; tries++)); do
        [ -n "$(process_of_rank 3)" ] && break
        sleep 0.05
    done
    sleep 1
    pid=$(processes | sed -n 's/ mpirun$//p')
    check "SIG$1 to mpirun: it runs until then" kill "-$1" "$pid"
    wait
    sleep 2
    check "SIG$1 to mpirun: no process is left after 2 s" test -z "$(processes)"
}
job end_mpirun INT
job end_mpirun TERM
job end_mpirun KILL
end_jobs
finish
