# SPDX-License-Identifier: Apache-2.0
"""kernels_llama.py EXAMPLES CHECKPOINT

The manifests EXAMPLES/tp* on the host halves of their kernels: the prompts of the checkpoint's
reference.json in chunks, all decoded together in steps, against the reference's greedy tokens.

The tokens that are fed are always the reference's, so each step is compared by itself; one may
differ where the reference's margin is so narrow that bf16 activations decide otherwise."""

import json
import pathlib
import random
import struct
import sys
import time

from kernels_host import Example

NARROW = 0.1


class Sequence:
    """A prompt with what is to follow it, and the pages that it lies in."""

    def __init__(self, text, pages, page_tokens):
        self.prompt, self.follow = text["prompt_ids"], text["greedy_ids"]
        self.margins = text["margins"]
        self.ids = self.prompt + self.follow
        self.pages, self.page_tokens = pages, page_tokens

    def slot(self, position):
        return self.pages[position // self.page_tokens] * self.page_tokens + \
            position % self.page_tokens


def run(example, rank, program, rows):
    """Runs a program over `rows`, a list of (sequence, positions), and returns its tokens."""
    places = [(sequence, at) for sequence, positions in rows for at in positions]
    width = example.eval("PAGES", {})
    ints = {
        "token": [sequence.ids[at] for sequence, at in places],
        "position": [at for _, at in places],
        "slot": [sequence.slot(at) for sequence, at in places],
        "seq_len": [positions[-1] + 1 for _, positions in rows],
        # Entries past a sequence's pages repeat its first.
        "pages": [page for sequence, _ in rows
                  for page in (sequence.pages + sequence.pages[:1] * width)[:width]],
    }
    for name, values in ints.items():
        example.write(rank, name, struct.pack(f"<{len(values)}i", *values))
    values = {"rows": len(places), "seqs": len(rows)}
    assert example.run(program, rank, values), f"{program} trapped"
    if "error" in example.model["buffers"]:
        assert example.read(rank, "error") == bytes(4), "an all-reduce missed a rank"
    return struct.unpack(f"<{len(rows)}i", example.read(rank, "tokens")[:4 * len(rows)])


def check(directory, checkpoint):
    texts = json.loads((checkpoint / "reference.json").read_text())
    model = json.loads((directory / "model.json").read_text())
    constants = model["constants"]
    page_tokens, max_rows = constants["PAGE_TOKENS"], model["vars"]["rows"]["max"]
    needed = [-(-len(text["prompt_ids"] + text["greedy_ids"]) // page_tokens) for text in texts]
    free = list(range(sum(needed) + 3))
    random.Random(1).shuffle(free)
    sequences = [Sequence(text, [free.pop() for _ in range(count)], page_tokens)
                 for text, count in zip(texts, needed)]
    example = Example(directory, weights=checkpoint / "model.safetensors",
                      capacity=(sum(needed) + 3) * page_tokens)

    def work(rank):
        assert example.run("rope", rank, {name: 1 for name in example.vars})
        differing = []

        def compare(sequence, step, token):
            if token != sequence.follow[step]:
                differing.append(sequence.margins[step])

        for number, sequence in enumerate(sequences):
            # Chunks of other sizes for each prompt, the last one of what is left.
            size = max_rows - 13 * number % max_rows
            for first in range(0, len(sequence.prompt), size):
                end = min(first + size, len(sequence.prompt))
                (token,) = run(example, rank, "chunk", [(sequence, range(first, end))])
            compare(sequence, 0, token)
        most = model["programs"]["step"]["batch"]["groups"]
        for step in range(1, max(len(sequence.follow) for sequence in sequences)):
            live = [sequence for sequence in sequences if step < len(sequence.follow)]
            for first in range(0, len(live), most):
                batch = live[first:first + most]
                rows = []
                for sequence in batch:
                    at = len(sequence.prompt) + step - 1
                    rows.append((sequence, range(at, at + 1)))
                for sequence, token in zip(batch, run(example, rank, "step", rows)):
                    compare(sequence, step, token)
        if max(differing, default=0) >= NARROW:
            return f"tokens differ where the margin is {sorted(differing)}"
        if rank == 0:
            total = sum(len(sequence.follow) for sequence in sequences)
            print(f"{directory.parent.name}/{directory.name}: {total - len(differing)} of {total} "
                  f"tokens as in double precision, others at margins {sorted(differing)}, "
                  f"{time.monotonic() - began:.1f} s", flush=True)
        return None

    began = time.monotonic()
    example.on_ranks(range(example.ranks), work, seconds=200)


def main():
    examples, checkpoint = map(pathlib.Path, sys.argv[1:])
    directories = sorted(path.parent for path in examples.glob("tp*/model.json"))
    assert directories, f"there is nothing in {examples}"
    for directory in directories:
        check(directory, checkpoint)


main()
