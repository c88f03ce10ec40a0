#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The manifests of examples/llama on the host halves of their kernels, against a model in double
# precision: of the random checkpoint always, of the trained one where the build has it.
set -euo pipefail

# shellcheck source=tests/kernels_python.sh
source "$KERN_SOURCE/tests/kernels_python.sh"
llama() {
    python3 -B "$KERN_SOURCE/tests/kernels_llama.py" "$@"
}
llama "$KERN_BUILD/examples/llama" "$KERN_BUILD/examples/llama/checkpoint"

stories=$(sed -n 's/^KERN_STORIES:[^=]*=//p' "$KERN_BUILD/CMakeCache.txt")
if [ -d "$KERN_BUILD/examples/stories" ] && [ -f "$stories/reference.json" ]; then
    llama "$KERN_BUILD/examples/stories" "$stories"
else
    echo "skipped: stories, because there is no checkpoint in $stories"
fi
