#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The GPU halves of the artifacts, without a GPU.
set -euo pipefail

if grep -q '^KERN_SANITIZE:[^=]*=.' "$KERN_BUILD/CMakeCache.txt"; then
    echo "skipped: python3 cannot load artifacts that were built with a sanitizer"
    exit 77
fi
exec python3 -B "$KERN_SOURCE/tests/kernels_fatbin.py" "$KERN_BUILD"/kernels/*.so \
    "$KERN_BUILD/tests/kernels_probe.so"
