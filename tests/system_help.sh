#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Help and version: once from a job of many, on one screen, on stdout.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"

fits_a_screen() {
    awk 'length($0) > 100 { wide = 1 } END { exit wide || NR > 50 || NR < 5 }' "$run/out"
}

# look_at TEXT TIMES: the last run, which should print TEXT so often.
look_at() {
    local name
    name=$(sed "s/.*mpirun/mpirun/; s| $kern_rank --device emu| kern-rank|" "$run/command")
    check "$name: ends with 0" ended_with 0
    check "$name: \"$1\" stands there once" test "$(grep -c -- "$1" "$run/out")" -eq 1
    check "$name: nothing on stderr" test ! -s "$run/err"
}

# kern WORD…: as launch, without MPI.
kern() {
    echo "kern $*" >"$run/command"
    "$build/bin/kern" "$@" >"$run/out" 2>"$run/err"
    echo $? >"$run/status"
}

for option in --help -h; do
    launch 4 "$option"
    look_at 'mpirun -np 8 kern-rank'
    check "kern-rank $option: fits a screen" fits_a_screen
    kern "$option"
    look_at 'kern verify --kernels build/kernels model.json'
    check "kern $option: fits a screen" fits_a_screen
done
for code in 0 1 2 3 4 5 6; do
    launch 1 --help
    check "kern-rank --help: names exit code $code" grep -qE "(exit: |, |  )$code [a-z]" "$run/out"
done
for option in --help --version; do
    "$kern_rank" "$option" >/dev/full 2>"$run/err"
    check "kern-rank $option to a full device: ends with 5" test $? -eq 5
    check "kern-rank $option to a full device: it is said" says "standard output cannot be written"
done
launch 4 --version
look_at '^kern-rank [0-9]'
kern --version
look_at '^kern [0-9]'
kern
check "kern without words: 2, help on stderr" eval "ended_with 2 && says 'kern verify' && ! prints kern"
check "nothing is left" nothing_left
finish
