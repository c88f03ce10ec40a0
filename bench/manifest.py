#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a manifest of the size that a large mixture-of-experts model has, for bench/verify.sh:
93 layers of 13 weights and 20 calls in each of three programs, 8 ranks whose experts are bound by
rank, and tensormaps in packs. It verifies, but stands for no model and nothing runs it.

    manifest.py [--layers N] FILE      about 0.1 MB per layer"""

import argparse
import hashlib
import json

RANKS, EXPERTS = 8, 384
OWNED = EXPERTS // RANKS
HIDDEN, INNER, HEADS, HEAD = 4096, 1024, 16, 128
QKV = HEADS * HEAD + 2 * HEAD
TOKENS, SEQS = 4096, 256
PROGRAMS = ("decode", "prefill", "verify")


def weight(shape, bind, dtype="bf16"):
    return {"dtype": dtype, "shape": shape, "kind": "weight", "bind": bind}


def workspace(dtype, shape):
    return {"dtype": dtype, "shape": shape, "kind": "workspace"}


def slices(extent):
    """The same share of `extent` for each rank."""
    each = extent // RANKS
    return {"group": "tp", "ranges": [[rank * each, (rank + 1) * each] for rank in range(RANKS)]}


def of_experts(prefix, part):
    """A rank's own experts one after another, each a tensor per rank."""
    return [
        {"tensor": {"group": "ep", "tensors": [
            f"{prefix}.mlp.experts.{rank * OWNED + i}.{part}.weight" for rank in range(RANKS)]}}
        for i in range(OWNED)
    ]


def layer_weights(layer):
    p = f"model.layers.{layer}"
    return {
        "input_norm": weight(["HIDDEN"], [{"tensor": f"{p}.input_layernorm.weight"}]),
        "qkv": weight([QKV, "HIDDEN"], [
            {"tensor": f"{p}.self_attn.q_proj.weight", "rows": slices(HEADS * HEAD * RANKS)},
            {"tensor": f"{p}.self_attn.k_proj.weight", "rows": slices(HEAD * RANKS)},
            {"tensor": f"{p}.self_attn.v_proj.weight", "rows": slices(HEAD * RANKS)}]),
        "q_norm": weight([HEAD], [{"tensor": f"{p}.self_attn.q_norm.weight"}]),
        "k_norm": weight([HEAD], [{"tensor": f"{p}.self_attn.k_norm.weight"}]),
        "o": weight(["HIDDEN", HEADS * HEAD], [
            {"tensor": f"{p}.self_attn.o_proj.weight", "cols": slices(HEADS * HEAD * RANKS)}]),
        "post_norm": weight(["HIDDEN"], [{"tensor": f"{p}.post_attention_layernorm.weight"}]),
        "router": weight([EXPERTS, "HIDDEN"], [{"tensor": f"{p}.mlp.gate.weight"}]),
        "router_bias": weight([EXPERTS], [{"tensor": f"{p}.mlp.gate.e_score_correction_bias"}],
                              "f32"),
        "expert_gate": weight([OWNED, "INNER", "HIDDEN"], of_experts(p, "gate_proj")),
        "expert_up": weight([OWNED, "INNER", "HIDDEN"], of_experts(p, "up_proj")),
        "expert_down": weight([OWNED, "HIDDEN", "INNER"], of_experts(p, "down_proj")),
        "shared_gate_up": weight([2 * INNER, "HIDDEN"], [
            {"tensor": f"{p}.mlp.shared_experts.gate_proj.weight",
             "interleave": {"with": f"{p}.mlp.shared_experts.up_proj.weight", "rows": 64}}]),
        "shared_down": weight(["HIDDEN", "INNER"], [
            {"tensor": f"{p}.mlp.shared_experts.down_proj.weight"}]),
    }


def declare_buffers(layers):
    rows = ["tokens", "HIDDEN"]
    buffers = {
        "token": {"dtype": "i32", "shape": ["tokens"], "kind": "input", "fill": "token",
                  "domain": {"min": 0, "max": 151935}},
        "position": {"dtype": "i32", "shape": ["tokens"], "kind": "input", "fill": "position",
                     "domain": {"min": 0, "max": "CONTEXT"}},
        "slot": {"dtype": "i64", "shape": ["tokens"], "kind": "input", "fill": "slot",
                 "domain": {"index_into": "kv.0"}},
        "cu_seqlens": {"dtype": "i32", "shape": [SEQS + 1], "kind": "input",
                       "fill": "cu_seqlens", "domain": {"min": 0, "max": "tokens",
                                                        "monotone": True}},
        "logits": {"dtype": "f32", "shape": ["seqs", 151936], "kind": "output"},
        "received": {"dtype": "bf16", "shape": [RANKS, TOKENS, "HIDDEN"], "kind": "carry",
                     "export": True},
        "received_peers": {"dtype": "u64", "shape": [RANKS], "kind": "peer", "of": "received",
                           "group": "ep"},
        "flags": {"dtype": "u64", "shape": [2, RANKS], "kind": "carry", "export": True},
        "flags_peers": {"dtype": "u64", "shape": [RANKS], "kind": "peer", "of": "flags",
                        "group": "ep"},
        "residual": workspace("bf16", rows), "normed": workspace("bf16", rows),
        "attended": workspace("bf16", ["tokens", HEADS * HEAD]),
        "qkv": workspace("bf16", ["tokens", QKV]), "mixed": workspace("bf16", rows),
        "scores": workspace("f32", ["tokens", EXPERTS]), "ids": workspace("i32", ["tokens", 8]),
        "gates": workspace("f32", ["tokens", 8]), "counts": workspace("i32", [OWNED]),
        "up": workspace("bf16", [RANKS, TOKENS, "INNER"]),
        "expert_out": workspace("bf16", [RANKS, TOKENS, "HIDDEN"]),
        "shared_up": workspace("bf16", ["tokens", 2 * INNER]),
        "shared_act": workspace("bf16", ["tokens", "INNER"]),
        "shared_out": workspace("bf16", rows),
        "embedding": weight([151936, "HIDDEN"], [{"tensor": "model.embed_tokens.weight"}]),
        "final_norm": weight(["HIDDEN"], [{"tensor": "model.norm.weight"}]),
        "head": weight([151936, "HIDDEN"], [{"tensor": "lm_head.weight"}]),
    }
    for layer in range(layers):
        for name, declared in layer_weights(layer).items():
            buffers[f"layers.{layer}.{name}"] = declared
    return buffers


def launch(entry, grid, block=256, **more):
    grid = (list(grid) + [1, 1])[:3]
    return {"module": "kernels", "entry": entry, "block": [block, 1, 1], "grid": grid, **more}


def op(params, launches, scratch=None):
    impl = {"launches": launches}
    if scratch:
        impl["scratch"] = scratch
    return {"params": params, "impl": impl}


def tensormap(param, dims, box):
    """Over bf16 rows that lie end to end."""
    strides, stride = [], 2
    for extent in dims[:-1]:
        stride *= extent
        strides.append(stride)
    return {"param": param, "dtype": "bf16", "dims": dims, "strides": strides, "box": box,
            "swizzle": 128, "l2_promotion": 256}


def fields(*values):
    """The fields of a pack, each at the next place that is aligned to its size."""
    placed, at = [], 0
    for value in values:
        size, align = (128, 64) if "tensormap" in value else (8, 8) if value.keys() & {"param", "scratch"} else (4, 4)
        at = (at + align - 1) // align * align
        placed.append({"at": at, **value})
        at += size
    return {"size": (at + 63) // 64 * 64, "fields": placed}


def grouped_gemm(entry, params, maps, sizes):
    """Persistent kernels that take everything in one image, one for each range of tokens. A map is
    a param, its dims and the box's inner extent; the box's outer extent is the kernel's tile."""
    launches, least = [], 1
    for tile in (16, 64, 128, 256):
        pack = fields(*[{"tensormap": tensormap(param, dims, ([inner, tile] + [1])[:len(dims)])}
                        for param, dims, inner in maps],
                      *[{"param": index} for index in range(len(params))],
                      *[{"i32": size} for size in sizes], {"var": "tokens"},
                      {"expr": {"ceil_div": [{"mul": ["tokens", 8]}, tile]}}, {"rank": "ep"})
        when = {"var": "tokens", "min": least, "max": min(8 * tile, TOKENS)}
        launches.append(launch(f"{entry}_{tile}", [132], 384, params=[f"bytes<{pack['size']}>"],
                               args=[{"pack": pack}], shared_mem=180224, cluster=[2, 1, 1],
                               pdl=True, when=when if tile < 256 else {**when, "max": TOKENS}))
        least = 8 * tile + 1
    return op(params, launches)


def attention(entry):
    params = ["in buffer<bf16>", "inout state", "in buffer<i32>", "in buffer<bf16>",
              "in buffer<bf16>", "out buffer<bf16>", "f32", "i32"]
    query = tensormap(0, [HEAD, HEADS, 0], [64, HEADS, 1])
    query["strides"] = [HEAD * 2, QKV * 2]
    pack = fields({"tensormap": query}, {"tensormap": tensormap(1, [HEAD, 64, 0], [64, 64, 1])},
                  {"param": 2}, {"param": 3}, {"param": 4}, {"scratch": "partial"},
                  {"f32": 0.08838834764}, {"i32": HEADS}, {"var": "tokens"})
    reduce_params = ["in buffer<f32>", "out buffer<bf16>", "f32", "i32"]
    return op(params, [
        launch(entry, ["seqs", HEADS, 8], 128, params=[f"bytes<{pack['size']}>"],
               args=[{"pack": pack}], shared_mem={"mul": [128, 512]}),
        launch(f"{entry}_reduce", ["tokens"], params=reduce_params,
               args=[{"scratch": "partial"}, {"param": 5}, {"param": 6}, {"param": 7}],
               when={"var": "seqs", "min": 1, "max": SEQS}),
    ], {"partial": {"dtype": "f32", "shape": ["tokens", 8, HEADS * (HEAD + 2)]}})


def declare_ops(layers):
    gemm = ["in buffer<bf16>", "in buffer<bf16>", "out buffer<bf16>", "i32", "i32", "i32"]
    algo = {"id": 66, "tile": 20, "stages": 36, "split_k": 1, "reduction": 0, "swizzle": 0,
            "custom": 0, "inner_shape": 0, "cluster_shape": 2}
    row = {"ceil_div": [{"mul": ["tokens", "HIDDEN"]}, 2048]}
    ops = {
        "embed": op(["in buffer<i32>", "in buffer<bf16>", "out buffer<bf16>", "i32", "i32"],
                    [launch("embed", ["tokens"])]),
        "rmsnorm": op(["in buffer<bf16>", "in buffer<bf16>", "out buffer<bf16>", "f32", "i32"],
                      [launch("rmsnorm", ["tokens"], pdl=True)]),
        "gemm": op(gemm, [{"entry": "extern:cublaslt_bf16_tn", "algo": algo}]),
        "rope": op(["inout buffer<bf16>", "in buffer<i32>", "in buffer<i64>", "inout state",
                    "in buffer<bf16>", "in buffer<bf16>", "i32"],
                   [launch("rope_and_cache", ["tokens", HEADS])]),
        "allreduce": op(["inout buffer<bf16>", "i64", "i32"], [
            {"entry": "extern:nccl_allreduce_bf16",
             "params": ["in buffer<bf16>", "out buffer<bf16>", "i64", "i32"],
             "args": [{"param": 0}, {"param": 0}, {"param": 1}, {"param": 2}]}]),
        "add": op(["inout buffer<bf16>", "in buffer<bf16>", "i32"], [launch("add", [row])]),
        "router": op(["in buffer<bf16>", "in buffer<bf16>", "in buffer<f32>", "out buffer<f32>",
                      "i32"], [launch("router", ["tokens"])]),
        "topk": op(["in buffer<f32>", "out buffer<i32>", "out buffer<f32>", "i32", "i32"],
                   [launch("topk", ["tokens"], 32)]),
        "dispatch": op(["in buffer<bf16>", "in buffer<i32>", "inout buffer<bf16>",
                        "in buffer<u64>", "inout buffer<u64>", "in buffer<u64>",
                        "out buffer<i32>", "i32", "i32", "i64"], [
            launch("dispatch_send", ["tokens"], 128,
                   params=["in buffer<bf16>", "in buffer<i32>", "in buffer<u64>",
                           "in buffer<u64>", "i32"],
                   args=[{"param": 0}, {"param": 1}, {"param": 3}, {"param": 5}, {"param": 7}]),
            launch("dispatch_wait", [RANKS], 128,
                   params=["inout buffer<bf16>", "inout buffer<u64>", "out buffer<i32>", "i32",
                           "i64"],
                   args=[{"param": 2}, {"param": 4}, {"param": 6}, {"param": 8}, {"param": 9}])]),
        "combine": op(["in buffer<bf16>", "inout buffer<bf16>", "in buffer<u64>",
                       "inout buffer<u64>", "in buffer<u64>", "in buffer<f32>", "in buffer<i32>",
                       "inout buffer<bf16>", "i32", "i64"], [launch("combine", [132], 128)]),
        "act": op(["in buffer<bf16>", "out buffer<bf16>", "i32", "i32"],
                  [launch("silu_and_mul", [row])]),
    }
    for name in PROGRAMS:
        ops[f"attention_{name}"] = attention(f"attention_{name}_h{HEAD}")
        for layer in range(layers):
            # Half of the layers were tuned to narrower boxes.
            inner = 64 if layer % 2 else 32
            experts = [INNER, HIDDEN, OWNED]
            ops[f"expert_up_{name}.{layer}"] = grouped_gemm(
                f"grouped_gate_up_{inner}",
                ["in buffer<bf16>", "in buffer<bf16>", "in buffer<bf16>", "in buffer<i32>",
                 "out buffer<bf16>"],
                [(0, [HIDDEN, 0], inner), (1, [HIDDEN, INNER, OWNED], inner),
                 (2, [HIDDEN, INNER, OWNED], inner), (4, [INNER, 0], inner)],
                experts)
            ops[f"expert_down_{name}.{layer}"] = grouped_gemm(
                f"grouped_down_{inner}",
                ["in buffer<bf16>", "in buffer<bf16>", "in buffer<i32>", "out buffer<bf16>"],
                [(0, [INNER, 0], inner), (1, [INNER, HIDDEN, OWNED], inner),
                 (3, [HIDDEN, 0], inner)],
                experts)
    return ops


def call(name, label, *args):
    return {"op": name, "label": label,
            "args": [{"buf": arg} if isinstance(arg, str) else arg for arg in args]}


def layer_calls(layer, program):
    def label(what):
        return f"layers.{layer}.{what}"

    w = label
    kv, tokens, hidden = {"state": f"kv.{layer}"}, {"var": "tokens"}, {"i32": "HIDDEN"}
    epsilon, rank, timeout = {"f32": 1e-6}, {"rank": "ep"}, {"i64": 10_000_000_000}

    def gemm(what, a, weights, c, n, k):
        return call("gemm", label(what), a, w(weights), c, tokens, {"i32": n}, {"i32": k})

    def allreduce(what, buffer):
        return call("allreduce", label(what), buffer, {"expr": {"mul": ["tokens", "HIDDEN"]}},
                    {"rank": "tp"})

    return [
        call("rmsnorm", label("input_norm"), "residual", w("input_norm"), "normed", epsilon,
             hidden),
        gemm("qkv", "normed", "qkv", "qkv", QKV, "HIDDEN"),
        call("rope", label("rope"), "qkv", "position", "slot", kv, w("q_norm"), w("k_norm"),
             tokens),
        call(f"attention_{program}", label("attention"), "qkv", kv, "cu_seqlens", w("q_norm"),
             w("k_norm"), "attended", {"f32": 0.08838834764}, tokens),
        gemm("o", "attended", "o", "mixed", "HIDDEN", HEADS * HEAD),
        allreduce("o.allreduce", "mixed"),
        call("add", label("attention.add"), "residual", "mixed", tokens),
        call("rmsnorm", label("post_norm"), "residual", w("post_norm"), "normed", epsilon, hidden),
        call("router", label("router"), "normed", w("router"), w("router_bias"), "scores", tokens),
        call("topk", label("topk"), "scores", "ids", "gates", {"i32": 8}, tokens),
        call("dispatch", label("dispatch"), "normed", "ids", "received", "received_peers",
             "flags", "flags_peers", "counts", rank, tokens, timeout),
        call(f"expert_up_{program}.{layer}", label("expert_up"), "received", w("expert_gate"),
             w("expert_up"), "counts", "up"),
        call(f"expert_down_{program}.{layer}", label("expert_down"), "up", w("expert_down"),
             "counts", "expert_out"),
        call("combine", label("combine"), "expert_out", "received", "received_peers", "flags",
             "flags_peers", "gates", "ids", "mixed", rank, timeout),
        gemm("shared_gate_up", "normed", "shared_gate_up", "shared_up", 2 * INNER, "HIDDEN"),
        call("act", label("shared_act"), "shared_up", "shared_act", tokens, {"i32": "INNER"}),
        gemm("shared_down", "shared_act", "shared_down", "shared_out", "HIDDEN", "INNER"),
        allreduce("mlp.allreduce", "shared_out"),
        call("add", label("shared.add"), "residual", "shared_out", tokens),
        call("add", label("mlp.add"), "residual", "mixed", tokens),
    ]


def declare_program(name, layers):
    calls = [call("embed", "embed", "token", "embedding", "residual", {"var": "tokens"},
                  {"i32": "HIDDEN"})]
    for layer in range(layers):
        calls += layer_calls(layer, name)
    calls += [
        call("rmsnorm", "norm", "residual", "final_norm", "normed", {"f32": 1e-6},
             {"i32": "HIDDEN"}),
        call("head", "head", "normed", "head", "logits", {"var": "seqs"}, {"i32": 151936},
             {"i32": "HIDDEN"}),
    ]
    batch = {"groups": 1 if name == "prefill" else SEQS,
             "rows": {"decode": 1, "prefill": "tokens", "verify": 4}[name]}
    return {"calls": calls, "batch": batch, "graph": name != "prefill"}


def make(layers):
    ops = declare_ops(layers)
    ops["head"] = op(["in buffer<bf16>", "in buffer<bf16>", "out buffer<f32>", "i32", "i32", "i32"],
                     [{"entry": "extern:cublas_bf16_tn_f32"}])
    return {
        "schema_version": 7,
        "model": f"bench-moe-{layers}l",
        "constants": {"HIDDEN": HIDDEN, "INNER": INNER, "CONTEXT": 131072},
        "vars": {"tokens": {"max": TOKENS, "axis": "rows"},
                 "seqs": {"max": SEQS, "axis": "groups"}},
        "topology": {"groups": {"tp": RANKS, "ep": RANKS}},
        "states": {f"kv.{layer}": {"bytes_per_token": 4 * HEAD} for layer in range(layers)},
        "buffers": declare_buffers(layers),
        "modules": {"kernels": {"source": "kernels.cubin",
                                "sha256": hashlib.sha256(b"kernels").hexdigest()}},
        "ops": ops,
        "programs": {name: declare_program(name, layers) for name in PROGRAMS},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=93)
    parser.add_argument("file")
    args = parser.parse_args()
    with open(args.file, "w", encoding="utf-8") as file:
        json.dump(make(args.layers), file, separators=(",", ":"))


if __name__ == "__main__":
    main()
