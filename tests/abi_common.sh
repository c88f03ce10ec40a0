# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the abi_*.sh tests share: the toolkit in $CUDA_HOME or /usr/local/cuda, a folder for scratch
# files in $work, and the lists of functions of device/abi.
set -euo pipefail

source_dir=${KERN_SOURCE:-$(CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
toolkit=${CUDA_HOME:-/usr/local/cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A quoted #include looks beside the file first, which for standard input is the working directory.
cd "$work"

skip() {
    echo "skipped: $*"
    exit 77
}

# need_header FILE: its directory, or a skip.
need_header() {
    local directory
    for directory in "$toolkit/include" /usr/include; do
        if [ -e "$directory/$1" ]; then
            echo "$directory"
            return
        fi
    done
    echo "skipped: no $1 in $toolkit/include or /usr/include" >&2
    exit 77
}

# functions LIBRARY: a line "NAME|SYMBOL|RETURNED|PARAMETERS" for each function of
# device/abi/LIBRARY_functions.h.
functions() {
    local list=KERN_${1^^}_FUNCTIONS
    {
        echo "#include \"device/abi/$1_functions.h\""
        if [ "$1" = cuda ]; then
            echo '#define LINE(name, symbol, params) @name|symbol|CUresult|params'
        else
            echo '#define LINE(returned, name, symbol, params) @name|symbol|returned|params'
        fi
        echo "$list(LINE)"
    } | gcc -E -P -I"$source_dir" -x c - | tr -s '\n ' '  ' | tr '@' '\n' |
        awk '/^[A-Za-z0-9]+[|]/ { gsub("\"", ""); print }'
}
