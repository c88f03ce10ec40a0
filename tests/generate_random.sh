#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Generation with the small model of random weights, against its reference in double precision; how
# it ends early. Names of the ways to run it are those of examples/llama.
# shellcheck source=tests/generate_lib.sh
. "$(dirname "$0")/generate_lib.sh"

llama=$examples/llama
checkpoint=$llama/checkpoint
tp2=("$llama/tp2/model.json" --weights "$checkpoint")
model=$llama/tp1/model.json
texts=(--weights "$checkpoint" --generate 24 --check-ids "$checkpoint/reference.json")

ways=("1 tp1 auto" "2 tp2 off" "2 tp2-nccl on")
[ -n "${KERN_TEST_ALL-}" ] && ways=({"1 tp1","2 tp2","4 tp4","2 tp2-nccl","4 tp4-nccl"}" "{off,on,auto})
for way in "${ways[@]}"; do
    read -r ranks name graphs <<<"$way"
    rm -f "$work/way.json"
    # The reference's tokens are close calls now and then, and what follows one is not compared.
    generates "$way" 70 "$ranks" "$llama/$name/model.json" "${texts[@]}" -G "$graphs" \
        --json "$work/way.json"
    check "$way: the report has it all" json "$work/way.json" \
        "len(r['generation']['prompts']) == 4 and all(len(p['ids']) == 24 and p['finished'] == 'count'
         for p in r['generation']['prompts']) and r['generation']['chunks']['tokens'] == 133 and
         r['generation']['steps']['tokens'] == 92 and {p['name'] for p in r['programs']} ==
         {'chunk', 'step'} and r['check']['verdict'] == 'ok'"
    check "$way: nothing is left" nothing_left
done

# Of chunks and batches of other sizes the same comes out.
generates "chunks of 7 rows, two sequences at once" 70 1 "$model" "${texts[@]}" --var rows=7 --var seqs=2
generates "no room for two sequences at once" 70 1 "$model" "${texts[@]}" --capacity 120

# A text may end before: at a token, or where a sequence has no more room.
prompt=(--weights "$checkpoint" --prompt-ids "50,57,46,74,33")
launch 1 "$model" "${prompt[@]}" --generate 24 --stop-id 9999 --stop-id 58 --json "$work/stop.json"
check "a stop: ends with 0" ended_with 0
check "a stop: it is the last token" prints "20,58"
check "a stop: the report says so" json "$work/stop.json" \
    "[(p['ids'], p['finished']) for p in r['generation']['prompts']] == [([20, 58], 'stop')]"
launch 1 "$model" "${prompt[@]}" --generate 1000 --json "$work/long.json"
check "no more room: ends with 0" ended_with 0
check "no more room: 128 rows are fed, and one token more is known" json "$work/long.json" \
    "[(len(p['ids']), p['finished']) for p in r['generation']['prompts']] == [(124, 'length')]"

# Wrong tokens are found. The first one is far ahead of all others.
python3 -B -c 'import json, sys
texts = json.load(open(sys.argv[1]))
texts[1]["greedy_ids"][0] += 1
json.dump(texts, open(sys.argv[2], "w"))' "$checkpoint/reference.json" "$work/wrong.json"
launch 2 "$llama/tp2/model.json" --weights "$checkpoint" --generate 3 --check-ids "$work/wrong.json"
check "a wrong token: ends with 1" ended_with 1
check "a wrong token: it is named" says "token 1 after prompt 2 is 20, expected 21"
check "a wrong token: the report comes all the same" prints "check WRONG: 4 prompts"

# A capture that fails on one rank alone: nobody has begun a step.
KERN_EMU_FAIL=cuStreamBeginCapture:1@1 launch 2 "${tp2[@]}" --generate 4 --prompt-ids 5 -G on
check "a capture fails on one rank: ends with 5" ended_with 5
check "a capture fails on one rank: it is named" \
    grep -qE '^kern-rank: generate: rank 1 \([^)]+\): error: .*cuStreamBeginCapture failed' "$run/err"
check "a capture fails on one rank: nothing is left" nothing_left

# A launch that fails in the middle: the others stop waiting for it.
KERN_EMU_FAIL=cuLaunchKernelEx:400@1 launch 2 "${tp2[@]}" --generate 100 --prompt-ids 5 -G off
check "a launch fails on one rank: ends with 5" ended_with 5
check "a launch fails on one rank: it is named" says "cuLaunchKernelEx failed"
check "a launch fails on one rank: nothing is left" nothing_left

# A signal ends it between two calls; what there is so far is shown.
signal_rank() {
    local tries
    for ((tries = 0; tries < 200; tries++)); do
        sleep 0.1
        grep -q , "$run/out" 2>/dev/null && kill -TERM "$(process_of_rank 1)" && return
    done
}
signal_rank &
KERN_EMU_DELAY=cuEventSynchronize:20ms launch 2 "${tp2[@]}" --generate 120 --prompt-ids 5 \
    --json "$work/signal.json"
wait
check "a signal: ends with 143" ended_with 143
check "a signal: the report says so" json "$work/signal.json" \
    "r['stopped_by_signal'] == 15 and r['generation']['prompts'][0]['finished'] == 'stopped' and
     0 < len(r['generation']['prompts'][0]['ids']) < 120"
check "a signal: what there was is shown" grep -qE '^[0-9]+(,[0-9]+)+$' "$run/out"
check "a signal: nothing is left" nothing_left
finish
