#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One-shot all-reduce over a group, in f32 and in bf16, after a barrier that runs once.

Sums are taken in rank order with one rounding per f32 addition (and one to bf16 at the end), so the
expected outputs are the exact bits, the same on every rank."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from manifest import (  # noqa: E402
    TIMEOUT_NS, Manifest, Tensor, add_barrier, arguments, bf16, call, f32, launch, require,
    write_safetensors,
)

# Flags are per block, so the grid is the same in every step.
BLOCKS = 4


def declare(m, dtype, ranks, rows, width):
    """The buffers and the op of one dtype; returns its call."""
    shape = ["rows", width]
    capacity = rows * width
    m.buffer(f"x_{dtype}", dtype, shape, "input", domain={"min": -1, "max": 1})
    m.buffer(f"y_{dtype}", dtype, shape, "output")
    m.exported(f"slab_{dtype}", dtype, [2, ranks, capacity], "all")
    m.exported(f"flags_{dtype}", "u32", [ranks, BLOCKS], "all")
    m.buffer(f"state_{dtype}", "u32", [3], "carry")
    m.error(f"error_{dtype}")
    buffer = f"buffer<{dtype}>"
    rest = ["inout buffer<u32>", "out buffer<i32>", "i32", "i32", "i32", "i32", "i64"]
    # To the op the slab and the flags change, because the peers write to them while it runs.
    m.op(
        f"allreduce_{dtype}",
        [f"in {buffer}", f"out {buffer}", f"inout {buffer}", "in buffer<u64>", "inout buffer<u32>",
         "in buffer<u64>", *rest],
        [launch("allreduce", f"allreduce_{dtype}", [BLOCKS], 256)],
    )
    return call(
        f"allreduce_{dtype}", f"x_{dtype}", f"y_{dtype}", f"slab_{dtype}", f"slab_{dtype}_peers",
        f"flags_{dtype}", f"flags_{dtype}_peers", f"state_{dtype}", f"error_{dtype}",
        {"rank": "all"}, {"i32": ranks}, {"expr": {"mul": ["rows", width]}}, {"i32": capacity},
        {"i64": TIMEOUT_NS},
    )


def main():
    args = arguments(__doc__, ranks=8, rows=16, width=256, seed=1)
    require(args.width % 8 == 0, "--width is a multiple of 8")
    ranks, size = args.ranks, args.rows * args.width
    m = Manifest("allreduce", args.kernels, args.out)
    m.module("allreduce")
    m.group("all", ranks)
    m.var("rows", args.rows)
    m.error("ready_error")
    m.program("ready", [add_barrier(m, "all", "ready_error")], once=True)
    m.program("step", [declare(m, dtype, ranks, args.rows, args.width)
                       for dtype in ("f32", "bf16")])
    m.write()

    rng = random.Random(args.seed)
    x = {"f32": [[f32(rng.uniform(-1, 1)) for _ in range(size)] for _ in range(ranks)]}
    x["bf16"] = [[bf16(value) for value in row] for row in x["f32"]]
    expected = {}
    for dtype, rows in x.items():
        total = rows[0]
        for row in rows[1:]:
            total = [f32(a + b) for a, b in zip(total, row)]
        shape = [args.rows, args.width]
        expected[f"y_{dtype}"] = Tensor(dtype, shape, total)
        expected[f"error_{dtype}"] = Tensor("i32", [1], [0])
        x[dtype] = [Tensor(dtype, shape, row) for row in rows]
    for rank in range(ranks):
        write_safetensors(m.out / f"inputs-{rank}.safetensors",
                          {f"x_{dtype}": tensors[rank] for dtype, tensors in x.items()})
        write_safetensors(m.out / f"expected-{rank}.safetensors", expected)


main()
