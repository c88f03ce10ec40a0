#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The matrix of bandwidths and latencies between so many ranks of this machine:
#
#     examples/p2p/run.sh [-np 8] [--bytes N] [--rounds N] [--concurrent] [--json FILE] [-- OPTION…]
#
# Options behind -- are kern-rank's. MPIRUN says how to start processes on more than this machine
# (MPIRUN="mpirun -np 16 --hostfile hosts"); -np then only says how many there will be, and TMPDIR
# must be a folder that all of them see.
set -eu
home=$(CDPATH='' cd -- "$(dirname "$0")/../.." && pwd)
build=${KERN_BUILD:-$home/build}
ranks=8 sizes=() json=() concurrent=
usage() {
    sed -n '6p' "$0" | cut -c7- >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
    -np | --bytes | --rounds | --json) [ $# -ge 2 ] || usage ;;&
    -np) ranks=$2 && shift 2 ;;
    --bytes | --rounds) sizes+=("$1" "$2") && shift 2 ;;
    --json) json=(--json "$2") && shift 2 ;;
    --concurrent) concurrent=yes && shift ;;
    --) shift && break ;;
    *) usage ;;
    esac
done
steps=$((ranks * ranks))
if [ "$concurrent" ]; then
    sizes+=(--concurrent 1)
    steps=$((2 * ranks + 1)) # enough for an odd number as well
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -B "$home/examples/p2p/generate.py" --kernels "$build/kernels" --out "$folder" --ranks "$ranks" \
    ${sizes[@]+"${sizes[@]}"}
read -ra mpirun <<<"${MPIRUN:-mpirun -np $ranks}"
"${mpirun[@]}" "$build/bin/kern-rank" "$folder/model.json" --output "$folder/out-{rank}" --warmup 0 \
    --steps "$steps" "$@" >"$folder/report" || {
    code=$?
    cat "$folder/report"
    exit "$code"
}
sed -n '1,3p' "$folder/report"
python3 -B "$home/examples/p2p/matrix.py" "${json[@]}" "$folder/out-{rank}"
