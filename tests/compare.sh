#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# --compare: two manifests with the same inputs in one run, and what is said of a difference.
# shellcheck source=tests/generate_lib.sh
. "$(dirname "$0")/generate_lib.sh"

# edit NAME STATEMENT: the manifest of the minimal example after a Python statement, beside it.
models=$work/models
cp -r "$examples/minimal" "$models"
edit() {
    edit_manifest "$models/model.json" "$models/$1.json" "$2"
}
model=$models/model.json

launch 2 "$model" --compare "$model" -n 2 -w 1 --json "$work/same.json"
check "the same: ends with 0" ended_with 0
check "the same: nothing on stderr" test ! -s "$run/err"
check "the same: it is said" prints "compare ok: 4 outputs of 2 ranks"
check "the same: the report says so" json "$work/same.json" \
    "r['compare']['verdict'] == 'ok' and r['compare']['outputs'] == 4 and
     r['compared_with'].endswith('/model.json')"
check "the same: nothing is left" nothing_left

# A factor of one program is another: that output differs, from its first element on.
edit factor "
for program in m['programs'].values():
    for call in program['calls']:
        for arg in call['args']:
            if 'f32' in arg:
                arg['f32'] = arg['f32'] * 2 + 1
                break"
launch 2 "$models/factor.json" --compare "$model" -n 1 -w 0
check "a difference: ends with 1" ended_with 1
check "a difference: the first one is named" grep -qE \
    'error: y_[a-z0-9]+: [0-9]+ of [0-9]+ elements differ from those of .*/model.json; the first is \[0' "$run/err"
check "a difference: the report comes all the same" prints "compare WRONG"
check "a difference: each message comes once" says_each_once
check "a difference: nothing is left" nothing_left

# Outputs are compared by name; one that only one manifest has is said.
edit renamed "
text = json.dumps(m).replace('\"y_f32\"', '\"z_f32\"')
m = json.loads(text)"
launch 2 "$models/renamed.json" --compare "$model" -n 1 -w 0
check "another name: ends with 0" ended_with 0
check "another name: it is said of both" says "z_f32: is no output of"
check "another name: it is said of the other" says "y_f32: is an output of"
check "another name: the rest is compared" prints "compare ok: 2 outputs of 2 ranks"
launch 2 "$model" --compare "$examples/barrier2/model.json" -n 1 -w 0
check "nothing in common: ends with 2" ended_with 2
check "nothing in common: it is said" says "has the name of one here"

# The other is refused before this one is looked at, with its name.
launch 2 "$model" --compare "$models/none.json"
check "no other: ends with 2" ended_with 2
check "no other: it is named" says "manifest of $models/none.json: "
edit broken "m['schema_version'] = 6"
launch 2 "$model" --compare "$models/broken.json"
check "another that is refused: ends with 3" ended_with 3
check "another that is refused: it is named" says "manifest of $models/broken.json: "
check "another that is refused: each message comes once" says_each_once

# Two ways to add up that give the same bytes, and the tokens that they lead to.
llama=$examples/llama
weights=(--weights "$llama/checkpoint")
launch 2 "$llama/tp2/model.json" "${weights[@]}" --compare "$llama/tp2-nccl/model.json" \
    --generate 20 --prompt-ids 50,57,46 --prompt-ids 3
check "tokens: ends with 0" ended_with 0
check "tokens: they are the same" prints "compare ok: 2 prompts, 40 tokens"
check "tokens: those of one manifest are shown" test "$(grep -c '^# prompt' "$run/out")" -eq 2
check "tokens: nothing is left" nothing_left
edit_manifest "$llama/tp1/model.json" "$work/epsilon.json" 'm["constants"]["EPSILON"] = 0.5'
launch 1 "$work/epsilon.json" --kernels "$llama/tp1" "${weights[@]}" --compare "$llama/tp1/model.json" \
    --generate 20 --prompt-ids 50,57,46
check "other tokens: ends with 1" ended_with 1
check "other tokens: the first is named" grep -qE 'error: --compare: token [0-9]+ after prompt 1 is [0-9]+, and' "$run/err"
finish
