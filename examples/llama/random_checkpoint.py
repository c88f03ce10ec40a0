#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small Llama checkpoint of random weights, and what a double-precision model says after a few
prompts (reference.json: prompt_ids, greedy_ids, margins). The same seed gives the same files."""

import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from checkpoint import Checkpoint  # noqa: E402
from manifest import Tensor, write_safetensors  # noqa: E402
from reference import Reference  # noqa: E402

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 96,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
# One token, part of a page, a few pages, and more rows than a chunk has.
PROMPT_LENGTHS = (1, 5, 37, 90)
STEPS = 24


def spread(name, shape):
    """Weights lie between middle - width and middle + width: norms around one, attention sharper
    and logits wider than a trained model's beginnings, so that few margins are narrow."""
    if len(shape) == 1:
        return 1.0, 0.5
    if name == "model.embed_tokens.weight":
        return 0.0, 1.7
    gain = 5 if name == "lm_head.weight" else 2.5 if "q_proj" in name or "k_proj" in name else 1.7
    return 0.0, gain / shape[1] ** 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path, help="directory to write to")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")

    rng = random.Random(args.seed)
    tensors = {}
    for name, shape in sorted(Checkpoint(args.out).shapes().items()):
        middle, width = spread(name, shape)
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [middle + width * rng.uniform(-1, 1) for _ in range(count)]
        tensors[name] = Tensor("bf16", shape, values)
    write_safetensors(args.out / "model.safetensors", tensors)

    reference, texts = Reference(Checkpoint(args.out)), []
    for length in PROMPT_LENGTHS:
        prompt = [rng.randrange(CONFIG["vocab_size"]) for _ in range(length)]
        ids, margins = reference.greedy(prompt, STEPS)
        texts.append({"prompt_ids": prompt, "greedy_ids": ids, "margins": margins})
    (args.out / "reference.json").write_text(json.dumps(texts) + "\n")


main()
