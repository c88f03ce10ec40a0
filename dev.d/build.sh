# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
install_packages "${packages[@]}"
build_preset "${1-release}"
echo "dev: $(preset_folder "${1-release}")/bin has kern-rank and kern, examples/ beside it what they run"
