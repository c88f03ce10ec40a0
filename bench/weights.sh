#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# How fast a checkpoint of MB (2000) is loaded from a warm page cache, over memcpy: weights.sh [MB]
set -eu
build=${KERN_BUILD:-$(CDPATH='' cd -- "$(dirname "$0")/.." && pwd)/build}
trap 'rm -f "$build/bench/weights.safetensors"' EXIT
echo "# $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg)"
"$build/bench/bench_weights" "$@"
