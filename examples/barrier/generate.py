#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A group whose every step is one barrier, by flags in each other's memory."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from manifest import Manifest, Tensor, add_barrier, arguments, write_safetensors  # noqa: E402


def main():
    args = arguments(__doc__, ranks=8)
    m = Manifest("barrier", args.kernels, args.out)
    m.group("all", args.ranks)
    m.error()
    m.program("step", [add_barrier(m, "all")])
    m.write()
    expected = {"error": Tensor("i32", [1], [0])}
    for rank in range(args.ranks):
        write_safetensors(m.out / f"expected-{rank}.safetensors", expected)


main()
