#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight calls in a row, to be cut anywhere: two values are carried on and rewritten, and a running
sum that the host gives and reads back is rewritten half-way."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from manifest import (  # noqa: E402
    Manifest, Tensor, arguments, call, f32, forward, launch, write_safetensors,
)


class Chain:
    """The calls, and what they compute, side by side."""

    def __init__(self, x, total):
        self.values = {"x": x, "total": total}
        self.calls = []

    def scale(self, source, target, a, b):
        """target = a * source + b, rounded after either operation."""
        self.values[target] = [f32(f32(a * v) + b) for v in self.values[source]]
        factors = [{"f32": a}, {"f32": b}, {"var": "rows"}]
        if source == target:
            self.calls.append(call("rescale", target, *factors))
        else:
            self.calls.append(call("scale", source, target, *factors))


def eight_calls(chain):
    chain.scale("x", "left", 1.5, -0.25)
    chain.scale("left", "left", -0.75, 1.0)
    chain.scale("left", "right", 0.5, 2.0)
    chain.scale("total", "total", 2.0, 1.0)
    chain.scale("left", "left", 1.25, 0.125)
    chain.scale("right", "right", -1.5, 0.5)
    chain.scale("left", "y", 3.0, -1.0)
    chain.scale("right", "z", 0.25, 0.75)


def other_calls(chain):
    chain.scale("x", "left", -2.0, 0.5)
    chain.scale("left", "right", 1.75, -3.0)
    chain.scale("right", "right", 0.5, 0.25)
    chain.scale("left", "left", 0.25, 4.0)
    chain.scale("left", "left", 1.5, 1.5)
    chain.scale("right", "right", 2.5, -0.5)
    chain.scale("left", "y", 1.0, 0.0)
    chain.scale("right", "z", -1.0, 0.0)


def main():
    args = arguments(__doc__, rows=4096, seed=1)
    rng = random.Random(args.seed)
    x = [f32(rng.uniform(-1, 1)) for _ in range(args.rows)]
    total = [f32(rng.uniform(-1, 1)) for _ in range(args.rows)]

    m = Manifest("chain", args.kernels, args.out)
    m.module("toy_scale")
    m.var("rows", args.rows, axis="rows")
    m.var("seqs", 1, axis="groups")
    m.buffer("x", "f32", ["rows"], "input", domain={"min": -1, "max": 1})
    m.buffer("total", "f32", ["rows"], "inout", domain={"min": -4, "max": 4})
    for name in ("left", "right"):
        m.buffer(name, "f32", ["rows"], "workspace")
    for name in ("y", "z"):
        m.buffer(name, "f32", ["rows"], "output")
    grid = [{"ceil_div": ["rows", 256]}, "seqs"]
    m.op("scale", ["in buffer<f32>", "out buffer<f32>", "f32", "f32", "i32"],
         [launch("toy_scale", "toy_scale_f32", grid, 256)])
    in_place = {
        "params": ["inout buffer<f32>", "inout buffer<f32>", "f32", "f32", "i32"],
        "args": forward(0, 0, 1, 2, 3),
    }
    m.op("rescale", ["inout buffer<f32>", "f32", "f32", "i32"],
         [launch("toy_scale", "toy_scale_f32", grid, 256, **in_place)])

    batch = {"groups": 1, "rows": "rows"}
    first, last = Chain(x, total), Chain(x, total)
    eight_calls(first)
    m.program("a", first.calls, batch=batch, graph=True)
    other_calls(last)
    m.program("b", last.calls, batch=batch)
    m.write()

    shape = [args.rows]
    write_safetensors(m.out / "inputs-0.safetensors", {
        "x": Tensor("f32", shape, x), "total": Tensor("f32", shape, total),
    })
    # Of an output that both programs write, what the last one wrote is left.
    expected = {name: Tensor("f32", shape, last.values[name]) for name in ("y", "z")}
    expected["total"] = Tensor("f32", shape, first.values["total"])
    write_safetensors(m.out / "expected-0.safetensors", expected)


main()
