#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every function type in device/abi must be the type of the declaration in NVIDIA's header. The
# lists become pointers of our type that are initialised with the toolkit's function of the same
# symbol; they are compiled as C++, which converts no function pointer into another.
# shellcheck source=tests/abi_common.sh
. "$(dirname "$0")/abi_common.sh"

cuda_include=$(need_header cuda.h)
nccl_include=$(need_header nccl.h)

# check LIBRARY HEADERS...
check() {
    local library=$1 count
    shift
    {
        printf '#include <%s>\n' "$@"
        functions "$library" | while IFS='|' read -r name symbol returned params; do
            echo "extern $returned(*const our_$name) $params;"
            echo "$returned(*const our_$name) $params = &$symbol;"
        done
    } >"$work/$library.cpp"
    # Without this macro cuda.h renames unversioned functions to their newest version and hides the
    # older declarations.
    g++ -std=c++17 -Werror -D__CUDA_API_VERSION_INTERNAL -D__CUDA_API_VERSION_INTERNAL_ODR \
        -isystem "$cuda_include" -isystem "$nccl_include" -fsyntax-only "$work/$library.cpp"
    count=$(grep -c '^extern' "$work/$library.cpp")
    echo "$library: $count function types agree"
    [ "$count" -gt 0 ]
}

check cuda cuda.h
check cublas cuda.h cublas_api.h
check cublaslt cuda.h cublasLt.h
check nccl cuda.h nccl.h
