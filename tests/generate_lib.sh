# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the generate_*.sh tests share. KERN_TEST_ALL=1 runs every combination.
# shellcheck source=tests/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# generates WHAT TOKENS RANKS WORD…: a run whose tokens are those of its --check-ids, TOKENS of them
# at least.
generates() {
    local what=$1 tokens=$2 ranks=$3
    shift 3
    launch "$ranks" "$@"
    check "$what: ends with 0" ended_with 0
    check "$what: nothing on stderr" test ! -s "$run/err"
    # shellcheck disable=SC2016
    check "$what: the tokens are right" awk -v least="$tokens" \
        '/^check ok: / { found = $(NF - 1) } END { exit found < least }' "$run/out"
}

# refused CODE WHAT WORD… -- TEXT…: a run that ends with CODE and says each text. They run side by
# side; end_jobs waits for them.
refused() {
    job refuses "$1" "${with_ranks:-1}" "${@:2}"
}
