# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by tests whose python3 loads kernel artifacts into itself: skips the test where it cannot,
# and prepares its environment where the build has a sanitizer.
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
