# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
install_packages "${packages[@]}" clang libclang-rt-14-dev
seconds=${1-60}
build_preset fuzz fuzzers
for fuzzer in build-fuzz/fuzz/*_fuzz; do
    name=$(basename "$fuzzer")
    corpus=build-fuzz/corpus/$name
    mkdir -p "$corpus"
    dictionary=()
    [ -f "tests/fuzz/$name.dict" ] && dictionary=("-dict=tests/fuzz/$name.dict")
    seeds=()
    [ -d "tests/fuzz/$name.seeds" ] && seeds=("tests/fuzz/$name.seeds")
    echo "+ $name for $seconds s"
    "$fuzzer" -max_total_time="$seconds" -print_final_stats=1 -timeout=10 -rss_limit_mb=4096 \
        -artifact_prefix="build-fuzz/" "${dictionary[@]}" "$corpus" "${seeds[@]}"
done
