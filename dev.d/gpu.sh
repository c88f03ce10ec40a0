# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev gpu [OPTION…]: builds, packs and runs the pack (gpu_run.sh) on this machine's CUDA device.
# ./dev gpu --pack: only builds and packs, for another machine. See docs/gpu.md.
case " $* " in
*" --help "* | *" -h "*)
    usage
    exit
    ;;
*" --pack "* | *" --device emu "*) ;;
*)
    if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
        echo "dev: there is no CUDA device on this machine (no /dev/nvidiactl)" >&2
        echo "dev: ./dev gpu --pack makes a folder for one that has; --device emu runs the same on the emulated one" >&2
        exit 77
    fi
    ;;
esac
. ./dev.d/gpu_pack.sh
install_packages "${packages[@]}"
build_preset release
make_pack build build/gpu-pack
if [ "${1-}" != --pack ]; then
    exec build/gpu-pack/run.sh "$@"
fi
echo "dev: build/gpu-pack has $(du -sh build/gpu-pack | cut -f1); on a machine with a CUDA device: gpu-pack/run.sh"
grep -qa nv_fatbin build/kernels/toy_scale.so ||
    echo "dev: there was no nvcc, so the kernels have no code for a GPU: run.sh --device emu is all that works" >&2
