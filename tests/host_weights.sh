#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Weights placed on the host: their memory is there once however many ranks map it, is right on all of
# them, and goes with the last of them.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/weights_lib.sh
. "$(dirname "$0")/weights_lib.sh"

name=/memfd:kern-host-weights
bytes=$((4 << 21))

right() {
    check "$1: ends with 0" ended_with 0
    check "$1: outputs are as expected" prints "check ok"
    check "$1: nothing is left" nothing_left
}
failed() { # WHAT CODE TEXT…
    check "$1: ends with $2" ended_with "$2"
    for text in "${@:3}"; do
        check "$1: says \"$text\"" says "$text"
    done
    check "$1: ends in time" in_time
    check "$1: nothing is left" nothing_left
}

for ranks in 1 4; do
    load "$ranks" host
    right "$ranks ranks"
done
# Rank 0, which loads the weight, is slow; no other may use it before.
with_fault KERN_TEST_READ=sleep:1@0 load 4 derived
right "a derive program on 4 ranks"

# Loading takes longer than others wait for, but it gets on: nobody is late.
for model in host device; do
    with_fault KERN_TEST_READ=slow:1@0 load 2 "$model" -T 4
    right "slower than --timeout, $model"
    check "slower than --timeout, $model: it was" test "$(cat "$run/ms")" -gt 5000
done
with_fault KERN_TEST_READ=hang:3@0 load 2 host -T 4
check "a disk that no longer answers: ends with 6" ended_with 6
check "a disk that no longer answers: says who waited for what" says "(loading weights on the host)"
check "a disk that no longer answers: says how far the other got" \
    grep -qE 'rank 0 .*phase load, for .*it has moved [12] of 8 MiB, the last [0-9.]+ s ago' "$run/err"
check "a disk that no longer answers: nothing is left" nothing_left

# mapped PID: inode, permissions and Pss in KiB of the weight in this process.
mapped() {
    awk -v name="$name" '
        /^[0-9a-f]+-[0-9a-f]+ / { found = $6 == name; if (found) printf "%s %s ", $5, $2 }
        found && /^Pss:/ { print $2 }' "/proc/$1/smaps"
}
whole=$work/mapped
loaded() { # whether all ranks step
    local rank pid
    : >"$whole"
    for rank in 0 1 2 3; do
        pid=$(process_of_rank "$rank")
        [ -n "$pid" ] && mapped "$pid" >>"$whole"
    done
    [ "$(grep -c ' r--s ' "$whole")" -eq 4 ]
}
load 4 host -n 10000000 &
for ((tries = 0; tries < 200; tries++)); do
    loaded && break
    sleep 0.1
done
check "4 ranks map the weight, and cannot write to it" test "$(grep -c ' r--s ' "$whole")" -eq 4
check "they map the same memory" test "$(awk '{ print $1 }' "$whole" | sort -u | wc -l)" -eq 1
# shellcheck disable=SC2016 # they are fields of awk
check "it is there once" awk -v kib=$((bytes / 1024)) \
    '{ sum += $3 } END { exit !(kib * 0.99 <= sum && sum <= kib) }' "$whole"
check "no rank has it open" \
    test -z "$(find /proc/[0-9]*/fd -lname "$name*" 2>/dev/null | grep -F "/$(process_of_rank 0)/")"
for rank in 0 1 2 3; do
    process_of_rank "$rank"
done | xargs kill -9
wait
inode=$(awk 'NR == 1 { print $1 }' "$whole")
check "when all are killed, nothing is left" nothing_left
check "when all are killed, nobody has the memory" \
    test -z "$(grep -l " $inode *$name" /proc/[0-9]*/maps 2>/dev/null)"

with_fault KERN_TEST_READ=error:4@0 load 4 host
failed "a disk error of the rank that loads" 4 "rank 0 (" "tensor big.x cannot be read" "Input/output error"
for rank in 0 2; do
    export KERN_EMU_FAIL=cuMemHostRegister:1@$rank
    load 4 host
    unset KERN_EMU_FAIL
    failed "rank $rank cannot register the memory" 5 "rank $rank (" "cuMemHostRegister" "buffer x_f32"
done
with_fault KERN_TEST_NO_MEMORY=1 load 4 host
failed "no memory" 5 "rank 0 (" "x_f32" "$bytes bytes of memory that the ranks of a node share"
finish
