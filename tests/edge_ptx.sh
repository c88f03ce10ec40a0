#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The PTX of the edges that is checked in is what the compiler makes of its source, and every later GPU's
# assembler takes it. A compiler of another release may write the same otherwise.
set -uo pipefail
source_dir=${KERN_SOURCE:-$(CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
kept=$source_dir/fabric/edge_kernels.ptx
release=13.0
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc)
if [ -z "$nvcc" ]; then
    echo "skipped: there is no nvcc"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
"$source_dir/fabric/edge_ptx.sh" "$nvcc" >"$work/made.ptx" || failed=1
if "$nvcc" --version | grep -q "release $release,"; then
    diff "$kept" "$work/made.ptx" || {
        echo "FAIL  fabric/edge_kernels.ptx is not what nvcc makes; run fabric/edge_ptx.sh"
        failed=1
    }
else
    echo "not compared: the PTX was made by release $release"
    for entry in kern_edge_take kern_edge_room kern_edge_post; do
        for ptx in "$work/made.ptx" "$kept"; do
            grep -q "\.entry $entry(" "$ptx" || failed=1
        done
    done
fi
for arch in sm_90 sm_100; do
    "$(dirname "$nvcc")/ptxas" -arch=$arch "$kept" -o "$work/$arch" || {
        echo "FAIL  ptxas -arch=$arch"
        failed=1
    }
done
exit $failed
