# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
rm -rf build build-debug build-sanitize build-fuzz
