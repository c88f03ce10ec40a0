#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checkpoints that do not fit or cannot be read to their end: each ends with 4 on all ranks, names the
# tensor and the file, and leaves nothing behind.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/weights_lib.sh
. "$(dirname "$0")/weights_lib.sh"

big=$files/big.safetensors

# refused WHAT TEXT…: the last run.
refused() {
    check_refusal 4 "$@"
    check "$1: ends in time" in_time
}

load 2 device
check "as it should be: ends with 0" ended_with 0
check "as it should be: outputs are as expected" prints "check ok"

# changed NAME KEY=VALUE WHAT TEXT…: a run with a copy of the checkpoint with one thing changed.
changed() {
    tensors change "$big" "$files/$1.safetensors" "$2"
    checkpoint=$files/$1.safetensors load 2 device
    refused "${@:3}"
}
changed name name=big.x:big.y "a missing tensor" "buffers.x_f32.bind[0]" "tensor big.x is not in the checkpoint" \
    'did you mean "big.y"?' "all 2 ranks: error: "
changed dtype dtype=big.x:I32 "another dtype" "buffers.x_f32.bind[0]" "tensor big.x" "dtype.safetensors" \
    "is I32, and the buffer f32"
changed cut length=4000000 "a truncated file" "cut.safetensors" "tensor big.x"
changed empty length=4 "hardly any file" "empty.safetensors" "has 4 bytes"
printf 'version https://git-lfs.github.com/spec/v1\n' >"$files/lfs.safetensors"
checkpoint=$files/lfs.safetensors load 2 device
refused "another kind of file" "lfs.safetensors" "LFS"

# The tensor is read in eight pieces.
for n in 1 5; do
    with_fault "KERN_TEST_READ=error:$n" load 2 device
    refused "a disk error on all ranks, at read $n" "big.safetensors: tensor big.x cannot be read" \
        "of the file on: Input/output error"
    with_fault "KERN_TEST_READ=error:$n@1" load 2 device
    refused "a disk error on rank 1, at read $n" "rank 1 (" "tensor big.x cannot be read" "Input/output error"
done
for rank in 0 1; do
    checkpoint=$files/short.safetensors
    cp "$big" "$checkpoint"
    with_fault "KERN_TEST_READ=truncate:3@$rank" load 2 device
    refused "a file that loses its end while rank $rank reads it" "short.safetensors" \
        "the file was changed after it was opened" "tensor big.x"
done
finish
