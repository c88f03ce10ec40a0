# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev: the environment of a run, and installing and building.

# shellcheck source=dev.d/mpi.sh
. "$(dirname "${BASH_SOURCE[0]}")/mpi.sh"

packages=(build-essential cmake ninja-build pkg-config python3 libopenmpi-dev openmpi-bin libhwloc-dev
    libjson-c-dev libssl-dev libcmocka-dev libdnnl-dev binutils)

# Installs those of the named packages that are missing.
install_packages() {
    local missing=() package as_root=()
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
            echo "dev: these Debian packages are missing and may not be installed from here: ${missing[*]}" >&2
            echo "dev: run as root: apt-get install ${missing[*]}" >&2
            exit 1
        fi
        as_root=(sudo -n)
    fi
    echo "dev: installing ${missing[*]} (this can take some minutes)"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends "${missing[@]}" >/dev/null
}

# build_preset PRESET [TARGET…]: configures it, the first time, and builds all of it or the targets.
# Says little while all is well.
build_preset() {
    local folder log
    folder=$(preset_folder "$1")
    if [ -e "$folder" ] && [ ! -w "$folder" ]; then
        echo "dev: $folder belongs to $(stat -c %U "$folder"), who can remove it with ./dev clean" >&2
        exit 1
    fi
    if [ ! -f "$folder/build.ninja" ]; then
        log=$(mktemp)
        cmake --preset "$1" >"$log" 2>&1 || {
            cat "$log" >&2
            rm -f "$log"
            exit 1
        }
        grep -E '^-- Kernels' "$log" || true
        rm -f "$log"
    fi
    shift
    local targets=()
    [ $# -gt 0 ] && targets=(--target "$@")
    if [ -t 1 ]; then
        cmake --build "$folder" "${targets[@]}"
    else
        echo "dev: building $folder"
        cmake --build "$folder" "${targets[@]}" -- --quiet
    fi
}

preset_folder() {
    if [ "$1" = release ]; then echo build; else echo "build-$1"; fi
}
