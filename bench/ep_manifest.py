#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifest of bench/ep.sh: dispatch and combine of examples/ep with next to nothing between.

Program `check` has experts that multiply each row by their number + 1. Program `step` is what is
timed: its experts get nothing to do, and combine returns the rows that the last `check` left. So
both give the same y, which bench/ep_alltoallv.c knows."""

import pathlib
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
sys.path[:0] = [str(EXAMPLES), str(EXAMPLES / "ep")]
from generate import declare_buffers, declare_exchange, exchange_calls  # noqa: E402
from manifest import Manifest, add_barrier, arguments, call, launch, require  # noqa: E402

WIDEN_BLOCKS = 4


def declare_widen(m, owned):
    m.module("ep_widen")
    m.op(
        "widen",
        ["in buffer<bf16>", "in buffer<i32>", "in buffer<i32>", "out buffer<f32>",
         "i32", "i32", "i32", "i32", "i32"],
        [launch("ep_widen", "ep_widen", [WIDEN_BLOCKS, owned], 64)],
    )


def main():
    args = arguments(__doc__, ranks=8, experts=16, top_k=2, hidden=2048, tokens=256)
    require(args.experts % args.ranks == 0, "--experts is a multiple of --ranks")
    require(args.hidden % 8 == 0, "--hidden is a multiple of 8")
    owned = args.experts // args.ranks
    m = Manifest("ep-bench", args.kernels, args.out)
    m.module("ep")
    declare_buffers(m, args)
    declare_exchange(m, args)
    declare_widen(m, owned)
    dispatch, combine = exchange_calls(args)
    for program, experts in (("check", owned), ("step", 0)):
        widen = call(
            "widen", "recv_rows", "counts", "selections", "expert_out", {"rank": "ep"},
            {"i32": experts}, {"i32": args.ranks * args.tokens}, {"i32": "TOP_K"},
            {"i32": "HIDDEN"}, label="experts")
        m.program(program, [dispatch, widen, combine])
    m.error("ready_error")
    m.program("ready", [add_barrier(m, "ep", "ready_error")], once=True)
    m.write()


main()
