#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The folder that ./dev gpu --pack makes: it runs where it was moved to, with an empty environment, and
# says so where there is no device.
set -uo pipefail

build=${KERN_BUILD:-$(pwd)/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
check() { # WHAT COMMAND…
    local what=$1
    shift
    if "$@"; then echo "ok    $what"; else echo "FAIL  $what" && failed=1; fi
}

# Programs of another compiler or with a sanitizer need what is not packed.
grep -q '^KERN_SANITIZE:STRING=$' "$build/CMakeCache.txt" || exit 77
# shellcheck source=dev.d/gpu_pack.sh
. "${KERN_SOURCE:-.}/dev.d/gpu_pack.sh"
(
    ldconfig() { :; }
    make_pack "$build" "$work/none" 2>"$work/err"
)
check "no oneDNN: ends with 1" test $? -eq 1
check "no oneDNN: says so" grep -q 'ldconfig -p lists no libdnnl.so' "$work/err"
# As a user who is not root has it.
PATH=$(tr : '\n' <<<"$PATH" | grep -v sbin | paste -sd:) make_pack "$build" "$work/packed"
mv "$work/packed" "$work/moved"
clean() {
    env -i PATH=/usr/bin:/bin "$work/moved/run.sh" "$@" >"$work/out" 2>"$work/err"
}

clean --device emu --smallest --only minimal --report "$work/report"
check "on emu: ends with 0" test $? -eq 0
check "on emu: the report is written" grep -q '^ok .*minimal, 1 ranks, eager: as emu' "$work/report"
check "on emu: its own libraries" test -e "$work/moved/lib/libmpi.so.40"
[ $failed -eq 0 ] || cat "$work/out" "$work/err" "$work/report"
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
    clean
    check "no device: ends with 77" test $? -eq 77
    check "no device: says so" grep -q 'there is no CUDA device' "$work/err"
fi
for wrong in "--devise emu" "--seconds 9m" "--only ["; do
    read -ra words <<<"$wrong"
    clean --device emu "${words[@]}"
    check "$wrong: ends with 2" test $? -eq 2
done
# Names are matched as they are printed.
clean --device emu --only '^minimal, 1 ranks, graphs: as expected$' --report "$work/report"
check "one run: ends with 0" test $? -eq 0
check "one run: nothing else is run" test "$(grep -c '^ok .*ranks' "$work/report")" -eq 1
for nothing in "--only ^minimal$" "--seconds 0"; do
    read -ra words <<<"$nothing"
    clean --device emu "${words[@]}" --report "$work/report"
    check "$nothing: ends with 1" test $? -eq 1
    check "$nothing: says that nothing was run" grep -q 'no example was run' "$work/err"
done
exit $failed
