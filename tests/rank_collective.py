#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a manifest with every collective of NCCL over two groups that overlap, and the inputs and
expected outputs of each rank: rank_collective.py RANKS DIRECTORY.

Values are small whole numbers, so sums are exact in every type (u8 wraps, as it does on a GPU).
"""

import json
import pathlib
import struct
import sys

RANKS, OUT = int(sys.argv[1]), pathlib.Path(sys.argv[2])
GROUPS = {"all": RANKS, "pair": 2}

# Elements of one member. Odd, and those of f32 are more than NCCL sends in one piece.
COUNTS = {"f32": 70001, "bf16": 1003, "i32": 517, "u8": 4099}
STORED = {"f32": ("F32", "f"), "bf16": ("BF16", "H"), "i32": ("I32", "i"), "u8": ("U8", "B")}


class Case:
    """One collective: its name, what it is called with, and what each rank sends and receives."""

    def __init__(self, number, collective, dtype, group, in_place=False):
        self.number, self.collective, self.dtype, self.group = number, collective, dtype, group
        self.in_place = in_place
        self.count = COUNTS[dtype]
        self.name = f"{collective}_{dtype}_{group}" + ("_in_place" if in_place else "")
        self.sends = self.count * (GROUPS[group] if collective == "reducescatter" else 1)

    def sent(self, rank):
        low, span = (0, 200) if self.dtype == "u8" else (-15, 31)
        first = 13 * rank + 5 * self.number
        return [low + (7 * i + first) % span for i in range(self.sends)]

    def received(self, rank):
        size = GROUPS[self.group]
        members = range(rank // size * size, rank // size * size + size)
        if self.collective == "allgather":
            return [value for member in members for value in self.sent(member)]
        sums = [sum(values) for values in zip(*map(self.sent, members))]
        if self.dtype == "u8":
            sums = [value % 256 for value in sums]
        if self.collective == "reducescatter":
            index = rank - members[0]
            return sums[index * self.count:(index + 1) * self.count]
        return sums

    def shape(self, values):
        """Rows of members where there are several; the rows of i32 are as long as var n says."""
        rows = values // self.count
        count = "n" if self.dtype == "i32" else self.count
        return [count] if rows == 1 else [rows, count]


def cases():
    wanted = [(collective, dtype, group, False)
              for collective in ("allreduce", "allgather", "reducescatter")
              for dtype in COUNTS for group in GROUPS]
    wanted += [("allreduce", dtype, "all", True) for dtype in COUNTS]
    return [Case(number, *arguments) for number, arguments in enumerate(wanted)]


def op_name(case):
    return f"{case.collective}_{case.dtype}" + ("_in_place" if case.in_place else "")


def declare(manifest, case):
    receives = case.count * (GROUPS[case.group] if case.collective == "allgather" else 1)
    buffers = manifest["buffers"]
    send = f"{case.name}_send"
    recv = send if case.in_place else f"{case.name}_recv"
    buffers[send] = {"dtype": case.dtype, "shape": case.shape(case.sends),
                     "kind": "inout" if case.in_place else "input"}
    if case.dtype in ("i32", "u8"):
        buffers[send]["domain"] = {"min": -15, "max": 200}
    if not case.in_place:
        buffers[recv] = {"dtype": case.dtype, "shape": case.shape(receives), "kind": "output"}
    manifest["ops"][op_name(case)] = {
        "params": [f"in buffer<{case.dtype}>",
                   f"{'inout' if case.in_place else 'out'} buffer<{case.dtype}>", "i32", "i32"],
        "impl": {"launches": [{"entry": f"extern:nccl_{case.collective}_{case.dtype}"}]},
    }
    count = {"var": "n"} if case.dtype == "i32" else {"i32": case.count}
    return {"label": case.name, "op": op_name(case),
            "args": [{"buf": send}, {"buf": recv}, count, {"rank": case.group}]}


def save(path, tensors):
    header, blobs, at = {}, [], 0
    for name, (case, values) in sorted(tensors.items()):
        stored, code = STORED[case.dtype]
        if case.dtype == "bf16":
            values = [struct.unpack("<I", struct.pack("<f", value))[0] >> 16 for value in values]
        blob = struct.pack(f"<{len(values)}{code}", *values)
        shape = [case.count if extent == "n" else extent for extent in case.shape(len(values))]
        header[name] = {"dtype": stored, "shape": shape, "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def main():
    everything = cases()
    manifest = {"schema_version": 7, "model": "collectives", "modules": {},
                "topology": {"groups": GROUPS}, "vars": {"n": {"max": COUNTS["i32"]}},
                "buffers": {}, "ops": {}}
    manifest["programs"] = {"step": {"calls": [declare(manifest, case) for case in everything]}}
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "model.json").write_text(json.dumps(manifest, indent=1))
    for rank in range(RANKS):
        save(OUT / f"inputs-{rank}.safetensors",
             {f"{case.name}_send": (case, case.sent(rank)) for case in everything})
        save(OUT / f"expected-{rank}.safetensors",
             {f"{case.name}_{'send' if case.in_place else 'recv'}": (case, case.received(rank))
              for case in everything})


main()
