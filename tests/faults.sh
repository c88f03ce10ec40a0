#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every fault in every phase, on rank 0 and on another, under mpirun: the job ends soon, says who did
# what, and leaves nothing behind. Then what is not a matter of phases: a driver that never returns,
# memory shared by file descriptors, mpirun itself, file systems that are full.
# shellcheck source=tests/faults_lib.sh disable=SC2317
. "$(dirname "$0")/faults_lib.sh"

# launcher_says WHAT FAULT RANK
launcher_says() {
    case $2 in
    kill) once "$1: mpirun names rank and signal" "process rank $3 with PID .* exited on signal 9 " ;;
    abort) once "$1: mpirun names rank and signal" "process rank $3 with PID .* exited on signal 6 " ;;
    exit)
        once "$1: mpirun names the rank" "Process name: \[\[.*\],$3\]$"
        once "$1: mpirun names the code" "Exit code: +${code[exit]}$"
        ;;
    esac
}

for phase in "${phases[@]}"; do
    model_of "$phase"
    for fault in "${faults[@]}"; do
        cell "$fault" "$phase" 0
        cell "$fault" "$phase" "$other"
    done
done

# Before MPI has come up nobody can say anything but mpirun.
kill_at_once() { # RANK
    local pid
    launch 4 "${words[@]}" &
    until_runs "$1"
    check "killed as it starts, rank $1: it runs" kill -9 "$pid"
    wait
    check "killed as it starts, rank $1: ends with 137" ended_with 137
    check "killed as it starts, rank $1: ends in time" in_time
    check "killed as it starts, rank $1: nothing is left" nothing_left
}
model_of drive
words+=(-n 1000000)
job kill_at_once 0
job kill_at_once 3

# late FUNCTION PHASE: rank 1 never returns from it.
late() {
    local words ranks what="rank 1 stays in $1"
    model_of "$2"
    KERN_EMU_DELAY=$1:1000s@1 launch "$ranks" "${words[@]}" -T "$timeout"
    check "$what: ends with 6" ended_with 6
    once "$what: the limit is named" "^kern-rank: error: .*waited $timeout s .*--timeout"
    once "$what: rank and phase are named" "^kern-rank: rank 1 \([^)]*\) is still busy: phase $2\b"
    check "$what: ends in time after the limit" in_time "$timeout"
    check "$what: nothing is left" nothing_left
}
job late cuInit topology
job late cuMemExportToShareableHandle load
job late cuModuleLoadData load
job late cuLaunchKernelEx once
job late cuEventElapsedTime once # with --trace

# With file descriptors the ranks wait for each other at sockets.
export KERN_EMU_FABRIC=0
job hit kill share 1
job hit stop share 0
job hit kill drive 3
unset KERN_EMU_FABRIC

# Four ranks that do not need each other for a step, in the midst of which rank 3 stands.
stand() {
    KERN_EMU_FAIL=cuLaunchKernelEx:5:stop@3 launch 4 "$examples/minimal/model.json" -w 0 -n 1000000 \
        --json "$run/report.json" &
    until_stops 3
}

# end_mpirun SIGNAL: mpirun wakes what it ends.
end_mpirun() {
    local what="SIG$1 to mpirun" pid
    stand
    check "$what: it runs" kill "-$1" "$(processes | sed -n 's/ mpirun$//p')"
    wait
    # Its own files are there for ever if it is killed.
    [ "$1" = KILL ] && rm -rf "$run/tmp/"* "$run/shm/"*
    check "$what: nothing is left" nothing_left
}

# end_ranks SIGNAL NUMBER: all end after their step, and the report says what was measured.
end_ranks() {
    local what="SIG$1 to every rank" pid pids
    stand
    mapfile -t pids < <(pids_of_ranks)
    check "$what: they run" kill "-$1" "${pids[@]}"
    kill -CONT "$pid"
    wait
    check "$what: ends with $((128 + $2))" ended_with $((128 + $2))
    check "$what: it is said" prints "# stopped by signal $2"
    check "$what: the report is there" json "$run/report.json" \
        "r['stopped_by_signal'] == $2 and 0 < r['programs'][0]['steps'] < 1000000"
    check "$what: nothing is left" nothing_left
}

# end_early PHASE CALL [WORD…]: they end before there is anything to report, and say so.
end_early() {
    local what="SIGTERM to a rank, $1" says="kern-rank: $1: stopped by signal 15 (Terminated)" at=$2 pid
    shift 2
    KERN_EMU_FAIL=$at:stop@1 launch 2 "$examples/minimal/model.json" --json "$run/report.json" "$@" &
    until_stops 1
    check "$what: it runs" kill "$pid"
    kill -CONT "$pid"
    wait
    check "$what: ends with 143" ended_with 143
    check "$what: it is said once" test "$(grep -cF "$says" "$run/err")" -eq 1
    check "$what: and that there is no report" grep -q ": there is no report$" "$run/err"
    check "$what: there is no report" test ! -e "$run/report.json"
    check "$what: nothing is left" nothing_left
}

# Files may not become larger than they are when a report is to be written.
over_limit() {
    local what="a limit on the size of files" pid pids each
    stand
    mapfile -t pids < <(pids_of_ranks)
    for each in "${pids[@]}"; do
        check "$what: it is set" prlimit --fsize=1 --pid "$each"
    done
    kill -TERM "${pids[@]}"
    kill -CONT "$pid"
    wait
    check "$what: ends with 5" ended_with 5
    once "$what: it is said" "^kern-rank: report: rank 0 .*report.json: cannot be written: File too large"
    check "$what: no half of a file" test "$(find "$run" -name 'report.json*')" = ""
    check "$what: nothing is left" nothing_left
}
job end_mpirun INT
job end_mpirun TERM
job end_mpirun KILL
job end_ranks TERM 15
job end_ranks INT 2
job end_early load cuModuleLoadData:1
job end_early "drive of $examples/minimal/model.json" cuLaunchKernelEx:30 --compare "$examples/minimal/model.json"
job over_limit

# full SIZE PHASE: outputs go to a file system of that size, which only the ranks see; the phase that says
# that it is full. Whether a file can be made is tried before anything else.
full() {
    local words ranks by_way what="a file system with $1"
    model_of check
    mkdir "$run/small"
    by_way=(unshare --mount sh -c "mount -t tmpfs -o $1 none $run/small && exec \"\$@\"" sh)
    launch "$ranks" "${words[@]}" --output "$run/small/out-{rank}"
    check "$what: ends with 5" ended_with 5
    once "$what: all ranks' files are named" "^kern-rank: $2: rank 0 .*/small/out-0: cannot be written: No space left"
    once "$what: all ranks' files are named" "^kern-rank: $2: rank 1 .*/small/out-1: cannot be written: No space left"
    check "$what: nothing is left" nothing_left
}
if unshare --mount true 2>/dev/null; then
    job full size=4k check
    job full nr_inodes=1 manifest
else
    echo "none  a full file system: only root may mount one"
fi
end_jobs
finish
