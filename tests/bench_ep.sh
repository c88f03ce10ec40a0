#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/ep.sh: both ways of moving the tokens give the right results, and the table compares them. The
# ratio is a matter of the machine and of what else it does; docs/bench.md has it.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"
echo "bench/ep.sh" >"$run/command"
KERN_BUILD=$build bash "$source_dir/bench/ep.sh" --ranks "2 4" --kib 64 --hidden 256 >"$run/out" 2>"$run/err"
echo $? >"$run/status"
check "bench/ep.sh: ends with 0" ended_with 0
number='[0-9]+(\.[0-9]+)?'
for ranks in 2 4; do
    check "bench/ep.sh: $ranks ranks, times of both, their ratio, the settings and a verdict" \
        grep -qE "^ +$ranks +1 +128 +64( +$number){5} +$number +$number +(cma|none)[12] +ok$" "$run/out"
done
launch_wrong() { program=$build/bench/ep_alltoallv launch 2 "$@"; }
launch_wrong 4 16 2 3 1 1
check "ep_alltoallv: 3 experts of 2 ranks end with 1" ended_with 1
check "ep_alltoallv: 3 experts of 2 ranks, said" says "EXPERTS a multiple of the ranks"
finish
