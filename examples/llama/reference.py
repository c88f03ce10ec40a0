# SPDX-License-Identifier: Apache-2.0
"""The Llama model in double precision, one row at a time: what the kernels are measured against. It
knows no pages, batches or ranks."""

import math
from operator import mul


def dot(a, b):
    return sum(map(mul, a, b))


def product(matrix, row):
    return [dot(weights, row) for weights in matrix]


def silu(x):
    return x / (1 + math.exp(-x))


class Reference:
    def __init__(self, checkpoint):
        self.checkpoint = checkpoint
        self.tensors = {name: checkpoint.rows(name) for name in checkpoint.shapes()}
        self.frequencies = checkpoint.frequencies()

    def weight(self, layer, name):
        return self.tensors[f"model.layers.{layer}.{name}.weight"]

    def norm(self, row, weights):
        scale = 1 / math.sqrt(dot(row, row) / len(row) + self.checkpoint.epsilon)
        return [x * scale * weight for x, weight in zip(row, weights)]

    def turn(self, head, position):
        """Element i of a head turns with element i + half."""
        half = len(head) // 2
        turned = list(head)
        for i, frequency in enumerate(self.frequencies):
            cos, sin = math.cos(position * frequency), math.sin(position * frequency)
            turned[i] = head[i] * cos - head[half + i] * sin
            turned[half + i] = head[half + i] * cos + head[i] * sin
        return turned

    def heads(self, row):
        size = self.checkpoint.head_dim
        return [row[at:at + size] for at in range(0, len(row), size)]

    def attend(self, layer, row, cache):
        """Adds the row to the layer's cache, two lists by key head of keys and of values."""
        keys, values = cache
        position = len(keys[0])
        queries, new_keys, new_values = (
            self.heads(product(self.weight(layer, f"self_attn.{name}_proj"), row))
            for name in "qkv")
        for head, (key, value) in enumerate(zip(new_keys, new_values)):
            keys[head].append(self.turn(key, position))
            values[head].append(value)
        attended = []
        for head, query in enumerate(queries):
            at = head * len(keys) // len(queries)
            query = self.turn(query, position)
            scores = [dot(query, key) / math.sqrt(len(query)) for key in keys[at]]
            weights = [math.exp(score - max(scores)) for score in scores]
            total = sum(weights)
            attended += [dot(weights, column) / total for column in zip(*values[at])]
        return product(self.weight(layer, "self_attn.o_proj"), attended)

    def mlp(self, layer, row):
        gate = product(self.weight(layer, "mlp.gate_proj"), row)
        up = product(self.weight(layer, "mlp.up_proj"), row)
        gated = [silu(g) * u for g, u in zip(gate, up)]
        return product(self.weight(layer, "mlp.down_proj"), gated)

    def logits(self, token, caches):
        """The logits after the next token of the sequence that the caches hold."""
        x = self.tensors["model.embed_tokens.weight"][token]
        for layer, cache in enumerate(caches):
            row = self.norm(x, self.weight(layer, "input_layernorm")[0])
            x = [a + b for a, b in zip(x, self.attend(layer, row, cache))]
            row = self.norm(x, self.weight(layer, "post_attention_layernorm")[0])
            x = [a + b for a, b in zip(x, self.mlp(layer, row))]
        last = self.norm(x, self.tensors["model.norm.weight"][0])
        return product(self.tensors[self.checkpoint.output_layer()], last)

    def greedy(self, prompt, count):
        """The `count` most likely tokens after the prompt, each with the margin of its logit over
        the second-best."""
        kv_heads = self.checkpoint.kv_heads
        caches = [([[] for _ in range(kv_heads)], [[] for _ in range(kv_heads)])
                  for _ in range(self.checkpoint.layers)]
        for token in prompt[:-1]:
            self.logits(token, caches)
        token, ids, margins = prompt[-1], [], []
        for _ in range(count):
            logits = self.logits(token, caches)
            token = max(range(len(logits)), key=logits.__getitem__)
            ids.append(token)
            best, second = sorted(logits, reverse=True)[:2]
            margins.append(round(best - second, 4))
        return ids, margins
