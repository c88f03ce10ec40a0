#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Generation through pipelines: what one rank says, whatever the stages, the depth, the graphs and the
# delays, also with groups in the stages; and runs that end early. KERN_TEST_ALL=1 runs every way, and 200
# times with delays.
# shellcheck source=tests/generate_lib.sh disable=SC2317
. "$(dirname "$0")/generate_lib.sh"
llama=$examples/llama
whole=$llama/tp1/model.json
weights=(--weights "$llama/checkpoint")
all=${KERN_TEST_ALL-}

# Prompts of several lengths: of one token, of one chunk, of several if --var rows is small.
prompts=(--prompt-ids 7 --prompt-ids "50,57,46" --prompt-ids "3,1" --prompt-ids "11,12,13,14,15,16,17,18,19"
    --prompt-ids "90,2,33,4,60")

# same WHAT RANKS TOKENS WORD…: a run that ends well and has compared TOKENS tokens.
same() {
    local what=$1 ranks=$2 tokens=$3
    shift 3
    launch "$ranks" "$@"
    check "$what: ends with 0" ended_with 0
    check "$what: nothing on stderr" test ! -s "$run/err"
    check "$what: the same tokens" prints ", $tokens tokens with those of"
    check "$what: nothing is left" nothing_left
}

cuts=("2 11" "3 8,14" "4 7,14,20")
ways=("-Goff 1" "-Gon 3")
for i in "${!cuts[@]}"; do
    read -r ranks points <<<"${cuts[$i]}"
    for j in "${!ways[@]}"; do
        [ -n "$all" ] || [ $(((i + j) % 2)) -eq 0 ] || continue
        read -r graphs depth <<<"${ways[$j]}"
        same "cut at $points, $graphs, depth $depth" "$ranks" 60 --cut "$points" "$whole" "${weights[@]}" \
            --generate 12 "${prompts[@]}" --depth "$depth" "$graphs" --compare "$whole"
        same "cut at $points, $graphs, depth $depth, one prompt" "$ranks" 20 --cut "$points" "$whole" \
            "${weights[@]}" --generate 20 --prompt-ids 50,57,46 --depth "$depth" "$graphs" --compare "$whole"
    done
done

# Steps of programs at fixed lengths, byte for byte.
for rows in 1 5 64; do
    launch 3 --cut 8,14 "$whole" "${weights[@]}" --program chunk --var "rows=$rows" --compare "$whole" -n 4 -w 0
    check "a chunk of $rows rows: what the whole gives" prints "compare ok: 1 output of 1 rank"
done

# Little room: chunks of two rows in flight behind each other, and prompts that wait for others to end.
same "little room" 3 60 --cut 8,14 "$whole" "${weights[@]}" --generate 12 "${prompts[@]}" --var rows=2 \
    --capacity 48 --compare "$whole" --json "$work/room.json"
check "little room: all of them came to their end" json "$work/room.json" \
    "[p['finished'] for p in r['generation']['prompts']] == ['count'] * 5"
same "one sequence in a step" 2 60 --cut 11 "$whole" "${weights[@]}" --generate 12 "${prompts[@]}" \
    --var seqs=1 --compare "$whole"
# Five prompts are shared out among three calls in flight, and the stages' times are in the report.
launch 3 --cut 8,14 "$whole" "${weights[@]}" --generate 12 "${prompts[@]}" --json "$work/shared.json"
check "shared out: no step takes more than two of five" json "$work/shared.json" \
    "[p['vars']['rows'] for p in r['programs'] if p['name'] == 'step'] == [2] and
     len({rank['pipeline']['items'] for rank in r['ranks']}) == 1"
# A prompt that fills a sequence, whose chunks are in flight together.
full=$(seq -s , 1 32)
launch 2 --cut 5 "$whole" "${weights[@]}" --generate 3 --var rows=8 --capacity 32 --prompt-ids "$full" \
    --prompt-ids "$(seq -s , 1 16)" --compare "$whole" --json "$work/full.json"
check "a prompt that fills a sequence: ends with 0" ended_with 0
check "a prompt that fills a sequence: it ends once" test "$(grep -c '^# prompt 1$' "$run/out")" -eq 1
check "a prompt that fills a sequence: one token follows it" json "$work/full.json" \
    "[(len(p['ids']), p['finished']) for p in r['generation']['prompts']] == [(1, 'length'), (3, 'count')]"
check "a prompt that fills a sequence: the same tokens" prints ", 4 tokens with those of"
# Two pipelines side by side.
same "two pipelines" 4 24 --cut 11 "$whole" "${weights[@]}" --generate 12 --prompt-ids 1 --prompt-ids 2,3 \
    --compare "$whole"

# Delays before everything that a device does.
runs=4
[ -n "$all" ] && runs=200
wrong=0
for ((i = 0; i < runs; i++)); do
    read -r ranks points <<<"${cuts[$((i % 3))]}"
    KERN_EMU_DELAY_US_MAX=200 KERN_EMU_SEED=$i launch "$ranks" --cut "$points" "$whole" "${weights[@]}" \
        --generate 4 "${prompts[@]}" --depth $((i % 3 + 1)) --compare "$whole"
    if ! ended_with 0 || ! prints "compare ok: 5 prompts, 20 tokens"; then
        wrong=$((wrong + 1))
        cat "$run/command" "$run/out" "$run/err"
    fi
done
check "$runs runs with delays: the same tokens" test "$wrong" -eq 0

# Groups in the stages: a generator writes such stages.
stages=("$llama"/stages2-tp2/stage*.json)
same "two stages of two ranks" 4 60 "${stages[@]}" "${weights[@]}" --generate 12 "${prompts[@]}" \
    --compare "$llama/tp2/model.json"
same "two stages of two ranks, graphs" 4 20 "${stages[@]}" "${weights[@]}" --generate 20 --prompt-ids 50,57,46 \
    -Gon --compare "$llama/tp2/model.json"

# The text of a trained model, where there is one.
stories=$examples/stories
checkpoint=$(sed -n 's/^KERN_STORIES:[^=]*=//p' "$build/CMakeCache.txt")
tells() { # WHAT RANKS WORD…
    local what=$1 ranks=$2
    shift 2
    launch "$ranks" "$@" --weights "$checkpoint" --generate 64 --prompt-ids 1,403,407,261,378 \
        --vocab "$checkpoint/vocab.json"
    check "$what: ends with 0" ended_with 0
    check "$what: the story is told" python3 -B -c 'import json, sys
text = json.load(open(sys.argv[1]))[0]["text"].replace("<0x0A>", "\n").lstrip(" ")
sys.exit(0 if open(sys.argv[2]).read().startswith(text + "\n#") else 1)' "$checkpoint/reference.json" "$run/out"
}
if [ -d "$stories" ] && [ -f "$checkpoint/reference.json" ]; then
    tells "four stages" 4 --cut 10,20,30 "$stories/tp1/model.json"
    tells "two stages of two ranks" 4 "$stories"/stages2-tp2/stage*.json
fi

# A stage is no whole.
"$build/bin/kern" cut --at 11 --out "$work/stages" "$whole" >/dev/null
launch 1 "$work/stages/stage0.json" --kernels "$llama/tp1" "${weights[@]}" --generate 3 --prompt-ids 1
check "one stage: ends with 2" ended_with 2
check "one stage: what would be right" says "stage 0 of 2 of a pipeline; name all of them"

# A signal ends it between two calls, on all stages.
long=(--cut "8,14" "$whole" "${weights[@]}" --generate 100 --prompt-ids "50,57,46" --prompt-ids 1)
KERN_EMU_FAIL=cuLaunchKernelEx:40:stop@2 KERN_EMU_DELAY_US_MAX=20000 launch 3 "${long[@]}" &
until_stops 2
check "SIGTERM: it runs" kill -TERM "$pid"
kill -CONT "$pid"
wait
check "SIGTERM: ends with 143" ended_with 143
check "SIGTERM: what there was is reported" prints "stopped by signal 15"
check "SIGTERM: nothing is left" nothing_left

stands_still() { # RANK
    KERN_EMU_FAIL=cuLaunchKernelEx:40:stop@$1 KERN_EMU_DELAY_US_MAX=20000 launch 3 "${long[@]}" -T 2
    check "rank $1 stands still: ends with 6" ended_with 6
    check "rank $1 stands still: it is named" grep -qE "rank $1 \(.*\) is stopped: phase generate" "$run/err"
    check "rank $1 stands still: in time" in_time 5
    check "rank $1 stands still: nothing is left" nothing_left
}
stands_still 1
stands_still 2
finish
