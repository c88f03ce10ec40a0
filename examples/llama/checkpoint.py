# SPDX-License-Identifier: Apache-2.0
"""A Llama checkpoint in the layout of Hugging Face: config.json and safetensors files."""

import json
import pathlib
import struct
from array import array


class Checkpoint:
    """What a directory holds: the sizes of the model, and a header entry per tensor."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        config = json.loads((self.directory / "config.json").read_text())
        self.config = config
        self.hidden = config["hidden_size"]
        self.inner = config["intermediate_size"]
        self.layers = config["num_hidden_layers"]
        self.heads = config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads") or self.heads
        self.head_dim = config.get("head_dim") or self.hidden // self.heads
        self.vocabulary = config["vocab_size"]
        self.positions = config["max_position_embeddings"]
        self.epsilon = config["rms_norm_eps"]
        # Newer files have the keys of rotary positions in an object of their own.
        rope = config.get("rope_parameters") or {}
        self.theta = config.get("rope_theta") or rope.get("rope_theta") or 10000.0
        self.tensors = {}
        for path in sorted(self.directory.glob("*.safetensors")):
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            for name, entry in header.items():
                begin, end = entry["data_offsets"]
                place = (path, 8 + length + begin, end - begin)
                self.tensors[name] = (entry["dtype"], entry["shape"], place)

    def frequencies(self):
        """Radians per position of each pair of a head's elements."""
        return [self.theta ** (-2 * i / self.head_dim) for i in range(self.head_dim // 2)]

    def output_layer(self):
        """The tensor that makes logits of the last hidden row."""
        tied = self.config.get("tie_word_embeddings", False)
        return "model.embed_tokens.weight" if tied else "lm_head.weight"

    def shapes(self):
        """The tensors of the model and their shapes."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        layer = {
            "input_layernorm": [self.hidden],
            "self_attn.q_proj": [queries, self.hidden],
            "self_attn.k_proj": [keys, self.hidden],
            "self_attn.v_proj": [keys, self.hidden],
            "self_attn.o_proj": [self.hidden, queries],
            "post_attention_layernorm": [self.hidden],
            "mlp.gate_proj": [self.inner, self.hidden],
            "mlp.up_proj": [self.inner, self.hidden],
            "mlp.down_proj": [self.hidden, self.inner],
        }
        shapes = {
            "model.embed_tokens.weight": [self.vocabulary, self.hidden],
            "model.norm.weight": [self.hidden],
            self.output_layer(): [self.vocabulary, self.hidden],
        }
        for i in range(self.layers):
            shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
        return shapes

    def wrong(self):
        """What makes this no checkpoint of the plain Llama architecture in bf16, or None."""
        config = self.config
        for key, right in (("hidden_act", "silu"), ("attention_bias", False), ("mlp_bias", False)):
            if config.get(key, right) != right:
                return f"config.json: {key} is {config[key]!r}, not {right!r}"
        # Others have tensors of the same names and shapes, and compute other things with them.
        for architecture in config.get("architectures") or []:
            if architecture not in ("LlamaForCausalLM", "MistralForCausalLM"):
                return f"config.json: {architecture} is not LlamaForCausalLM"
        if config.get("sliding_window") is not None:
            return f"config.json: sliding_window is {config['sliding_window']!r}, not null"
        for rope in (config, config.get("rope_scaling") or {}, config.get("rope_parameters") or {}):
            if rope.get("rope_type", rope.get("type", "default")) != "default":
                return "config.json: scaled rotary positions are not supported"
            if rope.get("partial_rotary_factor") not in (None, 1):
                return "config.json: rotary positions of a part of the head are not supported"
        return self.wrong_tensor()

    def wrong_tensor(self):
        """What is wrong with the tensors, those that no Llama has among them, or None."""
        shapes = self.shapes()
        for name in self.tensors:
            # Frequencies follow from rope_theta, and a tied output layer is the embedding.
            unused = name.endswith(".rotary_emb.inv_freq") or name == "lm_head.weight"
            if name not in shapes and not unused:
                return f"there is a tensor {name}, of which the architecture knows nothing"
        for name, shape in shapes.items():
            if name not in self.tensors:
                return f"there is no tensor {name}"
            dtype, found, _ = self.tensors[name]
            if dtype != "BF16" or found != shape:
                return f"{name} is {dtype} {found}, not BF16 {shape}"
        return None

    def rows(self, name):
        """A bf16 tensor as lists of floats, one per row; a vector is one row."""
        _, shape, (path, begin, size) = self.tensors[name]
        with path.open("rb") as file:
            file.seek(begin)
            halves = array("H", file.read(size))
        if struct.pack("=H", 1) != struct.pack("<H", 1):
            halves.byteswap()
        words = array("I", (half << 16 for half in halves))
        values = struct.unpack(f"={len(words)}f", words.tobytes())
        return [list(values[at:at + shape[-1]]) for at in range(0, len(values), shape[-1])]
