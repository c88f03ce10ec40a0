#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Another user of the machine cannot open the memory that a rank exports, whichever road it takes: while
# a run steps, another user (tests/intruder.py) tries what peers do and more. That the sockets over
# which descriptors are passed turn other users away is tested by fds_test.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"

if [ "$(id -u)" -ne 0 ]; then
    echo "skipped: taking the place of another user needs root"
    exit 77
fi
intruder() {
    python3 -B "$source_dir/tests/intruder.py" "$@"
}

# The owner itself must get in by the same script, or a refusal would prove nothing.
try_road() { # FABRIC ROAD
    use_run "$work/road$1"
    export KERN_EMU_FABRIC=$1
    launch 2 "$examples/barrier2/model.json" -n 10000000 -T 60 &
    local launched=$! pid="" i
    for ((i = 0; i < 150; i++)); do
        sleep 0.2
        pid=$(process_of_rank 1)
        [ -n "$pid" ] && intruder memory "$pid" >/dev/null 2>&1 && break
    done
    check "$2: a rank runs and its own user can open what it exports" intruder memory "$pid"
    check "$2: another user can open none of it" intruder refused "$pid"
    kill -TERM "$(process_of_rank 0)" "$(process_of_rank 1)" 2>/dev/null
    wait "$launched"
    check "$2: the run that was tried ends as ever" ended_with 143
    check "$2: nothing is left" nothing_left
}
try_road 1 "fabric handles"
try_road 0 "file descriptors"
unset KERN_EMU_FABRIC
finish
