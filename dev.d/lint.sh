# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
install_packages "${packages[@]}" clang-format clang-tidy shellcheck
build_preset release
mapfile -t sources < <(git ls-files '*.c')
mapfile -t formatted < <(git ls-files '*.c' '*.h' '*.cu')
mapfile -t scripts < <(git ls-files dev .ci/run slurm/testcluster '*.sh' '*.sbatch')
status=0
clang-format --dry-run --Werror "${formatted[@]}" || status=1
shellcheck "${scripts[@]}" || status=1
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build || status=1
exit $status
