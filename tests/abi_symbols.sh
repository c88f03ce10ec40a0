#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every symbol in device/abi must be exported by the library it is looked up in, wherever that
# library or its stub for linking is installed, and by the emulated GPU if it is built; and the
# toolkit's history of the driver API must know each of the driver's in CUDA 12.4.
# shellcheck source=tests/abi_common.sh
. "$(dirname "$0")/abi_common.sh"

checked=0
failed=0

# check LIBRARY FILE
check() {
    [ -e "$2" ] || return 0
    nm -D --defined-only "$2" | awk '{sub(/@.*/, "", $3); print $3}' | sort -u >"$work/exported"
    functions "$1" | cut -d'|' -f2 | sort -u >"$work/wanted"
    if comm -23 "$work/wanted" "$work/exported" | grep . >"$work/missing"; then
        echo "$2 does not export: $(tr '\n' ' ' <"$work/missing")"
        failed=1
    else
        echo "$2 exports all $(wc -l <"$work/wanted") functions of $1"
    fi
    checked=$((checked + 1))
}

# installed SONAME: the files of that name that the loader or the toolkit has.
installed() {
    {
        PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | sed -n "s|.*$1 .*=> ||p"
        find -L "$toolkit/lib64" -name "$1" -not -path '*/stubs/*' 2>/dev/null
    } | xargs -r -n1 realpath | sort -u
}

check cuda "$toolkit/lib64/stubs/libcuda.so"
for file in $(installed libcuda.so.1); do check cuda "$file"; done
for version in 12 13; do
    for file in $(installed libcublas.so.$version); do check cublas "$file"; done
    for file in $(installed libcublasLt.so.$version); do check cublaslt "$file"; done
done
for file in $(installed libnccl.so.2); do check nccl "$file"; done

emu=${KERN_BUILD:-/nonexistent}/lib/libkern-emu.so
for library in cuda cublas cublaslt nccl; do check $library "$emu"; done

# cudaTypedefs.h names the type of every version of a function after the CUDA that brought it:
# PFN_cuMemAlloc_v3020 is cuMemAlloc_v2, the second version, of CUDA 3.2.
history=$toolkit/include/cudaTypedefs.h
if [ -e "$history" ]; then
    functions cuda | while IFS='|' read -r name symbol _; do
        version=1
        [[ $symbol =~ _v([0-9]+)$ ]] && version=${BASH_REMATCH[1]}
        known=$(grep -o "\*PFN_${name}_v[0-9]*)" "$history" | sed 's/.*_v\([0-9]*\))/\1/' |
            sort -un | awk '$1 <= 12040' | wc -l)
        [ "$known" -ge "$version" ] || echo "$symbol is younger than CUDA 12.4"
    done >"$work/young"
    if [ -s "$work/young" ]; then
        cat "$work/young"
        failed=1
    else
        echo "$history: CUDA 12.4 has every function of cuda"
    fi
    checked=$((checked + 1))
fi

[ "$checked" -gt 0 ] || skip "no library of the toolkit at $toolkit and no $emu"
exit "$failed"
