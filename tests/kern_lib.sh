# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by the tests of the tool kern: running it, and saying what is wrong. A test ends with finish.
set -uo pipefail

source_dir=${KERN_SOURCE:-$(CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
kern=${KERN_BUILD:-$source_dir/build}/bin/kern
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -x "$kern" ] || {
    echo "there is no $kern; build first"
    exit 1
}
failed=0

fail() {
    echo "FAIL  $1"
    shift
    [ $# -eq 0 ] || printf '      | %s\n' "$@"
    failed=1
}

# kern CODE WORD…: runs it with these words; leaves out and err in $work.
kern() {
    local wanted=$1 code
    shift
    command="kern $*"
    "$kern" "$@" >"$work/out" 2>"$work/err" <&0
    code=$?
    [ $code -eq "$wanted" ] ||
        fail "$command: ends with $code, not $wanted" "$(head -5 "$work/err")"
}

silent() {
    [ ! -s "$work/$1" ] || fail "$command: $1 is not empty" "$(head -5 "$work/$1")"
}

finish() {
    [ $failed -eq 0 ] && echo "$(basename "$0"): kern says and ends as it should"
    exit $failed
}
