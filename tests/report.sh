#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What the report says of many ranks: the critical path, the spread, the slowest rank, the road of each
# group; and what is said once although every rank would say it.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"

launch 2 "$examples/barrier2/model.json" -n 30 --json "$run/report.json"
check "two ranks: ends with 0" ended_with 0
check "two ranks: the critical path" json "$run/report.json" \
    '[p["step_ns"]["min"] <= p["step_ns"]["median"] <= p["step_ns"]["p99"] <= p["step_ns"]["max"] and
      p["steps"] == 30 for p in r["programs"]] == [True]'
check "two ranks: the spread is part of it" json "$run/report.json" \
    'all(0 <= p["spread_ns"]["min"] <= p["spread_ns"]["median"] <= p["spread_ns"]["max"] <=
         p["step_ns"]["max"] for p in r["programs"])'
check "two ranks: the slowest is named" json "$run/report.json" \
    'all({p["slowest_rank"], p["fastest_rank"]} <= {0, 1} and
         p["fastest_rank_median_ns"] <= p["slowest_rank_median_ns"] for p in r["programs"])'
check "two ranks: the road of the group" json "$run/report.json" \
    'r["groups"] == [{"name": "all", "members": 2, "groups": 1, "spans_nodes": False,
                      "shared_exports": 1, "memory": "fabric", "collectives": None}]'
check "two ranks: the road is printed" grep -qE '^   all +2 +1  inside a node  fabric handles +1  -$' "$run/out"

KERN_EMU_FABRIC=0 launch 4 "$examples/barrier2/model.json" -n 3 --json "$run/report.json"
check "no fabric: file descriptors" json "$run/report.json" \
    'r["groups"][0]["memory"] != "fabric" and r["groups"][0]["groups"] == 2 and
     "CUDA_ERROR_NOT_SUPPORTED" in r["handle_kind_why"]'
check "no fabric: the reason is printed" prints '# shared memory: file descriptors, because fabric handles'

launch 1 "$examples/minimal/model.json" -n 3 --json "$run/report.json"
check "one rank: no spread" json "$run/report.json" \
    'all(p["spread_ns"]["max"] == 0 for p in r["programs"]) and r["groups"] == []'
check "one rank: which inputs were made up" prints "# inputs made up from their domains: x_bf16, x_f32; --seed 1"
launch 1 "$examples/minimal/model.json" -n 3 --input "$examples/minimal/inputs-0.safetensors"
check "inputs from a file: none was made up" eval "! prints 'made up'"
cp "$examples/minimal/inputs-0.safetensors" "$run/all-0"
printf '\2\0\0\0\0\0\0\0{}' >"$run/all-1"
launch 2 "$examples/minimal/model.json" -n 3 --input "$run/all-{rank}"
check "inputs of one rank from a file: what the other made up" prints "made up from their domains: x_bf16, x_f32; --seed 1"

by_way=(sh -c 'exec "$@" >/dev/full' sh)
launch 2 "$examples/barrier2/model.json" -n 3 --json "$run/full.json"
check "a report that cannot be printed: ends with 5" ended_with 5
check "a report that cannot be printed: it is said" \
    grep -qE '^kern-rank: report: rank 0 .*: error: standard output: the report cannot be written' "$run/err"
check "a report that cannot be printed: each message comes once" says_each_once
check "a report that cannot be printed: the file has it" json "$run/full.json" "len(r['ranks']) == 2"
by_way=()

KERN_EMU_DEVICES=none launch 4 "$examples/barrier2/model.json"
check "a setting that is wrong on all ranks: said once by the device" \
    test "$(grep -c 'KERN_EMU_DEVICES=none' "$run/err")" -eq 1
check "a setting that is wrong on all ranks: said once by the ranks" eval \
    "says_each_once && says ': all 4 ranks: '"
check "nothing is left" nothing_left
finish
