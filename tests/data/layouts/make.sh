#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the artifacts that stand beside it with nvcc (13.0 made those that are checked in):
# make.sh [NVCC]
set -euo pipefail
CDPATH='' cd -- "$(dirname "$0")"
nvcc=${1:-nvcc}
make() { # SOURCE OUTPUT OPTION…
    "$nvcc" -std=c++17 -ccbin g++ -allow-unsupported-compiler -o "$2" "${@:3}" "$1"
    echo "$2: $(wc -c <"$2") bytes"
}
for sm in 90 100; do
    make mixed.cu "mixed_sm_$sm.cubin" -cubin -arch "sm_$sm"
done
make mixed.cu mixed.ptx -ptx -arch compute_90
make large.cu large.cubin -cubin -arch sm_90
both=(-gencode 'arch=compute_90,code=[compute_90,sm_90]' -gencode 'arch=compute_100,code=sm_100')
make mixed.cu mixed.fatbin -fatbin --no-compress "${both[@]}"
make mixed.cu mixed_compressed.fatbin -fatbin -compress-mode=size -gencode arch=compute_90,code=sm_90
make other.cu other.fatbin -fatbin --no-compress -gencode arch=compute_90,code=sm_90
