#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# device/abi must compile by itself, as C and as C++, with gcc and with clang.
# shellcheck source=tests/abi_common.sh
. "$(dirname "$0")/abi_common.sh"

compile() {
    command -v "$1" >/dev/null || return 0
    "$@" -Wall -Wextra -Wshadow -Werror -fsyntax-only -I"$source_dir" "$work/one.$suffix"
    compiled=$((compiled + 1))
}

compiled=0
for header in "$source_dir"/device/abi/*.h; do
    for suffix in c cpp; do
        echo "#include \"device/abi/$(basename "$header")\"" >"$work/one.$suffix"
    done
    suffix=c
    for standard in c11 gnu11 gnu17; do
        compile gcc -std=$standard
        compile clang -std=$standard
    done
    suffix=cpp
    for standard in c++11 c++17; do
        compile g++ -std=$standard
        compile clang++ -std=$standard
    done
done
echo "$compiled compilations"
[ "$compiled" -gt 0 ]
