#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A thousand exported buffers of 8 ranks, by file descriptors and by fabric handles, which on emu are
# files as well: refused in words before anything is allocated where the limit on open files is too
# low, else the soft limit is raised and it works.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"
export time_limit=250

# limited WHICH FILES WORD…: launch under that limit on open files (-n both, -Sn the soft one).
limited() {
    local which=$1 files=$2
    shift 2
    (
        ulimit "$which" "$files" || exit 1
        launch "$@"
    )
}

python3 -B "$source_dir/tests/exports.py" "$build/kernels" "$work/many" 1000 all=8 || exit 1
many=("$work/many/model.json" -n 1 -w 0 -T 200)
for fabric in 0 1; do
    export KERN_EMU_FABRIC=$fabric
    use_run "$work/refused$fabric"
    limited -n 1024 8 "${many[@]}"
    check "1000 buffers of 8 ranks, 1024 files, KERN_EMU_FABRIC=$fabric: ends with 5" ended_with 5
    for text in "all 8 ranks: error: sharing memory needs " "may have 1024" "ulimit -Hn " "LimitNOFILE"; do
        check "1000 buffers of 8 ranks, 1024 files, KERN_EMU_FABRIC=$fabric: says \"$text\"" says "$text"
    done
    check "1000 buffers of 8 ranks, 1024 files, KERN_EMU_FABRIC=$fabric: each message comes once" says_each_once
    check "1000 buffers of 8 ranks, 1024 files, KERN_EMU_FABRIC=$fabric: nothing is left" nothing_left
done

hard=$(ulimit -Hn)
if [ "$hard" != unlimited ] && [ "$hard" -lt 8300 ]; then
    echo "skipped: 1000 buffers that work; they need 8300 open files, and the hard limit here is $hard"
    finish
fi
export KERN_EMU_FABRIC=0
use_run "$work/works"
limited -Sn 1024 8 "${many[@]}" --json "$work/report.json"
check "1000 buffers of 8 ranks, a soft limit of 1024: ends with 0" ended_with 0
check "1000 buffers of 8 ranks, a soft limit of 1024: by file descriptors" prints "file descriptors, because"
check "1000 buffers of 8 ranks, a soft limit of 1024: 7000 mappings on each" json "$work/report.json" \
    "len(r['ranks']) == 8 and all(rank['fabric']['mappings'] == 7000 for rank in r['ranks'])"
check "1000 buffers of 8 ranks, a soft limit of 1024: nothing is left" nothing_left
grep '^# start:' "$run/out"
finish
