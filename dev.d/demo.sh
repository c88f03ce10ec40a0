# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Eight processes dispatch tokens to experts on each other's devices and combine them again.
install_packages "${packages[@]}"
build_preset release kern-rank kern kern-emu example_ep
ep=build/examples/ep
set -- mpirun -np 8 build/bin/kern-rank "$ep/model.json" --weights "$ep/weights.safetensors" \
    --input "$ep/inputs-{rank}.safetensors" --check "$ep/expected-{rank}.safetensors" --atol 1e-5 --rtol 1e-5 "$@"
echo "+ $*"
exec "$@"
