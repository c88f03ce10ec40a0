#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every example with its programs as graphs and launch by launch: the same bytes come out. What the
# options accept, and what is said when a capture fails.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/lib.sh"

same_outputs() { # EXAMPLE RANKS
    local rank
    for ((rank = 0; rank < $2; rank++)); do
        cmp "$work/$1-on-$rank" "$work/$1-eager-$rank" || return 1
    done
}

compare() { # EXAMPLE RANKS
    local name=$1 ranks=$2
    rm -f "$work/on.json" "$work/eager.json"
    # shellcheck disable=SC2046
    launch "$ranks" "$examples/$name/model.json" $(example_files "$name") -n 5 -w 2 -G on \
        --output "$work/$name-on-{rank}" --json "$work/on.json"
    check "$name, graphs on: ends with 0" ended_with 0
    check "$name, graphs on: nothing on stderr" test ! -s "$run/err"
    check "$name, graphs on: the report says so" json "$work/on.json" \
        "r['programs'] and all(p['graph'] is True and p['launches'] > 0 for p in r['programs'])"
    check "$name, graphs on: the table says so" grep -qE '^  .* yes$' "$run/out"
    # shellcheck disable=SC2046
    launch "$ranks" "$examples/$name/model.json" $(example_files "$name") -n 5 -w 2 --eager \
        --output "$work/$name-eager-{rank}" --json "$work/eager.json"
    check "$name, eager: ends with 0" ended_with 0
    check "$name, eager: the report says so" json "$work/eager.json" \
        "r['programs'] and all(p['graph'] is False for p in r['programs'])"
    check "$name, eager: the table says so" grep -qE '^  .* no$' "$run/out"
    # p2p's outputs are times that it measured.
    [ "$name" = p2p ] || check "$name: the same bytes" same_outputs "$name" "$ranks"
    check "$name: nothing is left" nothing_left
}

# ranks_of EXAMPLE: the size of its group, 1 without one.
ranks_of() {
    python3 -B -c 'import json, sys
groups = json.load(open(sys.argv[1])).get("topology", {}).get("groups", {})
print(max(groups.values(), default=1))' "$examples/$1/model.json"
}
for model in "$examples"/*/model.json; do
    name=$(basename "$(dirname "$model")")
    compare "$name" "$(ranks_of "$name")"
done

# The words of -G; a manifest without "graph" runs launch by launch unless told otherwise.
minimal=$examples/minimal/model.json
for word in "on 1" "1 1" "off 0" "0 0" "auto 0"; do
    rm -f "$work/words.json"
    launch 1 "$minimal" -n 1 -w 0 --graphs "${word% *}" --json "$work/words.json"
    check "--graphs ${word% *}: ends with 0" ended_with 0
    check "--graphs ${word% *}: what the report says" json "$work/words.json" \
        "all(p['graph'] == ${word#* } for p in r['programs'])"
done
launch 1 "$minimal" -G sometimes
check "-G sometimes: is refused" ended_with 2
check "-G sometimes: what would do" says "auto, on or 1, off or 0"
launch 1 "$minimal" -G on --eager
check "-G on --eager: is refused" ended_with 2
check "-G on --eager: it is said" says "--graphs on"

# A capture that fails on one rank alone: nobody has begun a step, so all leave at once.
for function in cuStreamBeginCapture cuLaunchKernelEx cuStreamEndCapture cuGraphInstantiateWithFlags; do
    export KERN_EMU_FAIL=$function:1@1
    launch 2 "$examples/barrier2/model.json" -G on
    unset KERN_EMU_FAIL
    check "$function fails on rank 1: ends with 5" ended_with 5
    check "$function fails on rank 1: rank and function are named, in the capture" \
        grep -qE "^kern-rank: capture: rank 1 \([^)]+\): error: programs\..*\b$function failed" "$run/err"
    check "$function fails on rank 1: each message comes once" says_each_once
    check "$function fails on rank 1: in time" in_time
    check "$function fails on rank 1: nothing is left" nothing_left
done
finish
