#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A manifest that serves a Llama checkpoint (Hugging Face layout, bf16), tensor parallel over --tp
ranks: `chunk` takes the next rows of one sequence, `step` one row of each of several. With --stages
one for each stage of a pipeline, every one of them on --tp ranks."""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from checkpoint import Checkpoint  # noqa: E402
from manifest import (  # noqa: E402
    TIMEOUT_NS, Manifest, call, f32, launch, require, write_stages,
)

PAGE_TOKENS = 16
# Flags of an all-reduce are per block, so its grid is the same in both programs.
ALLREDUCE_BLOCKS = 4


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True,
                        help="directory of config.json and *.safetensors")
    parser.add_argument("--kernels", required=True, help="directory of the built kernels (*.so)")
    parser.add_argument("--out", required=True, help="directory to write model.json to, or stage0.json and on")
    parser.add_argument("--tp", type=int, default=1, help="ranks, of each stage; default 1")
    parser.add_argument("--stages", type=int, default=1, help="stages of layers, default 1")
    parser.add_argument("--allreduce", choices=("peer", "nccl"), default="peer",
                        help="how the ranks add up: a kernel that stores to its peers, or NCCL")
    parser.add_argument("--pages", type=int,
                        help=f"pages of {PAGE_TOKENS} tokens that a sequence may have; "
                        "default: as many as the model has positions for")
    parser.add_argument("--max-rows", type=int, default=64, help="rows of a chunk, default 64")
    parser.add_argument("--max-seqs", type=int, default=8, help="sequences of a step, default 8")
    return parser.parse_args()


class Sizes:
    """What one rank has of the model."""

    def __init__(self, model, args):
        most = model.positions // PAGE_TOKENS
        self.tp = args.tp
        self.pages = most if args.pages is None else args.pages
        self.max_rows, self.max_seqs = args.max_rows, args.max_seqs
        require(self.tp >= 1 and model.heads % self.tp == 0 and model.inner % self.tp == 0,
                f"--tp divides {model.heads} heads and {model.inner} inner elements")
        require(model.kv_heads % self.tp == 0 or self.tp % model.kv_heads == 0,
                f"--tp divides, or is a multiple of, {model.kv_heads} key heads")
        require(1 <= self.pages <= most,
                f"--pages is from 1 to {most}; the model has {model.positions} positions")
        require(1 <= self.max_seqs <= self.max_rows, "--max-rows is at least --max-seqs")
        require(model.hidden % 8 == 0 and model.head_dim % 8 == 0,
                "hidden_size and head_dim are multiples of 8")
        self.context = self.pages * PAGE_TOKENS
        self.heads, self.inner = model.heads // self.tp, model.inner // self.tp
        # With more ranks than key heads, several ranks have the same one.
        self.kv_heads = max(1, model.kv_heads // self.tp)
        self.first_kv_heads = [rank * model.kv_heads // self.tp for rank in range(self.tp)]
        self.q_width = self.heads * model.head_dim
        self.kv_width = self.kv_heads * model.head_dim


class Llama:
    """The model, or the stage-th of several stages of it, each with its share of the layers."""

    def __init__(self, manifest, model, sizes, allreduce, stage=0, stages=1):
        self.m, self.model, self.sizes = manifest, model, sizes
        self.peer = sizes.tp > 1 and allreduce == "peer"
        self.nccl = sizes.tp > 1 and allreduce == "nccl"
        self.layers = range(stage * model.layers // stages, (stage + 1) * model.layers // stages)
        self.is_first, self.is_last = stage == 0, stage + 1 == stages
        # Two sums per layer: after the attention and after the MLP.
        self.sums = 2 * len(self.layers)
        self.output_layer = {"lm_head.weight": "lm_head"}.get(model.output_layer(), "embedding")

    def declare(self):
        m, model, sizes = self.m, self.model, self.sizes
        for name, value in (
            ("HIDDEN", model.hidden), ("HEAD_DIM", model.head_dim), ("HALF", model.head_dim // 2),
            ("HEADS", sizes.heads), ("KV_HEADS", sizes.kv_heads), ("INNER", sizes.inner),
            ("GATE_UP", 2 * sizes.inner), ("QUERIES", sizes.q_width),
            ("QKV", sizes.q_width + 2 * sizes.kv_width), ("VOCABULARY", model.vocabulary),
            ("EPSILON", model.epsilon), ("PAGE_TOKENS", PAGE_TOKENS), ("PAGES", sizes.pages),
            ("CONTEXT", sizes.context),
        ):
            m.constant(name, value)
        m.var("rows", sizes.max_rows, axis="rows")
        m.var("seqs", sizes.max_seqs, axis="groups")
        if sizes.tp > 1:
            m.group("tp", sizes.tp)
        self.declare_caller_buffers()
        self.declare_weights()
        self.declare_workspaces()
        for module in ("rms_norm", "rope", "paged_attention", "silu_mul"):
            m.module(module)
        if self.is_first:
            m.module("embedding")
        if self.is_last:
            m.module("argmax")
        self.declare_ops()
        if self.peer:
            self.declare_peer_allreduce()
        if self.nccl:
            m.op("allreduce", ["in buffer<bf16>", "out buffer<bf16>", "i32", "i32"],
                 [{"entry": "extern:nccl_allreduce_bf16"}])
        m.program("rope", [
            call("rope_column", "cos", "sin", {"i32": "CONTEXT"}, {"i32": "HALF"}, {"i32": i},
                 {"f32": f32(frequency)})
            for i, frequency in enumerate(model.frequencies())
        ], derive=True)
        m.program("chunk", self.calls({"var": "rows"}), batch={"groups": 1, "rows": "rows"})
        m.program("step", self.calls({"i32": 1}), batch={"groups": sizes.max_seqs, "rows": 1},
                  graph=True)

    def declare_caller_buffers(self):
        m, sizes = self.m, self.sizes
        state = f"kv.{self.layers[0]}"
        if self.is_first:
            m.buffer("token", "i32", ["rows"], "input", fill="token",
                     domain={"index_into": "embedding"})
        if self.is_last:
            m.buffer("tokens", "i32", ["seqs"], "output", fill="tokens")
        m.buffer("position", "i32", ["rows"], "input", fill="position",
                 domain={"min": 0, "max": sizes.context - 1})
        m.buffer("slot", "i32", ["rows"], "input", fill="slot", domain={"index_into": state})
        m.buffer("seq_len", "i32", ["seqs"], "input", fill="seq_len",
                 domain={"min": 1, "max": sizes.context})
        m.buffer("pages", "i32", ["seqs", "PAGES"], "input",
                 domain={"index_into": state, "stride": "PAGE_TOKENS"})

    def declare_weights(self):
        m, model, sizes = self.m, self.model, self.sizes
        if self.is_first or (self.is_last and self.output_layer == "embedding"):
            m.buffer("embedding", "bf16", ["VOCABULARY", "HIDDEN"], "weight",
                     bind=[{"tensor": "model.embed_tokens.weight"}])
        if self.is_last and self.output_layer == "lm_head":
            m.buffer("lm_head", "bf16", ["VOCABULARY", "HIDDEN"], "weight",
                     bind=[{"tensor": "lm_head.weight"}])
        if self.is_last:
            m.buffer("norm", "bf16", ["HIDDEN"], "weight", bind=[{"tensor": "model.norm.weight"}])
        queries = [rank * sizes.q_width for rank in range(sizes.tp)]
        keys = [head * model.head_dim for head in sizes.first_kv_heads]
        inner = [rank * sizes.inner for rank in range(sizes.tp)]
        for layer in self.layers:
            def piece(name, axis=None, firsts=None, width=None):
                segment = {"tensor": f"model.layers.{layer}.{name}.weight"}
                if axis and sizes.tp > 1:
                    ranges = [[first, first + width] for first in firsts]
                    segment[axis] = {"group": "tp", "ranges": ranges}
                return segment

            def weight(name, shape, *pieces):
                m.buffer(f"{layer}.{name}", "bf16", shape, "weight", bind=list(pieces))

            weight("attention_norm", ["HIDDEN"], piece("input_layernorm"))
            weight("qkv", ["QKV", "HIDDEN"],
                   piece("self_attn.q_proj", "rows", queries, sizes.q_width),
                   piece("self_attn.k_proj", "rows", keys, sizes.kv_width),
                   piece("self_attn.v_proj", "rows", keys, sizes.kv_width))
            weight("o", ["HIDDEN", "QUERIES"],
                   piece("self_attn.o_proj", "cols", queries, sizes.q_width))
            weight("mlp_norm", ["HIDDEN"], piece("post_attention_layernorm"))
            weight("gate_up", ["GATE_UP", "HIDDEN"],
                   piece("mlp.gate_proj", "rows", inner, sizes.inner),
                   piece("mlp.up_proj", "rows", inner, sizes.inner))
            weight("down", ["HIDDEN", "INNER"], piece("mlp.down_proj", "cols", inner, sizes.inner))
            # A token slot has this layer's keys, then its values; page p is slots 16 p to 16 p + 15.
            m.state(f"kv.{layer}", bytes_per_token=2 * sizes.kv_width * 2)

    def carried(self, name, dtype):
        """A workspace that goes on from stage to stage."""
        if not self.is_first:
            self.m.buffer(name, dtype, ["rows", "HIDDEN"], "inout", export=True)
        else:
            self.m.buffer(name, dtype, ["rows", "HIDDEN"],
                          "workspace" if self.is_last else "output")

    def declare_workspaces(self):
        m = self.m
        m.buffer("cos", "f32", ["CONTEXT", "HALF"], "carry")
        m.buffer("sin", "f32", ["CONTEXT", "HALF"], "carry")
        self.carried("residual", "f32")
        self.carried("delta", "bf16")
        m.buffer("normed", "bf16", ["rows", "HIDDEN"], "workspace")
        m.buffer("qkv", "bf16", ["rows", "QKV"], "workspace")
        m.buffer("attended", "bf16", ["rows", "QUERIES"], "workspace")
        m.buffer("gate_up", "bf16", ["rows", "GATE_UP"], "workspace")
        m.buffer("gated", "bf16", ["rows", "INNER"], "workspace")
        if self.sizes.tp > 1:
            m.buffer("partial", "bf16", ["rows", "HIDDEN"], "workspace")
        if self.is_last:
            m.buffer("last", "bf16", ["seqs", "HIDDEN"], "workspace")
            m.buffer("logits", "f32", ["seqs", "VOCABULARY"], "workspace")

    def declare_ops(self):
        m, model = self.m, self.model
        matrices = ["in buffer<bf16>", "in buffer<bf16>"]
        m.op("linear", [*matrices, "out buffer<bf16>", "i32", "i32", "i32"],
             [{"entry": "extern:cublaslt_bf16_tn"}])
        add_norm = ["inout buffer<f32>", *matrices, "out buffer<bf16>", "i32", "i32", "f32"]
        m.op("add_rms_norm", add_norm, [launch("rms_norm", "add_rms_norm", ["rows"], 128)])
        if self.is_first:
            m.op("embedding",
                 ["in buffer<i32>", "in buffer<bf16>", "out buffer<f32>", "i32", "i32"],
                 [launch("embedding", "embedding", ["rows"], 128)])
            m.op("rms_norm",
                 ["in buffer<f32>", "in buffer<bf16>", "out buffer<bf16>", "i32", "i32", "f32"],
                 [launch("rms_norm", "rms_norm", ["rows"], 128)])
        if self.is_last:
            m.op("add_last_rms_norm", add_norm,
                 [launch("rms_norm", "add_rms_norm", ["seqs"], 128)])
            m.op("output_layer", [*matrices, "out buffer<f32>", "i32", "i32", "i32"],
                 [{"entry": "extern:cublas_bf16_tn_f32"}])
            m.op("argmax", ["in buffer<f32>", "out buffer<i32>", "i32"],
                 [launch("argmax", "argmax_f32", ["seqs"], 256)])
        m.op("rope_column",
             ["inout buffer<f32>", "inout buffer<f32>", "i32", "i32", "i32", "f32"],
             [launch("rope", "rope_column", [-(-self.sizes.context // 256)], 256)])
        m.op("rope_append",
             ["inout buffer<bf16>", "in buffer<f32>", "in buffer<f32>", "in buffer<i32>",
              "in buffer<i32>", "inout state", "i32", "i32", "i32"],
             [launch("rope", "rope_append", ["rows"], 128)])
        m.op("attention",
             ["in buffer<bf16>", "in state", "in buffer<i32>", "in buffer<i32>", "out buffer<bf16>",
              "i32", "i32", "i32", "i32", "i32", "i32", "f32"],
             [launch("paged_attention", "paged_attention", ["rows", "HEADS"], 64,
                     shared_mem=model.head_dim * 4)])
        m.op("silu_mul", ["in buffer<bf16>", "out buffer<bf16>", "i32"],
             [launch("silu_mul", "silu_mul", ["rows"], 256)])

    def declare_peer_allreduce(self):
        m, model, sizes = self.m, self.model, self.sizes
        m.module("allreduce")
        m.module("error_max")
        m.constant("CAPACITY", sizes.max_rows * model.hidden)
        m.exported("slab", "bf16", [2, sizes.tp, "CAPACITY"], "tp")
        m.exported("flags", "u32", [sizes.tp, ALLREDUCE_BLOCKS], "tp")
        m.buffer("epoch", "u32", [3], "carry")
        m.buffer("errors", "i32", [self.sums], "workspace")
        m.error()
        # To the op the slab and the flags change, because the peers write to them while it runs.
        m.op("allreduce",
             ["in buffer<bf16>", "out buffer<bf16>", "inout buffer<bf16>", "in buffer<u64>",
              "inout buffer<u32>", "in buffer<u64>", "inout buffer<u32>", "out buffer<i32>",
              "i32", "i32", "i32", "i32", "i64"],
             [launch("allreduce", "allreduce_bf16", [ALLREDUCE_BLOCKS], 256)])
        m.op("error_max", ["in buffer<i32>", "out buffer<i32>", "i32"],
             [launch("error_max", "error_max", [1], 1)])

    def add_up(self, number):
        """The calls that make `delta` of every rank's `partial`; the number-th of a program."""
        count = {"expr": {"mul": ["rows", "HIDDEN"]}}
        if self.nccl:
            return [call("allreduce", "partial", "delta", count, {"rank": "tp"})]
        if self.peer:
            return [call("allreduce", "partial", "delta", "slab", "slab_peers", "flags",
                         "flags_peers", "epoch", {"buf": "errors", "offset": 4 * number},
                         {"rank": "tp"}, {"i32": self.sizes.tp}, count, {"i32": "CAPACITY"},
                         {"i64": TIMEOUT_NS})]
        return []

    def linear(self, x, weight, y, n, k):
        return call("linear", x, weight, y, {"var": "rows"}, {"i32": n}, {"i32": k})

    def layer_calls(self, layer, norm, rows_per_seq):
        """From the residual stream through a layer to the `delta` that is to be added to it.
        `norm`: the call of the layer's first norm."""
        model = self.model
        summand = "delta" if self.sizes.tp == 1 else "partial"
        heads = [{"i32": "HEADS"}, {"i32": "KV_HEADS"}, {"i32": "HEAD_DIM"}]
        state = {"state": f"kv.{layer}"}
        return [
            norm,
            self.linear("normed", f"{layer}.qkv", "qkv", "QKV", "HIDDEN"),
            call("rope_append", "qkv", "cos", "sin", "position", "slot", state, *heads),
            call("attention", "qkv", state, "pages", "seq_len", "attended", *heads, rows_per_seq,
                 {"i32": "PAGES"}, {"i32": "PAGE_TOKENS"}, {"f32": f32(model.head_dim ** -0.5)}),
            self.linear("attended", f"{layer}.o", summand, "HIDDEN", "QUERIES"),
            *self.add_up(2 * (layer - self.layers[0])),
            self.add_norm(f"{layer}.mlp_norm"),
            self.linear("normed", f"{layer}.gate_up", "gate_up", "GATE_UP", "HIDDEN"),
            call("silu_mul", "gate_up", "gated", {"i32": "INNER"}),
            self.linear("gated", f"{layer}.down", summand, "HIDDEN", "INNER"),
            *self.add_up(2 * (layer - self.layers[0]) + 1),
        ]

    def add_norm(self, weight):
        return call("add_rms_norm", "residual", "delta", weight, "normed", {"i32": "HIDDEN"},
                    {"i32": 1}, {"f32": "EPSILON"})

    def calls(self, rows_per_seq):
        calls = []
        if self.is_first:
            calls.append(call("embedding", "token", "embedding", "residual",
                              {"i32": "VOCABULARY"}, {"i32": "HIDDEN"}))
        for layer in self.layers:
            if layer == 0:
                norm = call("rms_norm", "residual", "0.attention_norm", "normed",
                            {"i32": "HIDDEN"}, {"i32": 1}, {"f32": "EPSILON"})
            else:
                norm = self.add_norm(f"{layer}.attention_norm")
            calls += self.layer_calls(layer, norm, rows_per_seq)
        if self.is_last:
            calls += [
                call("add_last_rms_norm", "residual", "delta", "norm", "last", {"i32": "HIDDEN"},
                     rows_per_seq, {"f32": "EPSILON"}),
                call("output_layer", "last", self.output_layer, "logits", {"var": "seqs"},
                     {"i32": "VOCABULARY"}, {"i32": "HIDDEN"}),
                call("argmax", "logits", "tokens", {"i32": "VOCABULARY"}),
            ]
        if self.peer:
            calls.append(call("error_max", "errors", "error", {"i32": self.sums}))
        return calls


def main():
    args = parse_arguments()
    model = Checkpoint(args.checkpoint)
    require(model.wrong() is None, model.wrong())
    require(1 <= args.stages <= model.layers, f"--stages is from 1 to {model.layers}, the layers")
    sizes = Sizes(model, args)
    manifests = [Manifest("llama", args.kernels, args.out) for _ in range(args.stages)]
    for stage, manifest in enumerate(manifests):
        Llama(manifest, model, sizes, args.allreduce, stage, args.stages).declare()
    if args.stages == 1:
        manifests[0].write()
    else:
        write_stages(manifests)


main()
