#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What a build with sanitizers runs of the program, in which a run takes many times as long: two ranks
# of every example, launch by launch and as graphs, generation over both roads, and a refusal by each
# part of it. That stderr is empty says that no sanitizer had a word to say, at the end of leaks.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/lib.sh"

sound() { # WHAT RANKS WORD…
    local what=$1
    launch "${@:2}"
    # The search for leaks itself, rarely, dies of a thread that ends under it, which says nothing of
    # the run.
    if grep -qF 'LeakSanitizer has encountered a fatal error' "$run/err"; then
        launch "${@:2}"
    fi
    check "$what: ends with 0" ended_with 0
    check "$what: results are as expected" prints "check ok"
    check "$what: nothing on stderr" test ! -s "$run/err"
    check "$what: nothing is left" nothing_left
}

# refused CODE WHAT WORD… -- TEXT…: two ranks that end so, and of which no sanitizer says anything.
refused() {
    refuses "$1" 2 "${@:2}"
    check "$2: no sanitizer reports" sh -c "! grep -E 'Sanitizer|runtime error' '$run/err'"
}

for way in "1 minimal" "2 neighbour" "2 barrier2" "2 allreduce2" "2 ep2"; do
    read -r ranks name <<<"$way"
    for graphs in off on; do
        # shellcheck disable=SC2046
        sound "$name, graphs $graphs" "$ranks" "$examples/$name/model.json" $(example_files "$name") \
            --check "$examples/$name/expected-{rank}.safetensors" --atol 1e-6 --rtol 1e-5 \
            -n 3 -w 1 -G "$graphs"
    done
done

llama=$examples/llama
for way in "tp2 auto" "tp2-nccl off"; do
    read -r name graphs <<<"$way"
    sound "generation, $name" 2 "$llama/$name/model.json" --weights "$llama/checkpoint" --generate 12 \
        --check-ids "$llama/checkpoint/reference.json" -G "$graphs"
done

ep=("$examples/ep2/model.json" --weights "$examples/ep2/weights.safetensors")
refused 2 "an unknown option" "${ep[@]}" --stesp 3 -- "--stesp"
head -c 1000 "$examples/ep2/model.json" >"$work/short.json"
refused 3 "a truncated manifest" "$work/short.json" -- "[V-JSON]"
refused 2 "no weights" "${ep[0]}" --weights "$work/none.safetensors" -- "none.safetensors"
refused 4 "inputs of another shape" "${ep[@]}" --input "$examples/ep2/weights.safetensors" -- "weights.safetensors"
KERN_EMU_FAIL=cuMemCreate:1@1 refused 5 "no memory on one rank" "${ep[@]}" -- "cuMemCreate"
refused 2 "generation without a projection" "${ep[@]}" --generate 1 --prompt-ids 1 -- "cannot be served"
finish
