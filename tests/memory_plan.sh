#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The memory that kern plan says a rank takes, against what kern-rank reports and against the most
# device memory that its process has had of emu, rank by rank.
# shellcheck source=tests/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# planned NAME RANKS MANIFEST WORD…: a run of the manifest takes what is planned for it.
planned() {
    local name=$1 ranks=$2 manifest=$3
    shift 3
    "$build/bin/kern" plan --json "$manifest" >"$run/plan"
    rm -f "$run"/peak.*
    KERN_TEST_PEAK=$run/peak LD_PRELOAD=$build/tests/libdevice_peak.so \
        launch "$ranks" "$manifest" --json "$run/report" "$@"
    check "$name: ends with 0" ended_with 0
    check "$name: every rank takes what is planned" python3 -B -c '
import json, pathlib, sys
plan, report = (json.load(open(sys.argv[i])) for i in (1, 2))
peaks = [int(path.read_text()) for path in pathlib.Path(sys.argv[3]).glob("peak.*")]
print("planned", plan["total_bytes"], "and for a time", plan["source_bytes"], "peaks", sorted(peaks))
assert len(peaks) == len(report["ranks"])
assert all(rank["memory_bytes"] == plan["memory_bytes"] for rank in report["ranks"])
most = plan["total_bytes"] + plan["source_bytes"]
assert all(0.97 * most <= peak <= 1.03 * most for peak in peaks)
' "$run/plan" "$run/report" "$run"
    cat "$run/checked"
}
steps=(--steps 2 --warmup 1)
for name in ep allreduce; do
    folder=$examples/$name
    words=(--input "$folder/inputs-{rank}.safetensors" "${steps[@]}")
    [ -f "$folder/weights.safetensors" ] && words+=(--weights "$folder/weights.safetensors")
    planned "$name" 8 "$folder/model.json" "${words[@]}"
done
checkpoint=$examples/llama/checkpoint
for tp in 1 2 2-nccl; do
    planned "llama tp $tp" "${tp%-*}" "$examples/llama/tp$tp/model.json" --weights "$checkpoint" \
        --generate 4 --prompt-ids 1,2,3
done
finish
