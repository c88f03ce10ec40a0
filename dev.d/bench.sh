# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
install_packages "${packages[@]}"
build_preset release
for script in bench/*.sh; do
    KERN_BUILD=$PWD/build bash "$script"
done
