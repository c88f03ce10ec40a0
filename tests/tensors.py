#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Safetensors files for the system tests, with the Python standard library alone.

    tensors.py show FILE TENSOR                 dtype, shape and values on one line
    tensors.py same TENSOR FILE… -- FILE…       are the rows of both lists, end to end, equal bytes?
    tensors.py range TENSOR LOW HIGH FILE…      is every f32 inside, and are they not all equal?
    tensors.py make OUT TENSOR DTYPE VALUE…     a file with one tensor of one axis
    tensors.py change FILE OUT KEY=VALUE…       a copy with one thing changed:
        value=TENSOR:INDEX:NUMBER   an element        name=TENSOR:NEW     a tensor's name
        shape=TENSOR:N,N            its shape         dtype=TENSOR:DTYPE  its dtype, as written
        length=BYTES                the file, cut short
"""

import json
import pathlib
import struct
import sys

CODES = {"F32": "f", "I32": "i", "U32": "I", "I64": "q", "BF16": "H"}


def read(path):
    """The header and the data of a file."""
    raw = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8:8 + length]), raw[8 + length:]


def write(path, header, data):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def bytes_of(path, name):
    header, data = read(path)
    begin, end = header[name]["data_offsets"]
    return data[begin:end]


def values_of(path, name):
    code = CODES[read(path)[0][name]["dtype"]]
    raw = bytes_of(path, name)
    return struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw)


def show(path, name):
    tensor = read(path)[0][name]
    print(tensor["dtype"], tensor["shape"], *values_of(path, name))
    return True


def make(path, name, dtype, *values):
    code = CODES[dtype]
    data = struct.pack(f"<{len(values)}{code}", *(float(v) if code == "f" else int(v) for v in values))
    write(path, {name: {"dtype": dtype, "shape": [len(values)], "data_offsets": [0, len(data)]}}, data)
    return True


def same(name, *files):
    at = files.index("--")
    left, right = (b"".join(bytes_of(path, name) for path in part) for part in (files[:at], files[at + 1:]))
    print(f"{len(left)} and {len(right)} bytes of {name}")
    return left == right and len(left) > 0


def in_range(name, low, high, *files):
    values = [value for path in files for value in values_of(path, name)]
    print(f"{len(values)} values from {min(values)} to {max(values)}")
    return float(low) <= min(values) < max(values) <= float(high)


def change(path, out, what):
    header, data = read(path)
    key, _, rest = what.partition("=")
    if key == "length":
        pathlib.Path(out).write_bytes(pathlib.Path(path).read_bytes()[:int(rest)])
        return True
    name, *rest = rest.split(":")
    if key == "value":
        code = CODES[header[name]["dtype"]]
        number = float(rest[1]) if code == "f" else int(rest[1])
        at = header[name]["data_offsets"][0] + int(rest[0]) * struct.calcsize(code)
        data = bytearray(data)
        struct.pack_into("<" + code, data, at, number)
    elif key == "name":
        header[rest[0]] = header.pop(name)
    elif key == "shape":
        header[name]["shape"] = [int(extent) for extent in rest[0].split(",")]
    elif key == "dtype":
        header[name]["dtype"] = rest[0]
    else:
        return False
    write(out, header, bytes(data))
    return True


commands = {"show": show, "same": same, "make": make, "range": in_range, "change": change}
sys.exit(0 if commands[sys.argv[1]](*sys.argv[2:]) else 1)
