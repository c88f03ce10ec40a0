# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the system_*.sh tests share: running kern-rank under mpirun, looking at how it ended and at what
# it left behind. A test calls check and ends with finish. It can be run by hand: KERN_BUILD names the
# build folder (build).
set -uo pipefail

source_dir=${KERN_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
build=${KERN_BUILD:-$source_dir/build}
kern_rank=$build/bin/kern-rank
examples=$build/examples

# How long a run that is refused, fails or loses a rank may take, in milliseconds. mpirun alone takes
# 1 s to notice that a process has failed.
limit_ms=${KERN_TEST_LIMIT_MS:-5000}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
unset CUDA_VISIBLE_DEVICES KERN_EMU_DEVICES KERN_EMU_FABRIC KERN_EMU_FAIL KERN_EMU_DELAY

# MPI's own files go to folders of this test, so that what stays there was left by its runs.
work=$(mktemp -d)
mkdir "$work/tmp" "$work/shm" "$work/run"
export TMPDIR=$work/tmp OMPI_MCA_btl_vader_backing_directory=$work/shm

# Every process of this test's runs has this in its environment, and nobody else's.
mark=KERN_TEST_RUN=$$.$RANDOM$RANDOM

# Named shared memory and temporary files that are not of this test: what is new later was left.
named_files() {
    find /dev/shm /tmp -maxdepth 1 -user "$(id -u)" \( -name '*kern*' -o -name 'nccl-*' \) \
        ! -path "$work" 2>/dev/null | sort
}
files_before=$(named_files)

checks=0
failures=0

# say_failed WHAT [FILE…]: counts a failure and shows the files.
say_failed() {
    echo "FAIL  $1"
    failures=$((failures + 1))
    local file
    for file in "${@:2}"; do
        [ -s "$file" ] || continue
        echo "      $(basename "$file"):"
        sed 's/^/      | /' "$file" | head -60
    done
}

# check WHAT COMMAND…: whether the command, usually a test of the last run's, succeeds.
check() {
    local what=$1
    shift
    checks=$((checks + 1))
    if "$@" >"$work/command" 2>&1; then
        echo "ok    $what"
    else
        say_failed "$what [$*]" "$work/command" "$work/run/command" "$work/run/out" "$work/run/err"
    fi
}

# launch RANKS [WORD…]: kern-rank with these words under mpirun, to its end. Leaves in $run (the folder
# $work/run unless the caller has another): command, out, err, status, ms.
launch() {
    local run=${run:-$work/run} ranks=$1 began
    shift
    echo "mpirun -np $ranks kern-rank $*" >"$run/command"
    env | grep '^KERN_EMU' >>"$run/command"
    began=$(date +%s%N)
    env "$mark" timeout -k 2 "${time_limit:-60}" mpirun -np "$ranks" "$kern_rank" "$@" \
        >"$run/out" 2>"$run/err" </dev/null
    echo $? >"$run/status"
    echo $((($(date +%s%N) - began) / 1000000)) >"$run/ms"
}

# Tests of the last run, or of that in $run.
ended_with() { # CODE
    local run=${run:-$work/run}
    [ "$(cat "$run/status")" -eq "$1" ] || {
        echo "ended with $(cat "$run/status")"
        return 1
    }
}
in_time() {
    local run=${run:-$work/run}
    [ "$(cat "$run/ms")" -lt "$limit_ms" ] || {
        echo "took $(cat "$run/ms") ms"
        return 1
    }
}
says() { # TEXT, in stderr
    grep -qF -- "$1" "${run:-$work/run}/err"
}
prints() { # TEXT, in stdout
    grep -qF -- "$1" "${run:-$work/run}/out"
}
# Whether kern-rank said something, and nothing twice, whichever rank it was that said it.
says_each_once() {
    local run=${run:-$work/run} said
    said=$(grep '^kern-rank: ' "$run/err" |
        sed -E 's/^(kern-rank: [a-z]+: )(all [0-9]+ ranks|ranks? [-0-9,]+( \([^)]*\))?): /\1/' | sort)
    [ -n "$said" ] && [ -z "$(uniq -d <<<"$said")" ] && ! grep -q '^error: ' "$run/err"
}

# The processes of this test's runs that still run. One that has ended and waits for its parent to
# notice is gone.
processes() {
    local environ pid state
    grep -lzxF -- "$mark" /proc/[0-9]*/environ 2>/dev/null | while read -r environ; do
        pid=${environ#/proc/}
        pid=${pid%/environ}
        state=$(sed 's/.*) //; s/ .*//' "/proc/$pid/stat" 2>/dev/null)
        [ -n "$state" ] && [ "$state" != Z ] && [ "$state" != X ] && echo "$pid $(cat "/proc/$pid/comm")"
    done
}

# The process of world rank $1, or nothing.
process_of_rank() {
    local pid name
    processes | while read -r pid name; do
        [ "$name" = kern-rank ] &&
            grep -qzxF "OMPI_COMM_WORLD_RANK=$1" "/proc/$pid/environ" 2>/dev/null && echo "$pid"
    done
}

remains() {
    processes
    find "$work/tmp" "$work/shm" -mindepth 1
    comm -13 <(echo "$files_before") <(named_files)
}

# Whether no process, shared memory or temporary file of the runs is left, now or a moment later.
nothing_left() {
    local tries
    for ((tries = 0; tries < 20; tries++)); do
        [ -z "$(remains)" ] && return
        sleep 0.1
    done
    remains
    return 1
}

# Runs the job "$@" for every line of standard input (its words are the arguments that follow), four
# at a time, each with a folder of its own in $run; prints what each printed, in the order of lines.
in_parallel() {
    local n=0 words
    while read -r -a words; do
        while [ "$(jobs -rp | wc -l)" -ge 4 ]; do
            wait -n
        done
        n=$((n + 1))
        mkdir -p "$work/jobs/$n"
        (
            run=$work/jobs/$n
            "$@" "${words[@]}" >"$run/printed" 2>&1
        ) &
    done
    wait
    local i
    for ((i = 1; i <= n; i++)); do
        cat "$work/jobs/$i/printed"
    done
    rm -rf "$work/jobs"
}

# Ends the test: 1 if a check failed.
finish() {
    echo "$checks checks, $failures failed"
    [ "$checks" -gt 0 ] && [ "$failures" -eq 0 ]
    exit
}

tidy() {
    local pid name
    processes | while read -r pid name; do
        kill -9 "$pid"
    done
    rm -rf "$work"
}
trap tidy EXIT

[ -x "$kern_rank" ] || {
    echo "there is no $kern_rank; build first"
    exit 1
}
