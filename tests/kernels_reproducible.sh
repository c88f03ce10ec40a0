#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The same sources and tools give the same artifact, whatever directories they lie in: builds copies
# of two kernels elsewhere, with this build's settings, and compares the bytes.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

setting() {
    sed -n "s/^$1:[^=]*=//p" "$KERN_BUILD/CMakeCache.txt"
}

mkdir -p "$work/source/device"
cp -r "$KERN_SOURCE/kernels" "$work/source/"
cp -r "$KERN_SOURCE/device/abi" "$work/source/device/"
(cd "$KERN_SOURCE" && cp --parents {bench,fabric,tests}/*.cu "$work/source/")
# What kernels/CMakeLists.txt takes from the project around it.
cat >"$work/source/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(kernels LANGUAGES C CXX ASM)
find_package(Threads REQUIRED)
set(CMAKE_C_STANDARD 11)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
add_library(kern_flags INTERFACE)
target_include_directories(kern_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(kern_flags INTERFACE _GNU_SOURCE)
if(KERN_SANITIZE)
  add_compile_options(-fsanitize=${KERN_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${KERN_SANITIZE})
endif()
add_subdirectory(kernels)
EOF

if [ "$(setting CMAKE_BUILD_TYPE)" = Debug ] || [ -n "$(setting KERN_SANITIZE)" ]; then
    echo "skipped: this build keeps debug information, which names directories"
    exit 77
fi
if ! cmake -S "$work/source" -B "$work/build" -DKERN_NVCC="$(setting KERN_NVCC)" \
    -DCMAKE_BUILD_TYPE="$(setting CMAKE_BUILD_TYPE)" -DKERN_WERROR=OFF \
    -DCMAKE_C_COMPILER="$(setting CMAKE_C_COMPILER)" \
    -DCMAKE_CXX_COMPILER="$(setting CMAKE_CXX_COMPILER)" >"$work/log" 2>&1 ||
    ! cmake --build "$work/build" --target kernel_toy_scale kernel_peer_barrier \
        >>"$work/log" 2>&1; then
    cat "$work/log"
    exit 1
fi
for name in toy_scale peer_barrier; do
    if ! cmp "$KERN_BUILD/kernels/$name.so" "$work/build/kernels/$name.so"; then
        echo "$name.so depends on where it was built"
        exit 1
    fi
    if strings "$work/build/kernels/$name.so" | grep -F "$work"; then
        echo "$name.so names the directory where it was built"
        exit 1
    fi
done
echo "toy_scale.so and peer_barrier.so: the same bytes from another directory"
