# SPDX-License-Identifier: Apache-2.0
"""The host half of kernel artifacts, through ctypes, and just enough of a runtime to run a manifest
of examples/ on it: every rank a process, all memory shared before the ranks are forked. It exists
to test the kernels and the manifests without the runtime that they are made for."""

import ctypes
import json
import mmap
import multiprocessing
import os
import pathlib
import random
import signal
import struct
import time
from array import array
from operator import mul

SIZES = {"bf16": 2, "f32": 4, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "u8": 1}
STORED = {"BF16": "bf16", "F32": "f32", "I32": "i32"}


class Grid(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3),
                ("cluster", ctypes.c_uint32 * 3), ("dynamic_shared", ctypes.c_uint32)]


class Param(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_uint32), ("size", ctypes.c_uint32)]


RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Grid), ctypes.c_uint64, ctypes.c_uint64,
                       ctypes.POINTER(ctypes.c_void_p))


class Entry(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("run", RUN), ("params", ctypes.POINTER(Param)),
                ("n_params", ctypes.c_uint32), ("static_shared", ctypes.c_uint32)]

    def layout(self):
        return [(self.params[i].offset, self.params[i].size) for i in range(self.n_params)]

    def launch(self, grid, block, shared, values):
        """`values`: the bytes of each parameter. Returns what the kernel's host half returns."""
        sizes = [size for _, size in self.layout()]
        assert [len(value) for value in values] == sizes, (self.name, sizes, list(map(len, values)))
        buffers = [ctypes.create_string_buffer(value, len(value)) for value in values]
        args = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
        where = Grid((ctypes.c_uint32 * 3)(*grid), (ctypes.c_uint32 * 3)(*block),
                     (ctypes.c_uint32 * 3)(1, 1, 1), shared)
        return self.run(ctypes.byref(where), 0, grid[0] * grid[1] * grid[2], args)


class HostModule(ctypes.Structure):
    _fields_ = [("abi", ctypes.c_uint32), ("n_entries", ctypes.c_uint32),
                ("entries", ctypes.POINTER(Entry))]


def load_entries(path):
    module = HostModule.in_dll(ctypes.CDLL(str(path)), "kern_host_module")
    assert module.abi == 1, f"{path}: ABI {module.abi}"
    return {module.entries[i].name.decode(): module.entries[i] for i in range(module.n_entries)}


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}"""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    body = data[8 + length:]
    return {name: (STORED[t["dtype"]], t["shape"], body[slice(*t["data_offsets"])])
            for name, t in header.items() if name != "__metadata__"}


def rows_at(address, rows, columns):
    """The floats of a bf16 matrix in memory."""
    halves = struct.unpack(f"<{rows * columns}H", ctypes.string_at(address, 2 * rows * columns))
    words = struct.pack(f"<{len(halves)}I", *(half << 16 for half in halves))
    values = struct.unpack(f"<{len(halves)}f", words)
    return [values[at:at + columns] for at in range(0, len(values), columns)]


def f32_bytes(values):
    return array("f", values).tobytes()


def bf16_bytes(values):
    """Rounded to nearest, ties to even."""
    words = array("I")
    words.frombytes(f32_bytes(values))
    return array("H", ((word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in words)).tobytes()


def product(numbers):
    total = 1
    for number in numbers:
        total *= number
    return total


class Example:
    """A directory that a generator of examples/ wrote. `patch` may change the manifest first,
    `weights` names a file other than the directory's own, paged states hold `capacity` tokens."""

    def __init__(self, directory, patch=None, weights=None, capacity=0):
        self.directory = pathlib.Path(directory)
        self.weights = pathlib.Path(weights or self.directory / "weights.safetensors")
        self.capacity = capacity
        self.model = json.loads((self.directory / "model.json").read_text())
        if patch:
            patch(self.model)
        self.constants = self.model.get("constants", {})
        self.groups = self.model.get("topology", {}).get("groups", {})
        assert len(self.groups) <= 1, "this runtime knows one group, of all ranks"
        self.ranks = max(self.groups.values(), default=1)
        self.vars = {name: var["max"] for name, var in self.model.get("vars", {}).items()}
        self.entries = {name: load_entries(self.directory / module["source"])
                        for name, module in self.model["modules"].items()}
        self._allocate()
        self._bind()
        self.meeting = multiprocessing.Barrier(self.ranks)
        self.matrices = {}

    def _allocate(self):
        self.sizes = {name: product(self.eval(dim, self.vars) for dim in buffer["shape"]) *
                      SIZES[buffer["dtype"]] for name, buffer in self.model["buffers"].items()}
        for name, state in self.model.get("states", {}).items():
            assert name not in self.sizes, f"{name} is a buffer and a state"
            self.sizes[name] = self.eval(state["bytes_per_token"], {}) * self.capacity
        places, at = {}, 0
        for rank in range(self.ranks):
            for name, size in self.sizes.items():
                places[rank, name] = at
                at += (size + 255) // 256 * 256
        self.bytes_per_rank = at // self.ranks
        self.memory = mmap.mmap(-1, at)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.address = {key: base + place for key, place in places.items()}

    def _bind(self):
        tensors = read_safetensors(self.weights) if self.weights.exists() else {}
        for name, buffer in self.model["buffers"].items():
            for rank in range(self.ranks):
                if buffer["kind"] == "peer":
                    peers = [self.address[peer, buffer["of"]] for peer in range(self.ranks)]
                    self.write(rank, name, struct.pack(f"<{self.ranks}Q", *peers))
                elif buffer["kind"] == "weight":
                    data = b"".join(self._segment(segment, tensors, rank, buffer["dtype"])
                                    for segment in buffer["bind"])
                    assert len(data) == self.sizes[name], name
                    self.write(rank, name, data)

    def _segment(self, segment, tensors, rank, dtype):
        source = segment["tensor"]
        name = source if isinstance(source, str) else source["tensors"][rank]
        stored, shape, data = tensors[name]
        assert stored == dtype, segment
        row = len(data) // shape[0]
        if "rows" in segment:
            first, end = segment["rows"]["ranges"][rank]
            return data[first * row:end * row]
        if "cols" in segment:
            first, end = (column * SIZES[dtype] for column in segment["cols"]["ranges"][rank])
            return b"".join(data[at + first:at + end] for at in range(0, len(data), row))
        return data

    def eval(self, expr, values):
        if isinstance(expr, int):
            return expr
        if isinstance(expr, str):
            return self.constants[expr] if expr in self.constants else values[expr]
        ((operator, operands),) = expr.items()
        a, b = (self.eval(operand, values) for operand in operands)
        if operator == "ceil_div":
            return -(-a // b)
        return {"mul": a * b, "add": a + b}[operator]

    def write(self, rank, name, data):
        assert len(data) <= self.sizes[name], name
        ctypes.memmove(self.address[rank, name], data, len(data))

    def read(self, rank, name):
        return ctypes.string_at(self.address[rank, name], self.sizes[name])

    def _scalar(self, kind, arg, rank, values):
        ((form, value),) = arg.items()
        if form == "rank":
            value = rank
        elif form == "var":
            value = values[value]
        elif form in ("expr", kind):
            value = self.constants.get(value, value) if kind == "f32" else self.eval(value, values)
        else:
            raise AssertionError(f"{arg} for {kind}")
        return struct.pack({"i32": "<i", "i64": "<q", "f32": "<f"}[kind], value)

    def _argument(self, param, arg, rank, values):
        if param.endswith(" state"):
            return struct.pack("<Q", self.address[rank, arg["state"]] + arg.get("offset", 0))
        if "buffer" not in param:
            return self._scalar(param, arg, rank, values)
        buffer = self.model["buffers"][arg["buf"]]
        assert param.endswith(f"buffer<{buffer['dtype']}>"), (param, arg)
        return struct.pack("<Q", self.address[rank, arg["buf"]] + arg.get("offset", 0))

    def run(self, program, rank, values):
        """Runs a program as one rank. False: a kernel trapped."""
        for call in self.model["programs"][program]["calls"]:
            op = self.model["ops"][call["op"]]
            assert len(op["params"]) == len(call["args"]), call["op"]
            for launch in op["impl"]["launches"]:
                params = launch.get("params", op["params"])
                forwarded = launch.get("args", [{"param": i} for i in range(len(op["params"]))])
                assert len(params) == len(forwarded), launch["entry"]
                bound = [self._argument(param, call["args"][arg["param"]], rank, values)
                         for param, arg in zip(params, forwarded)]
                if "module" not in launch:
                    self._builtin(launch["entry"], bound, rank)
                    continue
                grid = [self.eval(extent, values) for extent in launch["grid"]]
                entry = self.entries[launch["module"]][launch["entry"]]
                if entry.launch(grid, launch["block"], launch.get("shared_mem", 0), bound) != 0:
                    return False
        return True

    def _builtin(self, entry, bound, rank):
        """The built-in launches that examples use. bf16 rows are multiplied in double precision."""
        numbers = [int.from_bytes(value, "little") for value in bound]
        if entry == "extern:nccl_allreduce_bf16":
            self._allreduce(*numbers[:3], rank)
            return
        a, w, c, m, n, k = numbers
        if w not in self.matrices:
            self.matrices[w] = rows_at(w, n, k)
        stored = {"extern:cublaslt_bf16_tn": bf16_bytes, "extern:cublas_bf16_tn_f32": f32_bytes}
        data = stored[entry](sum(map(mul, row, weights))
                             for row in rows_at(a, m, k) for weights in self.matrices[w])
        ctypes.memmove(c, data, len(data))

    def _allreduce(self, send, receive, count, rank):
        """Every rank's memory is laid out the same way, and all of it is shared."""
        self.meeting.wait(timeout=60)
        pieces = [rows_at(send + (peer - rank) * self.bytes_per_rank, 1, count)[0]
                  for peer in range(self.ranks)]
        self.meeting.wait(timeout=60)
        ctypes.memmove(receive, bf16_bytes(map(sum, zip(*pieces))), 2 * count)

    def on_ranks(self, ranks, work, seconds=60):
        """Runs work(rank) in a process per rank, all at once; it returns None or what is wrong."""
        children = {}
        for rank in ranks:
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    random.seed(rank)
                    wrong = work(rank)
                    if wrong:
                        print(f"rank {rank}: {wrong}", flush=True)
                    code = 1 if wrong else 0
                except BaseException as error:  # the child must not run the parent's code
                    print(f"rank {rank}: {error!r}", flush=True)
                finally:
                    os._exit(code)
            children[pid] = rank
        deadline, failed = time.monotonic() + seconds, []
        while children and time.monotonic() < deadline:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                time.sleep(0.002)
            elif status != 0:
                failed.append(children.pop(pid))
            else:
                children.pop(pid)
        for pid, rank in children.items():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            failed.append(rank)
        assert not failed, f"{self.directory.name}: ranks {sorted(failed)} failed or hung"
