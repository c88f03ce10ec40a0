# SPDX-License-Identifier: Apache-2.0
"""What the generators of the examples share: manifests, safetensors files and rounding to f32 and
bf16, with the Python standard library alone."""

import argparse
import hashlib
import json
import pathlib
import shutil
import struct
import sys
from array import array

TIMEOUT_NS = 10_000_000_000

# safetensors name of a manifest dtype, array type code of its elements as stored.
STORED = {"f32": ("F32", "f"), "bf16": ("BF16", "H"), "i32": ("I32", "i"), "u32": ("U32", "I")}


def f32(value):
    """The nearest f32, as a float."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bf16_bits(value):
    """The nearest bf16 of a finite f32, as its 16 bits; ties go to even."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF


def bf16(value):
    """The nearest bf16 of an f32, as a float."""
    return struct.unpack("<f", struct.pack("<I", bf16_bits(value) << 16))[0]


class Tensor:
    """A dtype, a shape and a flat list of numbers in row-major order."""

    def __init__(self, dtype, shape, values):
        size = 1
        for extent in shape:
            size *= extent
        assert size == len(values), f"{shape} holds {size} elements, not {len(values)}"
        self.dtype, self.shape, self.values = dtype, shape, values

    def data(self):
        stored = map(bf16_bits, self.values) if self.dtype == "bf16" else self.values
        elements = array(STORED[self.dtype][1], stored)
        if struct.pack("=H", 1) != struct.pack("<H", 1):
            elements.byteswap()
        return elements.tobytes()


def write_safetensors(path, tensors):
    """Writes {name: Tensor}: u64 header length, JSON header, data in the order of the names."""
    header, blobs, at = {}, [], 0
    for name in sorted(tensors):
        tensor = tensors[name]
        blob = tensor.data()
        header[name] = {
            "dtype": STORED[tensor.dtype][0],
            "shape": tensor.shape,
            "data_offsets": [at, at + len(blob)],
        }
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_safetensors(path):
    """{name: Tensor} of a file; a bf16 tensor has its bits as values."""
    data = path.read_bytes()
    length = struct.unpack_from("<Q", data)[0]
    dtypes = {stored: dtype for dtype, (stored, _) in STORED.items()}
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        dtype = dtypes[entry["dtype"]]
        values = array(STORED[dtype][1], data[begin:end])
        if struct.pack("=H", 1) != struct.pack("<H", 1):
            values.byteswap()
        tensors[name] = Tensor(dtype, entry["shape"], values.tolist())
    return tensors


class Manifest:
    """A manifest that grows by declarations. Artifacts are copied beside it."""

    def __init__(self, model, kernels, out):
        self.kernels, self.out = pathlib.Path(kernels), pathlib.Path(out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.json = {
            "schema_version": 7,
            "model": model,
            "constants": {},
            "vars": {},
            "topology": {"groups": {}},
            "states": {},
            "buffers": {},
            "modules": {},
            "ops": {},
            "programs": {},
        }

    def constant(self, name, value):
        self.json["constants"][name] = value

    def var(self, name, maximum, **more):
        self.json["vars"][name] = {"max": maximum, **more}

    def group(self, name, size):
        self.json["topology"]["groups"][name] = size

    def state(self, name, **size):
        self.json["states"][name] = size

    def module(self, name):
        artifact = self.out / f"{name}.so"
        built = self.kernels / artifact.name
        require(built.is_file(), f"there is no {built}; --kernels is the directory of the built "
                                 "kernels, build/kernels after ./dev build")
        shutil.copyfile(built, artifact)
        digest = hashlib.sha256(artifact.read_bytes()).hexdigest()
        self.json["modules"][name] = {"source": artifact.name, "sha256": digest}

    def buffer(self, name, dtype, shape, kind, **more):
        self.json["buffers"][name] = {"dtype": dtype, "shape": shape, "kind": kind, **more}

    def exported(self, name, dtype, shape, group):
        """A carry that the group's ranks write to, and `NAME_peers` with everybody's address."""
        self.buffer(name, dtype, shape, "carry", export=True)
        size = self.json["topology"]["groups"][group]
        self.buffer(f"{name}_peers", "u64", [size], "peer", of=name, group=group)

    def error(self, name="error"):
        self.buffer(name, "i32", [1], "output", fill="error")

    def op(self, name, params, launches):
        self.json["ops"][name] = {"params": params, "impl": {"launches": launches}}

    def program(self, name, calls, **more):
        self.json["programs"][name] = {**more, "calls": calls}

    def write(self, name="model.json"):
        empty = ({}, {"groups": {}})
        kept = {key: value for key, value in self.json.items() if value not in empty}
        (self.out / name).write_text(json.dumps(kept, indent=1) + "\n")


def write_stages(manifests):
    """Writes the stages of a pipeline, in their order, as stage0.json and on."""
    text = json.dumps([manifest.json for manifest in manifests], sort_keys=True)
    identity = hashlib.sha256(text.encode()).hexdigest()[:16]
    for stage, manifest in enumerate(manifests):
        manifest.json["cut"] = {"id": identity, "stage": stage, "stages": len(manifests)}
        manifest.write(f"stage{stage}.json")


def launch(module, entry, grid, block, **more):
    where = {"grid": [*grid, 1, 1][:3], "block": [block, 1, 1]}
    return {"module": module, "entry": entry, **where, **more}


def forward(*params):
    """Launch args that hand on these params of the op, in this order."""
    return [{"param": param} for param in params]


def call(op, *args, label=None):
    """A call whose args are buffer names or argument objects."""
    bound = [{"buf": arg} if isinstance(arg, str) else arg for arg in args]
    return {**({"label": label} if label else {}), "op": op, "args": bound}


def add_barrier(manifest, group, error="error"):
    """Declares the group's barrier and returns the call that runs it."""
    size = manifest.json["topology"]["groups"][group]
    manifest.module("peer_barrier")
    manifest.exported("barrier_flags", "u32", [size], group)
    manifest.buffer("barrier_epoch", "u32", [1], "carry")
    manifest.op(
        "barrier",
        ["inout buffer<u32>", "in buffer<u64>", "inout buffer<u32>", "out buffer<i32>",
         "i32", "i32", "i64"],
        [launch("peer_barrier", "peer_barrier", [1], 32)],
    )
    return call(
        "barrier", "barrier_flags", "barrier_flags_peers", "barrier_epoch", error,
        {"rank": group}, {"i32": size}, {"i64": TIMEOUT_NS},
    )


def require(condition, what_is_right):
    if not condition:
        sys.exit(f"generate.py: {what_is_right}")


def arguments(description, **options):
    """--kernels, --out and an integer option per keyword, whose value is its default or None."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--kernels", required=True, help="directory of the built kernels (*.so)")
    parser.add_argument("--out", required=True, help="directory to write model.json and data to")
    for name, default in options.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default,
                            help="optional" if default is None else f"default {default}")
    parsed = parser.parse_args()
    for name in options:
        value, option = getattr(parsed, name), name.replace("_", "-")
        sound = name == "seed" or value is None or value >= 1
        require(sound, f"--{option} is at least 1, not {value}")
    return parsed
