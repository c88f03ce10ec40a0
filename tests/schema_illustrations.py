#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The schema's own illustrations, each put into a smallest manifest: kern verify accepts them all.

An illustration is a text between backquotes in a description that is a JSON object or array. Those
that are no JSON (they have an ellipsis or stand for any value) are not looked at; every other one
must have a place below, so that a new one in the schema does not go by unseen.
"""
import copy
import json
import re
import subprocess
import sys

KERN, SCHEMA = sys.argv[1:3]
KERNEL = {"module": "argmax", "entry": "kern_argmax_partial_bf16", "block": [1024, 1, 1], "grid": [1, 64, 1]}
BASE = {
    "schema_version": 7, "model": "qwen3-4b", "vars": {"tokens": {"max": 256, "axis": "rows"}},
    "buffers": {"x": {"dtype": "bf16", "shape": ["tokens", 2560], "kind": "input"},
                "y": {"dtype": "bf16", "shape": ["tokens", 2560], "kind": "output"}},
    "modules": {"argmax": {"source": "argmax.cubin", "sha256": "0" * 64}},
    "ops": {"f": {"params": ["in buffer<bf16>", "out buffer<bf16>", "i32"], "impl": {"launches": [KERNEL]}}},
    "programs": {"p": {"calls": [{"op": "f", "args": [{"buf": "x"}, {"buf": "y"}, {"i32": 1}]}]}},
}


def base():
    manifest = copy.deepcopy(BASE)
    op = manifest["ops"]["f"]
    return manifest, op, op["impl"]["launches"][0], manifest["programs"]["p"]["calls"][0]


def add_param(manifest, kind, argument):
    manifest["ops"]["f"]["params"].append(kind)
    manifest["programs"]["p"]["calls"][0]["args"].append(argument)


def add_state(manifest, name, state):
    manifest.setdefault("states", {})[name] = state
    add_param(manifest, "inout state", {"state": name})


def add_seqs(manifest):
    manifest["vars"]["seqs"] = {"max": 256, "axis": "groups"}
    manifest["buffers"]["lengths"] = {"dtype": "i32", "shape": ["seqs"], "kind": "input"}
    add_param(manifest, "in buffer<i32>", {"buf": "lengths"})


def scalar(value):
    manifest, _, _, call = base()
    call["args"][2] = value
    if "rank" in value:
        manifest["topology"] = {"groups": {value["rank"]: 4}}
    return manifest


def buffer_argument(value):
    manifest, _, _, call = base()
    manifest["buffers"][value["buf"]] = manifest["buffers"].pop("x")
    call["args"][0] = value
    return manifest


def state_argument(value):
    manifest, _, _, call = base()
    add_state(manifest, value["state"], {"bytes_per_token": 147456})
    call["args"][3] = value
    return manifest


def batch(value):
    manifest = base()[0]
    add_seqs(manifest)
    manifest["programs"]["p"]["batch"] = value
    return manifest


def workspace(value):
    manifest, _, _, call = base()
    manifest["buffers"]["hidden"] = value
    second = copy.deepcopy(call)
    call["args"][1] = {"buf": "hidden"}
    second["args"][0] = {"buf": "hidden"}
    manifest["programs"]["p"]["calls"].append(second)
    return manifest


def weight(shape, segments, groups=None):
    manifest = base()[0]
    manifest["buffers"]["w"] = {"dtype": "bf16", "shape": shape, "kind": "weight", "bind": segments}
    add_param(manifest, "in buffer<bf16>", {"buf": "w"})
    if groups:
        manifest["topology"] = {"groups": groups}
    return manifest


def domain(value):
    manifest = base()[0]
    manifest["buffers"]["table"] = {"dtype": "i32", "shape": [8], "kind": "input", "domain": value}
    add_param(manifest, "in buffer<i32>", {"buf": "table"})
    if "index_into" in value:
        add_state(manifest, value["index_into"], {"bytes_per_token": 64})
    return manifest


def grid(value):
    manifest, _, launch, _ = base()
    launch["grid"] = value if isinstance(value, list) else [value, 1, 1]
    if "seqs" in json.dumps(value):
        add_seqs(manifest)
    return manifest


def launch_key(key):
    def put(value):
        manifest, _, launch, _ = base()
        launch[key] = value
        if key == "cluster":
            launch["grid"] = [2, 64, 1]
        return manifest
    return put


def gemm(launch):
    manifest = base()[0]
    manifest["modules"] = {}
    manifest["buffers"]["w"] = {"dtype": "bf16", "shape": [2560, 2560], "kind": "weight", "bind": [{"tensor": "w"}]}
    manifest["ops"]["f"] = {"params": ["in buffer<bf16>", "in buffer<bf16>", "out buffer<bf16>", "i32", "i32", "i32"],
                            "impl": {"launches": [launch]}}
    manifest["programs"]["p"]["calls"][0]["args"] = [{"buf": "x"}, {"buf": "w"}, {"buf": "y"}, {"var": "tokens"},
                                                     {"i32": 2560}, {"i32": 2560}]
    return manifest


def packed(pack):
    manifest, op, launch, _ = base()
    add_param(manifest, "in buffer<bf16>", {"buf": "x"})
    manifest["buffers"]["bytes"] = {"dtype": "u8", "shape": [1024, 3584], "kind": "input"}
    add_param(manifest, "in buffer<u8>", {"buf": "bytes"})
    add_param(manifest, "in buffer<u8>", {"buf": "bytes"})
    launch["params"] = op["params"][:3] + [f"bytes<{pack['size']}>"]
    launch["args"] = [{"param": 0}, {"param": 1}, {"param": 2}, {"pack": pack}]
    return manifest


def scratch(value, arguments=None):
    manifest, op, launch, _ = base()
    op["impl"]["scratch"] = value
    launch["params"] = ["in buffer<bf16>", "out buffer<f32>", "i32"]
    launch["args"] = arguments or [{"param": 0}, {"scratch": "pmax"}, {"i32": 64}]
    op["impl"]["launches"].append(copy.deepcopy(KERNEL))
    return manifest


def plain(section):
    def put(value):
        manifest = base()[0]
        manifest[section] = value
        return manifest
    return put


def topology(value):
    manifest = plain("topology")(value)
    manifest["programs"]["p"]["calls"][0]["args"][2] = {"rank": next(iter(value["groups"]))}
    return manifest


def state_with(key, size):
    def put(value):
        manifest = base()[0]
        add_state(manifest, "kv", {**size, key: value})
        if key == "shard":
            manifest["topology"] = {"groups": {value["group"]: 2}}
        return manifest
    return put


PMAX = {"pmax": {"dtype": "f32", "shape": [1, 64]}}
HEADS = (6291456 + 9 * 24576) // 2
PLACES = {
    '{"buf": "hidden"}': buffer_argument,
    '{"state": "kv", "offset": 65536}': state_argument,
    '{"var": "tokens"}': scalar,
    '{"i32": 2560}': scalar,
    '{"rank": "ep"}': scalar,
    '{"expr": {"mul": ["tokens", 32]}}': scalar,
    '{"groups": 256, "rows": 1}': batch,
    '{"groups": 1, "rows": "tokens"}': batch,
    '{"dtype": "bf16", "shape": ["tokens", 2560], "kind": "workspace"}': workspace,
    '["tokens", 2560]': lambda v: workspace({"dtype": "bf16", "shape": v, "kind": "workspace"}),
    '["tokens", 8]': lambda v: scratch({"pmax": {"dtype": "f32", "shape": v}}),
    '[{"tensor": "q_proj.weight"}, {"tensor": "k_proj.weight"}]': lambda v: weight([64], v),
    '{"min": 0, "max": "tokens"}': domain,
    '{"index_into": "kv", "stride": 16}': domain,
    '{"ceil_div": ["tokens", 128]}': grid,
    '{"mul": ["tokens", 32]}': grid,
    '{"add": [{"ceil_div": ["tokens", 64]}, "seqs"]}': grid,
    '{"clamp": ["tokens", 4096, 4096]}': grid,
    '[{"ceil_div": ["tokens", 128]}, 1, 1]': grid,
    '{"entry": "extern:cublaslt_bf16_tn"}': gemm,
    '{"var": "tokens", "max": 16}': launch_key("when"),
    '{"var": "tokens", "min": 17}': launch_key("when"),
    '{"at": 8, "var": "tokens"}': lambda v: packed({"size": 16, "fields": [v]}),
    '{"size": 24, "fields": [{"at": 0, "param": 3}, {"at": 8, "i32": 64}, {"at": 12, "var": "tokens"}]}': packed,
    '{"id": 6, "tile": 24, "stages": 9, "split_k": 1, "reduction": 0, "swizzle": 0, "custom": 0, '
    '"inner_shape": 0, "cluster_shape": 0}': lambda v: gemm({"entry": "extern:cublaslt_bf16_tn", "algo": v}),
    '[0, 64, 4, 512]': lambda v: state_with("host", {})(
        {"dtype": "bf16", "shape": v, "strides": [131072, 2048, 512, 1]}),
    '[131072, 2048, 512, 1]': lambda v: state_with("host", {})(
        {"dtype": "bf16", "shape": [0, 64, 4, 512], "strides": v}),
    '{"dtype": "bf16", "shape": [0, 64, 4, 512], "strides": [131072, 2048, 512, 1]}': state_with("host", {}),
    '{"pmax": {"dtype": "f32", "shape": [1, 64]}}': scratch,
    '{"module": "argmax", "entry": "kern_argmax_partial_bf16", "block": [1024, 1, 1], "grid": [1, 64, 1]}':
        lambda v: {**BASE, "ops": {"f": {**BASE["ops"]["f"], "impl": {"launches": [v]}}}},
    '[{"param": 0}, {"scratch": "pmax"}, {"i32": 64}]': lambda v: scratch(PMAX, v),
    '[1024, 1, 1]': launch_key("block"),
    '[2, 1, 1]': launch_key("cluster"),
    '{"mul": ["tokens", 512]}': launch_key("shared_mem"),
    '{"param": 0}': lambda v: scratch(PMAX, [v, {"scratch": "pmax"}, {"i32": 64}]),
    '{"scratch": "pmax"}': lambda v: scratch(PMAX, [{"param": 0}, v, {"i32": 64}]),
    '{"i32": 64}': lambda v: scratch(PMAX, [{"param": 0}, {"scratch": "pmax"}, v]),
    '{"group": "ep", "ranges": [[0, 8], [8, 16]]}': lambda v: weight([8, 4], [{"tensor": "t", "rows": v}], {"ep": 2}),
    '{"tensor": "fc.weight", "cols": [0, 5120]}': lambda v: weight([5120], [v]),
    '[5120, 10240]': lambda v: weight([5120], [{"tensor": "t", "cols": v}]),
    '[0, 1024]': lambda v: weight([1024], [{"tensor": "t", "rows": v}]),
    '{"with": "experts.0.w3.weight_packed", "rows": 8}': lambda v: weight([16], [{"tensor": "t", "interleave": v}]),
    '{"group": "tp", "by": "position"}': state_with("shard", {"bytes_per_token": 64}),
    '{"group": "tp", "by": "heads", "segments": [[1, 6291456], [9, 24576]]}':
        state_with("shard", {"bytes_per_seq": HEADS}),
    '{"param": 5, "dtype": "u8", "dims": [3584, 1024], "strides": [3584], "box": [128, 96], "swizzle": 128}':
        lambda v: packed({"size": 128, "fields": [{"at": 0, "tensormap": v}]}),
    '{"groups": {"ep": 4}}': topology,
    '{"ep": 4}': lambda v: topology({"groups": v}),
    '{"tool_parser": "qwen3_coder"}': plain("chat"),
    '{"id": "9f2c…", "stage": 1, "stages": 2}': plain("cut"),
    '{"tokens": {"max": 2048}}': plain("vars"),
}
# A rank that names no group, a kind of parameter without its dtype and a digest that is cut short stand for others.
STANDS_FOR_OTHERS = {'{"rank": ""}', '["in buffer", "out buffer", "i32"]', '["out buffer", "in buffer"]',
                     '{"argmax": {"source": "argmax.cubin", "sha256": "2537…"}}',
                     '{"source": "hf:kernels-community/activation/build/.../_activation.abi3.so", '
                     '"sha256": "73748b54..."}'}


def illustrations(node):
    if isinstance(node, dict):
        if isinstance(node.get("description"), str):
            yield from re.findall(r"`([\[{][^`]*)`", node["description"])
        for value in node.values():
            yield from illustrations(value)
    elif isinstance(node, list):
        for value in node:
            yield from illustrations(value)


def main():
    with open(SCHEMA, encoding="utf-8") as file:
        texts = dict.fromkeys(illustrations(json.load(file)))
    failures = tried = 0
    for text in texts:
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            continue
        if text in STANDS_FOR_OTHERS:
            continue
        if text not in PLACES:
            print(f"FAILED: {text} has no place in this test")
            failures += 1
            continue
        tried += 1
        run = subprocess.run([KERN, "verify", "-"], input=json.dumps(PLACES[text](value)), text=True,
                             capture_output=True, check=False)
        if run.returncode != 0:
            print(f"FAILED: {text}\n{run.stderr}")
            failures += 1
    print(f"{tried} illustrations, {failures} failed")
    return failures > 0 or tried < 40


sys.exit(main())
