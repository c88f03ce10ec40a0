#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What kern says is what kern-rank does: ep runs from its canonical text and gives the same outputs,
# byte for byte, and each rank takes the memory that kern plan told.
set -euo pipefail

source_dir=${KERN_SOURCE:-$(CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
build=${KERN_BUILD:-$source_dir/build}
# shellcheck source=dev.d/mpi.sh
. "$source_dir/dev.d/mpi.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
example=$build/examples/ep2

# run NAME MANIFEST: runs it with two ranks; leaves NAME-{0,1}.safetensors and NAME-report.json in
# $work.
run() {
    mpirun -np 2 "$build/bin/kern-rank" "$2" --device emu --kernels "$example" \
        --weights "$example/weights.safetensors" --input "$example/inputs-{rank}.safetensors" \
        --output "$work/$1-{rank}.safetensors" --json "$work/$1-report.json" -n 2 -w 1 \
        >"$work/$1.out"
}

"$build/bin/kern" show "$example/model.json" >"$work/shown.json"
if cmp -s "$work/shown.json" "$example/model.json"; then
    echo "the example is in canonical text already, so nothing would be compared"
    exit 1
fi
run original "$example/model.json"
run shown "$work/shown.json"
for rank in 0 1; do
    cmp "$work/original-$rank.safetensors" "$work/shown-$rank.safetensors"
done

"$build/bin/kern" plan --json "$work/shown.json" >"$work/plan.json"
python3 - "$work" <<'EOF'
import json, pathlib, sys
work = pathlib.Path(sys.argv[1])
plan = json.loads((work / "plan.json").read_text())
ranks = json.loads((work / "shown-report.json").read_text())["ranks"]
assert len(ranks) == 2
for rank in ranks:
    assert rank["memory_bytes"] == plan["memory_bytes"], (rank, plan)
EOF
echo "ep runs from its canonical text, and takes the memory that was planned"
