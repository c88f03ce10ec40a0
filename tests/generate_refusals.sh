#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What --generate refuses, and what it says of it.
# shellcheck source=tests/generate_lib.sh
. "$(dirname "$0")/generate_lib.sh"

llama=$examples/llama
checkpoint=$llama/checkpoint
tp1=("$llama/tp1/model.json" --weights "$checkpoint")
tp2=("$llama/tp2/model.json" --weights "$checkpoint")
with_ranks=2 refused 2 "no projection" "$examples/ep2/model.json" --generate 1 --prompt-ids 1 -- \
    "all 2 ranks: error: --generate: the manifest cannot be served: vars" "[P1]" "[P2]"
with_ranks=2 refused 2 "a prompt too long" "${tp2[@]}" --generate 1 \
    --prompt-ids "$(seq -s , 0 90),$(seq -s , 0 90)" -- \
    "prompt 1 takes 182 rows; a sequence has 128 at most"
refused 2 "no prompt" "${tp1[@]}" --generate 1 -- "--prompt-ids 1,2,3"
refused 2 "no count" "${tp1[@]}" --prompt-ids 1 -- "--prompt-ids: is of use with --generate N"
refused 2 "a prompt of words" "${tp1[@]}" --generate 1 --prompt-ids once,upon -- "once,upon" "1,2,3"
refused 2 "a prompt with a hole" "${tp1[@]}" --generate 1 --prompt-ids 1,,2 -- "1,,2"
refused 2 "a token that the model has not" "${tp1[@]}" --generate 1 --prompt-ids 5 --prompt-ids 1,96 -- \
    "token 2 of prompt 2 is 96; the model's are 0 to 95"
refused 2 "two stops in one" "${tp1[@]}" --generate 1 --prompt-ids 5 --stop-id 1,2 -- "may be repeated"
refused 2 "no input for it" "${tp1[@]}" --generate 1 --prompt-ids 5 --temperature 1 --top-k 3 -- \
    "--temperature: the manifest has no input with the role temperature" "the role top_k"
refused 2 "no probability" "${tp1[@]}" --generate 1 --prompt-ids 5 --top-p 2 -- "--top-p: is a probability"
refused 2 "inputs of driving" "${tp1[@]}" --generate 1 --prompt-ids 5 --input x --program step -- \
    "--input: does not go with --generate" "--program: does not go with --generate"
refused 2 "no vocabulary" "${tp1[@]}" --generate 1 --prompt-ids 5 --vocab "$work/none" -- "cannot be opened"
echo '{"a": 0}' >"$work/object.json"
refused 4 "a vocabulary of another kind" "${tp1[@]}" --generate 1 --prompt-ids 5 \
    --vocab "$work/object.json" -- "is no array with a piece of each token"
refused 4 "texts of another kind" "${tp1[@]}" --generate 1 --check-ids "$work/object.json" -- \
    "is no array of texts"
echo '[{"prompt_ids": [1, -2], "greedy_ids": [1]}]' >"$work/texts.json"
refused 4 "texts of no tokens" "${tp1[@]}" --generate 1 --check-ids "$work/texts.json" -- \
    "[0].prompt_ids is not an array of tokens"
refused 4 "a prompt without text" "${tp1[@]}" --generate 1 --prompt-ids 7 \
    --check-ids "$checkpoint/reference.json" -- "has no text with the tokens of prompt 1"
# Rank 0 stops after 57 tokens; rank 1, which has another weight, never comes to that token.
python3 -B "$source_dir/tests/tensors.py" change "$checkpoint/model.safetensors" "$work/other.safetensors" \
    value=lm_head.weight:1733:16256
same=(--generate 60 --prompt-ids "1,2,3" --stop-id 54)
refused 1 "ranks that find other tokens" "${tp1[@]}" "${same[@]}" : -np 1 "$kern_rank" --device emu \
    "$llama/tp1/model.json" --weights "$work/other.safetensors" "${same[@]}" -- \
    "generate: rank 1 (" "other tokens than those of rank 0"
end_jobs
finish
