#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What a step costs on the host, over the bare driver calls that it comes down to.
set -eu
build=${KERN_BUILD:-$(CDPATH='' cd -- "$(dirname "$0")/.." && pwd)/build}
echo "# $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg)"
"$build/bench/bench_step" "$@"
