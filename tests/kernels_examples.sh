#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every example, on the host halves of its kernels, against its expected outputs.
set -euo pipefail

# shellcheck source=tests/kernels_python.sh
source "$KERN_SOURCE/tests/kernels_python.sh"
exec python3 -B "$KERN_SOURCE/tests/kernels_examples.py" "$KERN_BUILD/examples"
