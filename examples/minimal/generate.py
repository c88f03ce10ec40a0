#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank, two launches: y = a * x + b in f32 and in bf16."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from manifest import (  # noqa: E402
    Manifest, Tensor, arguments, bf16, call, f32, launch, write_safetensors,
)

A, B = 1.5, -0.25


def main():
    args = arguments(__doc__, count=4096, seed=1)
    m = Manifest("minimal", args.kernels, args.out)
    m.module("toy_scale")
    m.var("count", args.count)
    for dtype in ("f32", "bf16"):
        m.buffer(f"x_{dtype}", dtype, ["count"], "input", domain={"min": -1, "max": 1})
        m.buffer(f"y_{dtype}", dtype, ["count"], "output")
        m.op(
            f"scale_{dtype}",
            [f"in buffer<{dtype}>", f"out buffer<{dtype}>", "f32", "f32", "i32"],
            [launch("toy_scale", f"toy_scale_{dtype}", [{"ceil_div": ["count", 256]}], 256)],
        )
    m.program("step", [
        call(f"scale_{dtype}", f"x_{dtype}", f"y_{dtype}", {"f32": A}, {"f32": B}, {"var": "count"})
        for dtype in ("f32", "bf16")
    ])
    m.write()

    rng = random.Random(args.seed)
    x = [f32(rng.uniform(-1, 1)) for _ in range(args.count)]
    x_bf16 = [bf16(value) for value in x]
    write_safetensors(m.out / "inputs-0.safetensors", {
        "x_f32": Tensor("f32", [args.count], x),
        "x_bf16": Tensor("bf16", [args.count], x_bf16),
    })
    # Two roundings, as the kernel has them: the product, then the sum.
    write_safetensors(m.out / "expected-0.safetensors", {
        "y_f32": Tensor("f32", [args.count], [f32(f32(A * v) + B) for v in x]),
        "y_bf16": Tensor("bf16", [args.count], [bf16(f32(f32(A * v) + B)) for v in x_bf16]),
    })


main()
