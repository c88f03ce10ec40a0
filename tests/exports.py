# SPDX-License-Identifier: Apache-2.0
"""exports.py KERNELS OUT BUFFERS GROUP=SIZE…: a model of so many exported buffers, each with its
addresses in every one of the groups."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))
from manifest import Manifest, call, forward, launch  # noqa: E402


def main():
    kernels, out, count, *groups = sys.argv[1:]
    sizes = {name: int(size) for name, size in (group.split("=") for group in groups)}
    m = Manifest("exports", kernels, out)
    m.module("toy_scale")
    for name, size in sizes.items():
        m.group(name, size)
    # The kernel knows nothing of the peers; that it is given them makes the runtime map them.
    at = 1 + len(sizes)
    m.op("scale", ["inout buffer<f32>", *["in buffer<u64>"] * len(sizes), "f32", "f32", "i32"],
         [launch("toy_scale", "toy_scale_f32", [1], 32,
                 params=["in buffer<f32>", "inout buffer<f32>", "f32", "f32", "i32"],
                 args=forward(0, 0, at, at + 1, at + 2))])
    calls = []
    for i in range(int(count)):
        m.buffer(f"x{i}", "f32", [16], "carry", export=True)
        for name, size in sizes.items():
            m.buffer(f"x{i}_{name}", "u64", [size], "peer", of=f"x{i}", group=name)
        peers = [f"x{i}_{name}" for name in sizes]
        calls.append(call("scale", f"x{i}", *peers, {"f32": 0.5}, {"f32": 1.0}, {"i32": 16}))
    m.program("step", calls)
    m.write()


main()
