# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
install_packages "${packages[@]}"
preset=release
if [ "${1-}" = --sanitize ]; then
    shift
    preset=sanitize
    # Open MPI and PMIx leave memory behind at exit; leaks are looked for in the unit tests, which
    # set detect_leaks themselves.
    export ASAN_OPTIONS=detect_leaks=0:handle_segv=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
fi
build_preset "$preset"
ctest --test-dir "$(preset_folder "$preset")" --output-on-failure -j2 "$@"
