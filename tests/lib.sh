# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the system_*.sh tests share: running kern-rank under mpirun, looking at how it ended and at what
# it left behind. A test calls check and ends with finish. It can be run by hand: KERN_BUILD names the
# build folder (build).
set -uo pipefail

source_dir=${KERN_SOURCE:-$(CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
build=${KERN_BUILD:-$source_dir/build}
kern_rank=$build/bin/kern-rank
examples=$build/examples

# shellcheck source=dev.d/mpi.sh
. "$source_dir/dev.d/mpi.sh"
unset CUDA_VISIBLE_DEVICES KERN_EMU_DEVICES KERN_EMU_MEMORY KERN_EMU_FABRIC KERN_EMU_FAIL KERN_EMU_DELAY
unset KERN_EMU_CALLS KERN_TEST_AGREEMENT

# python3 may be a wrapper that takes longer to find the interpreter than most scripts here take.
python3_itself=$(python3 -c 'import sys; print(sys.executable)')
python3() {
    "$python3_itself" "$@"
}

tensors() {
    python3 -B "$source_dir/tests/tensors.py" "$@"
}

# edit_manifest FROM TO STATEMENT: TO is the manifest FROM, which is m, after a Python statement.
edit_manifest() {
    python3 -B -c 'import json, sys
m = json.load(open(sys.argv[1]))
exec(sys.argv[3])
json.dump(m, open(sys.argv[2], "w"))' "$@"
}

work=$(mktemp -d)

# Every process of a run has a word in its environment that begins like this and ends with the name of
# the run's folder.
mark=KERN_TEST_RUN=$$.$RANDOM$RANDOM

# use_run FOLDER: the folder of the runs that follow, in $run. MPI's own files go to folders in it, so
# that what stays there was left by these runs.
use_run() {
    run=$1
    mkdir -p "$run/tmp" "$run/shm"
}
use_run "$work/run"

# Named shared memory and temporary files elsewhere; what is new after a run was left by it. (What unit
# tests, which may run at the same time, have in /tmp ends in six letters of mkstemp.)
named_files() {
    find /dev/shm /tmp -maxdepth 1 -user "$(id -u)" \( -name '*kern*' -o -name 'nccl-*' \) \
        ! -path '/tmp/kern-*-??????' 2>/dev/null | sort
}
files_before=$(named_files)

# check WHAT COMMAND…: whether the command, usually a test of the last run's, succeeds.
check() {
    local what=$1 file
    shift
    if "$@" >"$run/checked" 2>&1; then
        echo ok >>"$work/results"
        echo "ok    $what"
        return
    fi
    echo "FAIL  $what" >>"$work/results"
    echo "FAIL  $what [$*]"
    for file in checked command status out err; do
        [ -s "$run/$file" ] || continue
        # What a run left is shown once.
        [ "$file" = checked ] || [ ! -e "$run/shown" ] || continue
        echo "      $file:"
        head -60 "$run/$file" | sed 's/^/      | /'
    done
    touch "$run/shown"
}

# Not empty where a CUDA driver is.
gpu=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep -o 'libcuda\.so\.1' | head -1)

# starter RANKS: fills $start with what starts so many ranks. A test may define another.
starter() {
    start=(mpirun -np "$1")
}

# launch RANKS [WORD…]: kern-rank with these words under mpirun, to its end, on emu unless they say
# otherwise (or $program instead of kern-rank --device emu), each process by way of the words in
# $by_way if there are any. Leaves in $run: command, out, err, status, ms.
by_way=()
launch() {
    local ranks=$1 began words start
    shift
    words=("${by_way[@]}" "$kern_rank" --device emu)
    [ -n "${program-}" ] && words=("$program")
    words+=("$@")
    starter "$ranks"
    rm -f "$run/shown"
    {
        env | grep -E '^(KERN_EMU|KERN_TEST_AGREE|CUDA_VISIBLE)'
        echo "${start[*]} ${words[*]}"
    } >"$run/command"
    began=$(date +%s%N)
    env "$mark.$(basename "$run")" TMPDIR="$run/tmp" OMPI_MCA_btl_vader_backing_directory="$run/shm" \
        timeout -k 2 $((${time_limit:-60} * ${KERN_TEST_SLOWNESS:-1})) "${start[@]}" "${words[@]}" \
        >"$run/out" 2>"$run/err" </dev/null
    echo $? >"$run/status"
    echo $((($(date +%s%N) - began) / 1000000)) >"$run/ms"
}

# example_files EXAMPLE: the words that name its weights and inputs, as far as it has them.
example_files() {
    local at=$examples/$1
    [ -e "$at/weights.safetensors" ] && echo "--weights $at/weights.safetensors"
    [ -e "$at/inputs-0.safetensors" ] && echo "--input $at/inputs-{rank}.safetensors"
}

# Tests of the last run.
ended_with() { # CODE…, one of them
    grep -qx "$(cat "$run/status")" < <(printf '%s\n' "$@")
}
# in_time [SECONDS]: whether it took less than 5 s, after these; mpirun alone takes 1 s to notice that a
# process has failed. On a machine that is busy with other things all takes longer, which the start of
# 8 processes shows: it takes half a second where two processors are free.
in_time() {
    local took ready
    took=$(($(cat "$run/ms") - 1000 * ${1:-0}))
    [ "$took" -lt 5000 ] && return
    ready=$(
        use_run "$run/start"
        by_way=()
        launch 8 --version
        cat "$run/ms"
    )
    echo "took $took ms; the start of 8 processes takes $ready ms"
    [ "$took" -lt $((5000 + ready * 12)) ]
}
says() { # TEXT, on stderr
    grep -qF -- "$1" "$run/err"
}
prints() { # TEXT, on stdout
    grep -qF -- "$1" "$run/out"
}
# Whether kern-rank said something, and nothing twice, whichever rank it was that said it.
says_each_once() {
    local said
    said=$(grep '^kern-rank: ' "$run/err" |
        sed -E 's/^(kern-rank: [a-z]+: )(all [0-9]+ ranks|ranks? [-0-9,]+( \([^)]*\))?): /\1/' | sort)
    [ -n "$said" ] && [ -z "$(uniq -d <<<"$said")" ] && ! grep -q '^error: ' "$run/err"
}

# check_refusal CODE WHAT TEXT…: the last run ended with CODE, said every TEXT on stderr, nothing twice,
# and left nothing behind.
check_refusal() {
    local code=$1 what=$2 text
    shift 2
    check "$what: ends with $code" ended_with "$code"
    for text in "$@"; do
        check "$what: says \"$text\"" says "$text"
    done
    check "$what: each message comes once" says_each_once
    check "$what: nothing is left" nothing_left
}

# refuses CODE RANKS WHAT WORD… -- TEXT…: runs kern-rank with these words, which must end so.
refuses() {
    local code=$1 ranks=$2 what=$3 words=()
    shift 3
    while [ "$1" != -- ]; do
        words+=("$1")
        shift
    done
    shift
    launch "$ranks" "${words[@]}"
    check_refusal "$code" "$what" "$@"
}

# json FILE EXPRESSION: whether a Python expression about the report r is true.
json() {
    python3 -B -c 'import json, sys
r = json.load(open(sys.argv[1]))
sys.exit(0 if eval("(" + sys.argv[2] + ")") else 1)' "$@"
}

# "PID NAME" of the processes that have this word in their environment. One that has ended and waits
# for its parent to notice is gone.
processes_with() {
    local environ pid state
    grep -lzxE -- "$1" /proc/[0-9]*/environ 2>/dev/null | while read -r environ; do
        pid=${environ//[!0-9]/}
        state=$(sed 's/.*) //; s/ .*//' "/proc/$pid/stat" 2>/dev/null)
        [ -n "$state" ] && [ "$state" != Z ] && [ "$state" != X ] && echo "$pid $(cat "/proc/$pid/comm")"
    done
}
processes() {
    processes_with "$mark\\.$(basename "$run")"
}

# The process of world rank $1, or nothing.
process_of_rank() {
    local pid name
    processes | while read -r pid name; do
        [ "$name" = kern-rank ] &&
            grep -qzxE "(OMPI_COMM_WORLD|PMIX)_RANK=$1" "/proc/$pid/environ" 2>/dev/null && echo "$pid"
    done
}

pids_of_ranks() {
    processes | sed -n 's/ kern-rank$//p'
}

# until_runs RANK, until_stops RANK: waits for its process, which is in $pid then; until it is stopped.
until_runs() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        pid=$(process_of_rank "$1")
        [ -n "$pid" ] && return
        sleep 0.05
    done
}
until_stops() {
    local tries
    until_runs "$1"
    for ((tries = 0; tries < 600; tries++)); do
        grep -q '^State:.*T' "/proc/$pid/status" 2>/dev/null && return
        sleep 0.05
    done
}

remains() {
    processes
    find "$run/tmp" "$run/shm" -mindepth 1
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

# job COMMAND…: runs it beside those before, as many at once as there are processors (or $most_jobs),
# with a $run of its own. end_jobs waits for all and prints what they printed, in the order of their
# start.
jobs=0
job() {
    while [ "$(jobs -rp | wc -l)" -ge "${most_jobs:-$(nproc)}" ]; do
        wait -n
    done
    jobs=$((jobs + 1))
    (
        use_run "$work/job$jobs"
        "$@"
        rm -rf "$run"
    ) >"$work/job$jobs.printed" 2>&1 &
}
end_jobs() {
    local i
    wait
    for ((i = 1; i <= jobs; i++)); do
        cat "$work/job$i.printed"
    done
    jobs=0
}

# Ends the test: 1 if a check failed. What failed is named once more, where the end of a long output shows it.
finish() {
    local passed failed
    passed=$(grep -c '^ok$' "$work/results")
    failed=$(grep -c '^FAIL ' "$work/results")
    grep '^FAIL ' "$work/results"
    echo "$((passed + failed)) checks, $failed failed"
    [ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
    exit
}

tidy() {
    local pid name
    processes_with "$mark\\..*" | while read -r pid name; do
        kill -9 "$pid"
    done
    rm -rf "$work"
}
trap tidy EXIT

[ -x "$kern_rank" ] || {
    echo "there is no $kern_rank; build first"
    exit 1
}
