#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The collectives of NCCL between processes: every one in every type over two groups that overlap, in
# place and not, launch by launch and as a graph; and communicators that cannot be made.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/lib.sh"

for ranks in 2 4; do
    model=$work/collective$ranks
    python3 -B "$source_dir/tests/rank_collective.py" "$ranks" "$model"
    for graphs in off on; do
        what="$ranks ranks, graphs $graphs"
        launch "$ranks" "$model/model.json" --input "$model/inputs-{rank}.safetensors" \
            --check "$model/expected-{rank}.safetensors" -G "$graphs" -n 3 -w 1
        check "$what: ends with 0" ended_with 0
        check "$what: every output is right, to the bit" grep -q '^check ok: ' "$run/out"
        check "$what: nothing on stderr" test ! -s "$run/err"
        check "$what: nothing is left" nothing_left
    done
done

model=$work/collective4/model.json
KERN_EMU_DEVICES=2 launch 4 "$model" --share-devices
check "a shared device: ends with 2" ended_with 2
check "a shared device: both ranks are named" says "ranks 0 and 2 on $(hostname), members 0 and 2 of one group"
check "a shared device: said once, by all" says_each_once
check "a shared device: nothing is left" nothing_left

KERN_EMU_FAIL=ncclGetUniqueId:1@0 launch 4 "$model"
check "no id: ends with 5" ended_with 5
check "no id: it is said" says "ncclGetUniqueId failed"
check "no id: ends in time" in_time
check "no id: nothing is left" nothing_left

# The member of the other pair and those of the first group, which all have joined, do not wait.
KERN_EMU_FAIL=ncclCommInitRankConfig:2@3 launch 4 "$model"
check "a second group that one cannot join: ends with 5" ended_with 5
check "a second group that one cannot join: it is said" says "pair: ncclCommInitRankConfig failed"
check "a second group that one cannot join: its peer gives up" says "given up since another rank failed"
check "a second group that one cannot join: ends in time" in_time
check "a second group that one cannot join: nothing is left" nothing_left

KERN_EMU_DELAY=ncclCommInitRankConfig:3s@1 launch 2 "$work/collective2/model.json" --timeout 1
check "a member that comes too late: ends with 6" ended_with 6
check "a member that comes too late: its group is named" says "all: ncclCommInitRankConfig is not done after 1 s"
check "a member that comes too late: nothing is left" nothing_left
finish
