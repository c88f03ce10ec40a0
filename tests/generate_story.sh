#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Generation with a trained model, against its reference in double precision; and its text.
# shellcheck source=tests/generate_lib.sh
. "$(dirname "$0")/generate_lib.sh"

stories=$examples/stories
checkpoint=$(sed -n 's/^KERN_STORIES:[^=]*=//p' "$build/CMakeCache.txt")
if [ ! -d "$stories" ] || [ ! -f "$checkpoint/reference.json" ]; then
    echo "skipped: there is no checkpoint in $checkpoint"
    exit 77
fi
texts=(--weights "$checkpoint" --generate 64 --check-ids "$checkpoint/reference.json")

ways=("1 tp1 on" "2 tp2 auto" "2 tp2-nccl off")
[ -n "${KERN_TEST_ALL-}" ] && ways=({"1 tp1","2 tp2","4 tp4","2 tp2-nccl","4 tp4-nccl"}" "{off,on,auto})
for way in "${ways[@]}"; do
    read -r ranks name graphs <<<"$way"
    # The second text has a close call at its 29th token.
    generates "$way" 93 "$ranks" "$stories/$name/model.json" "${texts[@]}" -G "$graphs"
    check "$way: nothing is left" nothing_left
done

# Its text: as in the reference, without the space that the tokenizer puts before it.
once=1,403,407,261,378
launch 1 "$stories/tp1/model.json" --weights "$checkpoint" --generate 64 --prompt-ids "$once" \
    --vocab "$checkpoint/vocab.json"
check "a story: ends with 0" ended_with 0
check "a story: it is told" python3 -B -c 'import json, sys
text = json.load(open(sys.argv[1]))[0]["text"].replace("<0x0A>", "\n").lstrip(" ")
sys.exit(0 if open(sys.argv[2]).read().startswith(text + "\n#") else 1)' \
    "$checkpoint/reference.json" "$run/out"

# Five prompts in one batch give what each gives alone.
prompts=("$once" "1,403" "1,385,328" "$once,432,383" 1)
ids() { # FILE…: the tokens of the reports, one text a line
    python3 -B -c 'import json, sys
for path in sys.argv[1:]:
    for prompt in json.load(open(path))["generation"]["prompts"]:
        print(prompt["ids"])' "$@"
}
common=("$stories/tp1/model.json" --weights "$checkpoint" --generate 40)
launch 1 "${common[@]}" "${prompts[@]/#/--prompt-ids=}" --json "$work/batch.json"
check "five prompts: ends with 0" ended_with 0
check "five prompts: one batch" json "$work/batch.json" \
    "[p['vars'] for p in r['programs'] if p['name'] == 'step'] == [{'rows': 5, 'seqs': 5}]"
for i in "${!prompts[@]}"; do
    launch 1 "${common[@]}" --prompt-ids "${prompts[$i]}" --json "$work/alone$i.json"
done
ids "$work/batch.json" >"$work/batch"
ids "$work"/alone?.json >"$work/alone"
check "five prompts: what each gives alone" cmp "$work/batch" "$work/alone"
check "five prompts: five texts" test "$(grep -c , "$work/batch")" -eq 5
check "five prompts: nothing is left" nothing_left
finish
