#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What it costs to parse and verify a large manifest: verify.sh [ROUNDS] (9). Processor time (medians of
# turns, warm) and peak memory over those of json-c's parse of the same bytes, at about 10 and 40 MB.
# Fails where a ratio is above its target.
set -euo pipefail

source_dir=${KERN_SOURCE:-$(CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
bench=${KERN_BUILD:-$source_dir/build}/bench/bench_verify
rounds=${1-9}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

failed=0
# row WHAT MB OURS THEIRS RATIO TARGET
row() {
    local verdict=ok
    if awk -v ratio="$5" -v target="$6" 'BEGIN { exit !(ratio > target) }'; then
        verdict=above
        failed=1
    fi
    printf '%-12s %6s %12s %12s %8s %8s  %s\n' "$@" "$verdict"
}

printf '%-12s %6s %12s %12s %8s %8s\n' '# manifest' MB kern json-c ratio target
first=
for layers in 93 372; do
    file=$work/$layers.json
    python3 "$source_dir/bench/manifest.py" --layers $layers "$file"
    mb=$(awk -v bytes="$(stat -c %s "$file")" 'BEGIN { printf "%.1f", bytes / 1e6 }')
    read -r ours theirs ratio < <("$bench" time "$file" "$rounds")
    target=${first:-1.6}
    row 'time, ms' "$mb" "$ours" "$theirs" "$ratio" "$target"
    # Four times the bytes may take no more than 15 % more time for each.
    first=$(awk -v ratio="$ratio" 'BEGIN { printf "%.3f", ratio * 1.15 }')
    ours=$("$bench" memory kern "$file")
    theirs=$("$bench" memory json-c "$file")
    ratio=$(awk -v a="$ours" -v b="$theirs" 'BEGIN { printf "%.3f", a / b }')
    row 'memory, KiB' "$mb" "$ours" "$theirs" "$ratio" 1.5
done
exit $failed
