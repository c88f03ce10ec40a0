#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the mappings of peers' memory carry: bandwidth and latency between every two ranks.

A step measures one pair (kernels/p2p.cu), so ranks * ranks steps fill the matrix; with --concurrent
1, pairs that have no rank in common measure at the same time, in 2 * ranks steps or so.
matrix.py makes a table of the outputs, run.sh does all of it."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from manifest import (  # noqa: E402
    TIMEOUT_NS, Manifest, Tensor, add_barrier, arguments, call, launch, require, write_safetensors,
)

PACK_BYTES = 16
OUTPUTS = {"write_gb_s": "f32", "read_gb_s": "f32", "flag_us": "f32", "wrong_words": "i32",
           "measured": "i32"}
# The first pass of a copy touches every page and fills the tables of translations.
PASSES = 4


def declare_buffers(m, args):
    ranks, words = args.ranks, args.bytes // 4
    m.group("all", ranks)
    m.exported("outbox", "u32", [words], "all")
    m.exported("inbox", "u32", [words], "all")
    m.exported("flags", "u32", [3, ranks], "all")
    m.buffer("state", "u32", [4], "carry")
    m.buffer("results", "f32", [3, ranks], "carry")
    m.buffer("counts", "i32", [2, ranks], "carry")
    m.buffer("scratch", "u32", [words], "workspace")
    m.buffer("stamps", "u64", [2, args.blocks], "workspace")
    for name, dtype in OUTPUTS.items():
        m.buffer(name, dtype, [ranks], "output")
    m.error()
    m.error("ready_error")


def declare_ops(m, blocks):
    def op(name, grid, threads, *params):
        m.op(name, list(params), [launch("p2p", name, [grid], threads)])

    op("p2p_fill", blocks, 256, "out buffer<u32>", "i32", "i32")
    op("p2p_turn", 1, 32, "in buffer<u32>", "inout buffer<u32>", "inout buffer<f32>", "out buffer<i32>",
       "i32", "i32", "i32", "i64")
    op("p2p_write", blocks, 512, "in buffer<u32>", "in buffer<u64>", "inout buffer<u32>",
       "out buffer<u64>", "inout buffer<f32>", "i32", "i32")
    op("p2p_read", blocks, 512, "in buffer<u64>", "out buffer<u32>", "inout buffer<u32>",
       "out buffer<u64>", "inout buffer<f32>", "i32", "i32")
    op("p2p_flags", 1, 32, "inout buffer<u32>", "in buffer<u64>", "in buffer<u32>",
       "inout buffer<f32>", "inout buffer<i32>", "i32", "i32", "i32", "i64")
    op("p2p_check", blocks, 256, "inout buffer<u32>", "inout buffer<u32>", "in buffer<u32>",
       "in buffer<i32>", "inout buffer<i32>", "i32", "i32")
    op("p2p_end", 1, 64, "in buffer<u64>", "in buffer<u32>", "in buffer<i32>", "in buffer<f32>",
       "inout buffer<i32>", "out buffer<f32>", "out buffer<f32>", "out buffer<f32>",
       "out buffer<i32>", "out buffer<i32>", "i32", "i32")


def declare_programs(m, args):
    rank, ranks, timeout = {"rank": "all"}, {"i32": args.ranks}, {"i64": TIMEOUT_NS}
    packs = {"i32": args.bytes // PACK_BYTES}
    barrier = add_barrier(m, "all", "ready_error")
    m.program("ready", [call("p2p_fill", "outbox", rank, packs), barrier], once=True)
    write = call("p2p_write", "outbox", "inbox_peers", "state", "stamps", "results", ranks, packs)
    read = call("p2p_read", "outbox_peers", "scratch", "state", "stamps", "results", ranks, packs)
    m.program("step", [
        call("p2p_turn", "flags", "state", "results", "error", rank, ranks,
             {"i32": 1 if args.concurrent else 0}, timeout),
        *[write] * PASSES,
        *[read] * PASSES,
        call("p2p_flags", "flags", "flags_peers", "state", "results", "error", rank, ranks,
             {"i32": args.rounds}, timeout),
        call("p2p_check", "inbox", "scratch", "state", "error", "counts", ranks, packs),
        call("p2p_end", "flags_peers", "state", "error", "results", "counts", *OUTPUTS, rank, ranks),
    ])


def main():
    args = arguments(__doc__, ranks=8, bytes=4 << 20, rounds=20, blocks=64, concurrent=None)
    require(args.bytes % PACK_BYTES == 0, f"--bytes is a multiple of {PACK_BYTES}")
    require(args.ranks <= 256, "--ranks is at most 256 (KERN_MAX_RANKS of kernels/peer.h)")
    m = Manifest("p2p", args.kernels, args.out)
    m.module("p2p")
    declare_buffers(m, args)
    declare_ops(m, args.blocks)
    declare_programs(m, args)
    m.write()
    expected = {"error": Tensor("i32", [1], [0]),
                "wrong_words": Tensor("i32", [args.ranks], [0] * args.ranks)}
    for rank in range(args.ranks):
        write_safetensors(m.out / f"expected-{rank}.safetensors", expected)


main()
