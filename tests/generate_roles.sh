#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every role and table that generation fills, and every shape of program that makes steps, with a
# model that is no more than a sum and looks at all of it (generate_kernels.c, generate_roles.py).
# shellcheck source=tests/generate_lib.sh
. "$(dirname "$0")/generate_lib.sh"

models=$work/models
python3 -B "$source_dir/tests/generate_roles.py" "$build/tests/generate_kernels" "$models" || exit 1

sums() { # WAY RANKS
    generates "$1" 150 "$2" "$models/$1/model.json" --generate 30 --check-ids "$models/greedy.json"
    check "$1: nothing is left" nothing_left
}
for way in bounds steps packed fixed silent rounds; do
    job sums "$way" 1
done
job sums ranks 2
job generates "rounds at the end of a sequence" 50 1 "$models/rounds/model.json" --generate 120 \
    --check-ids "$models/greedy.json"
job generates "rounds as long as there is room" 50 1 "$models/rounds/model.json" \
    --generate 18446744073709551615 --check-ids "$models/greedy.json"
end_jobs

# A prompt's tokens and those that follow are told apart, also where one program takes both.
launch 1 "$models/packed/model.json" --generate 20 --prompt-ids 1,2,3 --json "$work/pace.json"
check "steps of the program of chunks: both were counted" json "$work/pace.json" \
    '[r["generation"][part]["tokens"] for part in ("chunks", "steps")] == [3, 19]'

# Drawing: what is asked for reaches every sequence, and a seed's draws depend on nothing else.
generates "ways to draw" 150 1 "$models/bounds/model.json" --generate 30 --top-k 3 --top-p 0.5 \
    --min-p 0.25 --check-ids "$models/drawn.json"
draw=(--generate 20 --prompt-ids "5,6,7" --prompt-ids 1 --prompt-ids "5,6,7" --temperature 1)
launch 1 "$models/bounds/model.json" "${draw[@]}" --sample-seed 4 --json "$work/a.json" \
    --compare "$models/packed/model.json"
check "a seed: the same draws in other batches" ended_with 0
check "a seed: it is said" prints "compare ok: 3 prompts, 60 tokens"
launch 1 "$models/bounds/model.json" "${draw[@]}" --sample-seed 5 --json "$work/b.json"
check "another seed: ends with 0" ended_with 0
cat "$work/a.json" "$work/b.json" >"$run/checked"
check "another seed: other draws, and of each prompt its own" python3 -B -c 'import json, sys
texts = [p["ids"] for path in sys.argv[1:] for p in json.load(open(path))["generation"]["prompts"]]
sys.exit(0 if len(set(map(tuple, texts))) == 6 else 1)' "$work/a.json" "$work/b.json"

# Programs that cannot be driven.
refused 2 "only rounds" "$models/only_rounds/model.json" --generate 1 --prompt-ids 1 -- \
    "no program takes a prompt"

edit() { # NAME STATEMENT: the manifest of "steps" after a Python statement, in $models/steps
    edit_manifest "$models/steps/model.json" "$models/steps/$1.json" \
        'buffers, states, args = m["buffers"], m["states"], m["programs"]["step"]["calls"][0]["args"]'"
$2"
}
refused_edit() { # NAME STATEMENT TEXT
    edit "$1" "$2"
    refused 2 "$1" "$models/steps/$1.json" --generate 1 --prompt-ids 1 -- "$3"
}
refused_edit role "del buffers['top_k']['fill']" \
    'step: reads the input "top_k", which has no role and is no table'
refused_edit sharded "m['topology'] = {'groups': {'tp': 1}}
states['kv']['shard'] = {'group': 'tp', 'by': 'position'}" 'kv: is sharded by position'
refused_edit token "del buffers['token']['fill'], buffers['first']['fill']
buffers['token']['fill'] = 'valid'; del buffers['valid']['fill']" 'reads no input with the role token'
refused_edit stage "m['cut'] = {'id': 'x', 'stage': 0, 'stages': 2}" "is stage 0 of 2 of a pipeline"
end_jobs
finish
