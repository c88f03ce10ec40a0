#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Expert parallelism: each rank's tokens go to the owners of their top-k experts and back.

The tokens of all ranks and the experts depend on the seed and on their total numbers alone: the
same tokens over more or fewer ranks give the same rows. Expected outputs come from a plain
double-precision loop over tokens that knows neither ranks nor slabs.

--step-tokens N writes data for steps of N tokens per rank, to be run with --var tokens=N."""

import math
import pathlib
import random
import sys
from operator import mul

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from manifest import (  # noqa: E402
    TIMEOUT_NS, Manifest, Tensor, add_barrier, arguments, call, f32, forward, launch, require,
    write_safetensors,
)

ROWS_PER_TILE = 4  # ROWS of kernels/expert_mlp.cu
MLP_BLOCKS = 16
COPY_BLOCKS = 4


def declare_buffers(m, args):
    """All that dispatch and combine need; bench/ep_manifest.py puts other experts between them."""
    ranks, owned = args.ranks, args.experts // args.ranks
    slots = ranks * args.tokens
    m.constant("EXPERTS", args.experts)
    m.constant("TOP_K", args.top_k)
    m.constant("HIDDEN", args.hidden)
    m.var("tokens", args.tokens)
    m.group("ep", ranks)
    m.buffer("x", "bf16", ["tokens", "HIDDEN"], "input", domain={"min": -1, "max": 1})
    choices = ["tokens", "TOP_K"]
    m.buffer("expert_ids", "i32", choices, "input", domain={"min": -1, "max": args.experts - 1})
    m.buffer("expert_weights", "f32", choices, "input", domain={"min": 0, "max": 1})
    m.buffer("y", "f32", ["tokens", "HIDDEN"], "output")
    m.error()
    m.exported("recv_rows", "bf16", [slots, "HIDDEN"], "ep")
    m.exported("recv_routes", "i32", [slots, "TOP_K"], "ep")
    m.exported("returned", "f32", [args.tokens, "TOP_K", "HIDDEN"], "ep")
    m.exported("flags", "u64", [2, ranks], "ep")
    m.buffer("state", "u32", [3], "carry")
    m.buffer("counts", "i32", [owned], "workspace")
    m.buffer("selections", "i32", [owned, slots, "TOP_K"], "workspace")
    m.buffer("expert_out", "f32", [slots, "TOP_K", "HIDDEN"], "workspace")


def declare_weights(m, args):
    ranks, owned = args.ranks, args.experts // args.ranks
    m.constant("INNER", args.inner)
    # Gate and up lie in the checkpoint as one stack each, of which a rank takes its rows; down as
    # one tensor per expert, of which a rank takes its own by name.
    mine = [[rank * owned, (rank + 1) * owned] for rank in range(ranks)]
    for name in ("gate", "up"):
        m.buffer(name, "bf16", [owned, "INNER", "HIDDEN"], "weight",
                 bind=[{"tensor": f"experts.{name}", "rows": {"group": "ep", "ranges": mine}}])
    m.buffer("down", "bf16", [owned, "HIDDEN", "INNER"], "weight", bind=[
        {"tensor": {"group": "ep", "tensors": [f"experts.{first + i}.down" for first, _ in mine]}}
        for i in range(owned)
    ])


def declare_exchange(m, args):
    """The ops ep_dispatch and ep_combine."""
    ranks, owned = args.ranks, args.experts // args.ranks
    # What peers write while an op waits for them is inout to the op, though its kernels only read
    # it.
    m.op(
        "ep_dispatch",
        ["in buffer<bf16>", "in buffer<i32>",     # 0: x, expert_ids
         "inout buffer<bf16>", "in buffer<u64>",  # 2: recv_rows
         "inout buffer<i32>", "in buffer<u64>",   # 4: recv_routes
         "inout buffer<u64>", "in buffer<u64>",   # 6: flags
         "inout buffer<u32>", "out buffer<i32>",  # 8: state, error
         "out buffer<i32>", "out buffer<i32>",    # 10: counts, selections
         "i32", "i32", "i32", "i32", "i32",       # 12: rank, ranks, experts, top_k, hidden
         "i32", "i32", "i64"],                    # 17: tokens, max_tokens, timeout_ns
        [
            launch(
                "ep", "ep_dispatch_send", ["tokens"], 64,
                params=["in buffer<bf16>", "in buffer<i32>", "in buffer<u64>", "in buffer<u64>",
                        "in buffer<u64>", "inout buffer<u32>", "out buffer<i32>",
                        "i32", "i32", "i32", "i32", "i32", "i32", "i32"],
                args=forward(0, 1, 3, 5, 7, 8, 9, 12, 13, 14, 15, 16, 17, 18),
            ),
            launch(
                "ep", "ep_dispatch_recv", [owned], 256,
                params=["in buffer<i32>", "in buffer<u64>", "in buffer<u32>", "inout buffer<i32>",
                        "out buffer<i32>", "out buffer<i32>", "i32", "i32", "i32", "i64"],
                args=forward(4, 6, 8, 9, 10, 11, 13, 15, 18, 19),
            ),
        ],
    )
    m.op(
        "ep_combine",
        ["in buffer<f32>",                                       # 0: expert_out
         "in buffer<i32>", "in buffer<i32>",                     # 1: counts, selections
         "inout buffer<f32>", "in buffer<u64>",                  # 3: returned
         "inout buffer<u64>", "in buffer<u64>",                  # 5: flags
         "inout buffer<u32>", "inout buffer<i32>",               # 7: state, error
         "in buffer<i32>", "in buffer<f32>", "out buffer<f32>",  # 9: expert_ids, expert_weights, y
         "i32", "i32", "i32", "i32", "i32",                      # 12: as above
         "i32", "i32", "i64"],
        [
            launch(
                "ep", "ep_combine_send", [COPY_BLOCKS, owned], 64,
                params=["in buffer<f32>", "in buffer<i32>", "in buffer<i32>", "in buffer<u64>",
                        "in buffer<u64>", "inout buffer<u32>", "in buffer<i32>",
                        "i32", "i32", "i32", "i32", "i32"],
                args=forward(0, 1, 2, 4, 6, 7, 8, 12, 13, 15, 16, 18),
            ),
            launch(
                "ep", "ep_combine_recv", ["tokens"], 64,
                params=["in buffer<f32>", "in buffer<f32>", "in buffer<i32>", "in buffer<f32>",
                        "in buffer<u64>", "in buffer<u32>", "inout buffer<i32>", "out buffer<f32>",
                        "i32", "i32", "i32", "i32", "i32", "i32", "i32", "i64"],
                args=forward(0, 3, 9, 10, 5, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18, 19),
            ),
        ],
    )


def exchange_calls(args):
    """The calls of dispatch and combine, for the experts' to come between."""
    scalars = [{"rank": "ep"}, {"i32": args.ranks}, {"i32": "EXPERTS"}, {"i32": "TOP_K"},
               {"i32": "HIDDEN"}, {"var": "tokens"}, {"i32": args.tokens}, {"i64": TIMEOUT_NS}]
    dispatch = call(
        "ep_dispatch", "x", "expert_ids", "recv_rows", "recv_rows_peers", "recv_routes",
        "recv_routes_peers", "flags", "flags_peers", "state", "error", "counts", "selections",
        *scalars, label="dispatch")
    combine = call(
        "ep_combine", "expert_out", "counts", "selections", "returned", "returned_peers",
        "flags", "flags_peers", "state", "error", "expert_ids", "expert_weights", "y",
        *scalars, label="combine")
    return dispatch, combine


def declare_step(m, args):
    m.op(
        "expert_mlp",
        ["in buffer<bf16>", "in buffer<i32>", "in buffer<i32>", "in buffer<bf16>",
         "in buffer<bf16>", "in buffer<bf16>", "out buffer<f32>", "i32", "i32", "i32", "i32", "i32"],
        [launch("expert_mlp", "expert_mlp", [MLP_BLOCKS], 128,
                shared_mem=ROWS_PER_TILE * (args.hidden + args.inner) * 4)],
    )
    experts = call(
        "expert_mlp", "recv_rows", "counts", "selections", "gate", "up", "down", "expert_out",
        {"i32": args.experts // args.ranks}, {"i32": args.ranks * args.tokens}, {"i32": "TOP_K"},
        {"i32": "HIDDEN"}, {"i32": "INNER"}, label="experts")
    dispatch, combine = exchange_calls(args)
    m.program("step", [dispatch, experts, combine])


def draw(rng, count, step):
    """Multiples of `step`, at most 127 of them: bf16 holds each exactly."""
    return [rng.randint(-127, 127) * step for _ in range(count)]


def draw_experts(args):
    """gate[e][i][h], up[e][i][h], down[e][h][i] as rows."""
    rng = random.Random(f"experts {args.seed}")
    shapes = {"gate": (args.inner, args.hidden), "up": (args.inner, args.hidden),
              "down": (args.hidden, args.inner)}
    return {
        name: [[draw(rng, columns, 2 ** -10) for _ in range(rows)] for _ in range(args.experts)]
        for name, (rows, columns) in shapes.items()
    }


def draw_tokens(args):
    """x, expert ids and weights of every token of every rank."""
    rng = random.Random(f"tokens {args.seed}")
    tokens = []
    for _ in range(args.ranks * args.tokens):
        x = draw(rng, args.hidden, 2 ** -7)
        ids = rng.sample(range(args.experts), args.top_k)
        scores = [rng.uniform(0.1, 1) for _ in ids]
        tokens.append((x, ids, [f32(score / sum(scores)) for score in scores]))
    return tokens


def dot(a, b):
    return sum(map(mul, a, b))


def reference(token, experts):
    """The combined output of one token, in double precision."""
    x, ids, weights = token
    y = [0.0] * len(x)
    for expert, weight in zip(ids, weights):
        gated = [dot(x, row) for row in experts["gate"][expert]]
        upped = [dot(x, row) for row in experts["up"][expert]]
        act = [g / (1 + math.exp(-g)) * u for g, u in zip(gated, upped)]
        y = [total + weight * dot(act, row) for total, row in zip(y, experts["down"][expert])]
    return y


def flat(rows):
    return [value for row in rows for value in row]


def write_weights(m, args, experts):
    hidden, inner = args.hidden, args.inner
    tensors = {
        f"experts.{name}": Tensor("bf16", [args.experts, inner, hidden], flat(flat(experts[name])))
        for name in ("gate", "up")
    }
    for index, rows in enumerate(experts["down"]):
        tensors[f"experts.{index}.down"] = Tensor("bf16", [hidden, inner], flat(rows))
    write_safetensors(m.out / "weights.safetensors", tensors)


def main():
    args = arguments(__doc__, ranks=8, experts=16, top_k=4, hidden=128, tokens=16, inner=128,
                     step_tokens=None, seed=1)
    count = args.step_tokens or args.tokens
    require(args.experts % args.ranks == 0, "--experts is a multiple of --ranks")
    require(args.top_k <= args.experts, "--top-k is at most --experts: a token's experts differ")
    require(args.hidden % 8 == 0 and args.inner % 8 == 0, "--hidden and --inner are multiples of 8")
    require(args.ranks <= 256, "--ranks is at most 256 (KERN_MAX_RANKS of kernels/peer.h)")
    require(count <= args.tokens, "--step-tokens is at most --tokens")
    m = Manifest("ep", args.kernels, args.out)
    for name in ("ep", "expert_mlp"):
        m.module(name)
    declare_buffers(m, args)
    declare_weights(m, args)
    declare_exchange(m, args)
    declare_step(m, args)
    m.error("ready_error")
    m.program("ready", [add_barrier(m, "ep", "ready_error")], once=True)
    m.write()

    experts, tokens = draw_experts(args), draw_tokens(args)
    write_weights(m, args, experts)
    for rank in range(args.ranks):
        first = rank * args.tokens
        x, ids, weights = map(flat, zip(*tokens[first:first + count]))
        y = flat(reference(token, experts) for token in tokens[first:first + count])
        write_safetensors(m.out / f"inputs-{rank}.safetensors", {
            "x": Tensor("bf16", [count, args.hidden], x),
            "expert_ids": Tensor("i32", [count, args.top_k], ids),
            "expert_weights": Tensor("f32", [count, args.top_k], weights),
        })
        write_safetensors(m.out / f"expected-{rank}.safetensors", {
            "y": Tensor("f32", [count, args.hidden], y),
            "error": Tensor("i32", [1], [0]),
        })


if __name__ == "__main__":
    main()
