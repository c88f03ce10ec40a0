#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every example, on the host halves of its kernels, against its expected outputs.
set -euo pipefail

sanitizer=$(sed -n 's/^KERN_SANITIZE:[^=]*=//p' "$KERN_BUILD/CMakeCache.txt")
case $sanitizer in
*thread*)
    echo "skipped: python3 cannot load code that was built for ThreadSanitizer"
    exit 77
    ;;
*address*)
    # The interpreter was not built with the sanitizer, whose runtime must come first, and leaks.
    LD_PRELOAD=$(gcc -print-file-name=libasan.so)
    ASAN_OPTIONS=detect_leaks=0
    export LD_PRELOAD ASAN_OPTIONS
    ;;
esac
exec python3 -B "$KERN_SOURCE/tests/kernels_examples.py" "$KERN_BUILD/examples"
