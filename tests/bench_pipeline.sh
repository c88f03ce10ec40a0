#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/pipeline.sh: it measures both ways and compares them. The ratios are a matter of the machine and of
# what else it does; docs/bench.md has them.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"
echo "bench/pipeline.sh" >"$run/command"
KERN_BUILD=$build bash "$source_dir/bench/pipeline.sh" --rounds 1 --stages 3 --us 300 --items 20 --bytes 8192 \
    >"$run/out" 2>"$run/err"
echo $? >"$run/status"
check "bench/pipeline.sh: ends with 0" ended_with 0
number='[0-9]+\.[0-9]+'
check "bench/pipeline.sh: stages" grep -qE "^ +stages +3 +8192( +$number){5}$" "$run/out"
check "bench/pipeline.sh: a hand-over" grep -qE "^ +handover +2 +8192( +$number){2} +- +$number$" "$run/out"
launch_wrong() { program=$build/bench/bench_pipeline launch 2 "$@"; }
launch_wrong handover 8192
check "bench_pipeline: too few words end with 2" ended_with 2
check "bench_pipeline: too few words, said" says "or handover BYTES ITEMS"
finish
