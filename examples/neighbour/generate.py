#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A ring: every rank adds to its rows those that the rank before it sends (kernels/neighbour.cu)."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from manifest import (  # noqa: E402
    TIMEOUT_NS, Manifest, Tensor, arguments, call, f32, launch, write_safetensors,
)


def declare(m, ranks, rows, width):
    m.module("neighbour")
    m.group("ring", ranks)
    m.var("rows", rows)
    m.buffer("x", "f32", ["rows", width], "input", domain={"min": -1, "max": 1})
    m.buffer("y", "f32", ["rows", width], "output")
    m.exported("inbox", "f32", [rows, width], "ring")
    m.exported("flags", "u32", [2], "ring")
    m.buffer("epoch", "u32", [1], "carry")
    m.error()
    # To the op inbox and flags change, because the neighbours write to them while it runs.
    m.op(
        "add",
        ["in buffer<f32>", "out buffer<f32>", "inout buffer<f32>", "in buffer<u64>",
         "inout buffer<u32>", "in buffer<u64>", "inout buffer<u32>", "out buffer<i32>",
         "i32", "i32", "i32", "i64"],
        [launch("neighbour", "neighbour_add", [1], 256)],
    )
    m.program("step", [
        call("add", "x", "y", "inbox", "inbox_peers", "flags", "flags_peers", "epoch", "error",
             {"rank": "ring"}, {"i32": ranks}, {"expr": {"mul": ["rows", width]}},
             {"i64": TIMEOUT_NS}),
    ])


def main():
    args = arguments(__doc__, ranks=2, rows=16, width=64, seed=1)
    m = Manifest("neighbour", args.kernels, args.out)
    declare(m, args.ranks, args.rows, args.width)
    m.write()

    rng = random.Random(args.seed)
    shape = [args.rows, args.width]
    x = [[f32(rng.uniform(-1, 1)) for _ in range(args.rows * args.width)] for _ in range(args.ranks)]
    for rank, mine in enumerate(x):
        # Rank 0 has the last one before it, as x[-1] does.
        y = [f32(a + b) for a, b in zip(mine, x[rank - 1])]
        write_safetensors(m.out / f"inputs-{rank}.safetensors", {"x": Tensor("f32", shape, mine)})
        write_safetensors(m.out / f"expected-{rank}.safetensors",
                          {"y": Tensor("f32", shape, y), "error": Tensor("i32", [1], [0])})


main()
