# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
install_packages "${packages[@]}"
build_preset "${1-release}"
