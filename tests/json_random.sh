#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Random JSON texts, whole and damaged, read by base/json.c and by Python, see json_random.py.
# JSON_RANDOM_COUNT=100000 tries more of them.
set -euo pipefail

exec python3 -B "$KERN_SOURCE/tests/json_random.py" "$KERN_BUILD/tests/json_print" \
    "${JSON_RANDOM_COUNT:-5000}"
