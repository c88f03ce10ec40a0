# SPDX-License-Identifier: Apache-2.0
"""generate_roles.py KERNELS OUT: manifests of the model of generate_kernels.c, one for each way in
which programs may step sequences, and what follows a few prompts."""

import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))
from manifest import Manifest, call, launch  # noqa: E402

VOCABULARY, CONTEXT, ROWS, SEQS, PROPOSED = 97, 128, 16, 4, 3
INPUTS = ["token", "first", "position", "valid", "slot", "seq_len", "cu_seqlens", "temperature",
          "top_k", "top_p", "min_p", "seed", "fine", "coarse", "lines"]
LOOP = ["in buffer<i32>", "in buffer<i32>", "in buffer<i64>", "in buffer<u8>", "in buffer<i32>",
        "in buffer<i64>", "in buffer<i32>", "in buffer<f32>", "in buffer<i32>", "in buffer<f32>",
        "in buffer<f32>", "in buffer<i64>", "in buffer<i32>", "in buffer<i32>", "in buffer<i32>",
        "inout state", "inout state", "out buffer<i32>", "i32", "i32", "i32", "i32", "i32"]
STATES = [{"state": "kv"}, {"state": "tally"}]


class Model(Manifest):
    """The buffers of the loop; `over_ranks`: the tokens of all members are fed."""

    def __init__(self, name, kernels, out, members=1):
        super().__init__(name, kernels, out / name)
        self.members = members
        self.module("generate_kernels")
        self.var("rows", ROWS, axis="rows")
        self.var("seqs", SEQS, axis="groups")
        self.var("context", CONTEXT)
        if members > 1:
            self.group("tp", members)
            self.var("all", ROWS * members, axis="ranks")
            self.buffer("blocks", "i32", [members + 1], "input", fill="blocks")
            self.op("check_ranks", ["in buffer<i32>", "in buffer<i32>", "i32", "i32", "i32"],
                    [launch("generate_kernels", "check_ranks", [1], 1,
                            params=["in buffer<i32>", "in buffer<i32>", "i32", "i32"],
                            args=[{"param": 0}, {"param": 1}, {"param": 2}, {"param": 3}])])
        self.state("kv", bytes_per_token=8)
        self.state("tally", bytes_per_seq=16)
        ids = {"min": 0, "max": VOCABULARY - 1}
        self.input("token", "i32", ["all" if members > 1 else "rows"], domain=ids)
        self.buffer("first", "i32", ["seqs"], "input", fill="token", domain=ids)
        self.input("position", "i64", ["rows"], domain={"min": 0, "max": CONTEXT - 1})
        self.input("valid", "u8", ["rows"], domain={"min": 0, "max": 1})
        self.input("slot", "i32", ["rows"], domain={"index_into": "kv"})
        self.input("seq_len", "i64", ["seqs"], domain={"min": 1, "max": CONTEXT})
        self.input("cu_seqlens", "i32", [SEQS + 1], domain={"min": 0, "monotone": True})
        for role, dtype in (("temperature", "f32"), ("top_k", "i32"), ("top_p", "f32"),
                            ("min_p", "f32"), ("seed", "i64")):
            self.input(role, dtype, ["seqs"])
        for table, stride in (("fine", 8), ("coarse", 16)):
            self.buffer(table, "i32", ["seqs", CONTEXT // stride], "input",
                        domain={"index_into": "kv", "stride": stride})
        self.buffer("lines", "i32", [2, "seqs"], "input",
                    domain={"index_into": "tally", "stride": 8})
        self.error()

    def input(self, role, dtype, shape, **more):
        self.buffer(role, dtype, shape, "input", fill=role, **more)

    def entry(self, answer, *outputs):
        """An op that serves and hands back outputs of these types."""
        if f"serve_{answer}" not in self.json["ops"]:
            self.op(f"serve_{answer}", [*LOOP, *outputs],
                    [launch("generate_kernels", f"serve_{answer}", [1], 1)])

    def forward(self, name, groups, rows, answer="next", least=1, fixed=False, context=False):
        """A program with a batch. `fixed`: it is laid out for all its sequences."""
        outputs = {"nothing": [], "next": ["tokens"], "proposals": ["proposals", "taken"]}[answer]
        types = {"tokens": "out buffer<i64>", "proposals": "out buffer<i64>",
                 "taken": "out buffer<i32>"}
        self.entry(answer, *(types[output] for output in outputs))
        if "tokens" in outputs:
            self.buffer("tokens", "i64", ["seqs"], "output", fill="tokens")
        if "taken" in outputs:
            self.buffer("proposals", "i64", ["seqs", PROPOSED], "output", fill="tokens")
            self.buffer("taken", "i32", ["seqs"], "output", fill="count")
        form = rows if isinstance(rows, int) else 0
        counts = [{"i32": groups * form}, {"i32": groups}] if fixed else \
            [{"var": "rows"}, {"var": "seqs"}]
        calls = [call(f"serve_{answer}", *INPUTS, *STATES, "error", *counts, {"i32": form},
                      {"i32": least}, {"var": "context"} if context else {"i32": 0}, *outputs)]
        if self.members > 1:
            calls.insert(0, call("check_ranks", "token", "blocks", {"var": "rows"},
                                 {"i32": self.members}, {"rank": "tp"}))
        batch = {"groups": groups, "rows": rows, **({"context": "context"} if context else {})}
        self.program(name, calls, batch=batch, graph=isinstance(rows, int))

    def finish(self):
        if '{"var": "context"}' not in json.dumps(self.json["programs"]):
            del self.json["vars"]["context"]
        self.write()


def follow(prompt, count, offset):
    tokens = list(prompt)
    for _ in range(count):
        total = sum(31 * (p + 1) * token for p, token in enumerate(tokens))
        tokens.append((total + 7 + offset) % VOCABULARY)
    return tokens[len(prompt):]


def main():
    kernels, out = map(pathlib.Path, sys.argv[1:])

    def model(name, *forwards, **more):
        manifest = Model(name, kernels, out, **more)
        for words, options in forwards:
            manifest.forward(*words, **options)
        manifest.finish()

    chunk = (("chunk", 1, "rows"), {"context": True})
    model("bounds", chunk, (("one", 1, 1), {}), (("many", SEQS, 1), {"least": 2}))
    model("steps", (("step", SEQS, 1), {}))
    model("packed", (("packed", SEQS, "rows"), {"context": True}))
    model("fixed", chunk, (("step", SEQS, 1), {"fixed": True}))
    model("silent", (("chunk", 1, "rows"), {"answer": "nothing"}), (("step", SEQS, 1), {}))
    # A chunk that hands back tokens would make the steps too.
    model("rounds", (("chunk", 1, "rows"), {"answer": "nothing", "context": True}),
          (("round", 2, PROPOSED), {"answer": "proposals", "context": True}))
    model("ranks", chunk, (("step", SEQS, 1), {}), members=2)
    # Programs that cannot be driven.
    model("only_rounds", (("round", 2, PROPOSED), {"answer": "proposals"}))

    draw = random.Random(1)
    prompts = [[draw.randrange(VOCABULARY) for _ in range(length)] for length in (5, 1, 40, 17, 16)]
    # top_k 3, top_p 0.5 and min_p 0.25 as generate_kernels.c counts them.
    for name, offset in (("greedy", 0), ("drawn", 3 - 4 + 4)):
        texts = [{"prompt_ids": prompt, "greedy_ids": follow(prompt, 30, offset)}
                 for prompt in prompts]
        (out / f"{name}.json").write_text(json.dumps(texts))


main()
