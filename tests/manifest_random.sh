#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Random manifests, whole and damaged: the parser accepts what the schema accepts, see
# manifest_random.py. MANIFEST_RANDOM_COUNT=100000 tries more of them, MANIFEST_RANDOM_SEED others.
set -euo pipefail

exec python3 -B "$KERN_SOURCE/tests/manifest_random.py" "$KERN_BUILD/tests/manifest_judge" \
    "$KERN_SOURCE/docs/manifest-v7.schema.json" "${MANIFEST_RANDOM_COUNT:-5000}" \
    "${MANIFEST_RANDOM_SEED:-1}"
