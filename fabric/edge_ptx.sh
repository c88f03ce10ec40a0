#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# fabric/edge_ptx.sh NVCC: prints the PTX of edge_kernels.cu as fabric/edge_kernels.ptx holds it:
#
#     fabric/edge_ptx.sh nvcc >fabric/edge_kernels.ptx
#
# It is for every GPU from sm_90 on. Its version is the first that knows this target, and not the
# compiler's own, which older drivers refuse.
set -euo pipefail
CDPATH='' cd -- "$(dirname "$0")/.."
made=$(mktemp)
trap 'rm -f "$made"' EXIT
"$1" -std=c++17 -ptx -arch=compute_90 -fmad=false -allow-unsupported-compiler -I. \
    fabric/edge_kernels.cu -o "$made"
printf '// SPDX-License-Identifier: Apache-2.0\n//\n// Made by fabric/edge_ptx.sh from edge_kernels.cu.\n'
sed -e '/^\/\//d' -e 's/^\.version .*/.version 7.8/' "$made"
