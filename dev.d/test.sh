# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
install_packages "${packages[@]}"
preset=release
if [ "${1-}" = --sanitize ]; then
    shift
    preset=sanitize
    # Without words of one's own: the tests that are worth their time there, see README.md.
    [ $# -gt 0 ] || set -- -L sanitize
fi
build_preset "$preset"
ctest --test-dir "$(preset_folder "$preset")" --output-on-failure -j4 "$@"
