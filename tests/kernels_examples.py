# SPDX-License-Identifier: Apache-2.0
"""kernels_examples.py EXAMPLES: runs what the generators wrote on the host halves of the kernels,
one process per rank, with ranks that dawdle, and compares with the expected outputs."""

import pathlib
import random
import struct
import sys
import time
from array import array

from kernels_host import SIZES, Example, read_safetensors

# The last step is not a small one (see below), so its outputs are whole.
STEPS = 24
# The reference of ep is in double precision, the kernels' sums of a few hundred terms in f32.
TOLERANCE = 1e-5


def mismatch(dtype, got, want, tolerance):
    """None, or the first place where the outputs differ."""
    if got == want:
        return None
    if dtype != "f32" or tolerance == 0:
        at = next(i for i in range(len(got)) if got[i] != want[i]) // SIZES[dtype]
        return f"element {at} differs"
    for at, (a, b) in enumerate(zip(array("f", got), array("f", want))):
        if not abs(a - b) <= tolerance + tolerance * abs(b):
            return f"element {at} is {a}, not {b}"
    return None


def doubled(dtype, data):
    """All elements twice as large, which doubles their sums exactly."""
    words = array({2: "H", 4: "I"}[SIZES[dtype]], data)
    exponent = {2: 1 << 7, 4: 1 << 23}[SIZES[dtype]]
    return array(words.typecode, (word + exponent if word else 0 for word in words)).tobytes()


def tensors_of(example, kind):
    return [read_safetensors(path) if path.exists() else {} for path in
            (example.directory / f"{kind}-{rank}.safetensors" for rank in range(example.ranks))]


def check_steps(directory, tolerance=0, vary=None):
    """Runs the set-up and STEPS steps. `vary` is "rotate" to feed each step another rank's inputs,
    "double" to feed twice as much every other step: a slab that is used again too early shows."""
    example = Example(directory)
    inputs, expected = tensors_of(example, "inputs"), tensors_of(example, "expected")

    def work(rank):
        if "ready" in example.model["programs"] and not example.run("ready", rank, example.vars):
            return "the set-up trapped"
        for step in range(STEPS):
            source = (rank + step) % example.ranks if vary == "rotate" else rank
            odd = vary == "double" and step % 2 == 1
            for name, (dtype, _, data) in inputs[source].items():
                example.write(rank, name, doubled(dtype, data) if odd else data)
            if random.random() < 0.25:
                time.sleep(random.random() * 0.004)
            # Smaller steps in between: rows beyond the var are not touched, so they stay as they
            # were.
            small = step % 3 == 1
            values = {name: max(1, most // 3) if small else most
                      for name, most in example.vars.items()}
            if not example.run("step", rank, values):
                return f"step {step} trapped"
            for name, (dtype, shape, data) in expected[source].items():
                rows = next(iter(values.values())) if small and len(shape) > 1 else shape[0]
                length = len(data) // shape[0] * rows
                want = doubled(dtype, data) if odd and dtype in ("f32", "bf16") else data
                wrong = mismatch(dtype, example.read(rank, name)[:length], want[:length], tolerance)
                if wrong:
                    return f"step {step}: {name}: {wrong}"
        return None

    began = time.monotonic()
    example.on_ranks(range(example.ranks), work)
    each = (time.monotonic() - began) / STEPS * 1e3
    print(f"{example.directory.name}: {example.ranks} ranks, {STEPS} steps, {each:.1f} ms each: ok")
    return example


def check_same_on_any_number_of_ranks(examples):
    whole = {}
    for name, example in examples.items():
        # The last step fed rank r with the inputs of rank r + STEPS - 1, so undo that rotation.
        order = [(rank - (STEPS - 1)) % example.ranks for rank in range(example.ranks)]
        whole[name] = b"".join(example.read(rank, "y") for rank in order)
    assert len(set(whole.values())) == 1, "the outputs depend on the number of ranks"
    print(f"ep: the same {len(whole['ep'])} bytes on 1, 2, 4 and 8 ranks")


def check_missing_rank(directory, error_names, missing):
    """One rank never comes: all others say so, soon, in every step, and none hangs."""
    timeout_ns = 1_000_000_000

    def hurry(model):
        for program in model["programs"].values():
            for call in program["calls"]:
                for arg in call["args"]:
                    if "i64" in arg:
                        arg["i64"] = timeout_ns

    example = Example(directory, hurry)
    inputs = tensors_of(example, "inputs")

    def work(rank):
        for name, (_, _, data) in inputs[rank].items():
            example.write(rank, name, data)
        for step in range(2):
            began = time.monotonic()
            if not example.run("step", rank, example.vars):
                return "trapped"
            # One wait per collective of the step, and time for eight processes on two cores.
            if time.monotonic() - began > 2 + 2 * timeout_ns / 1e9:
                return f"step {step} took {time.monotonic() - began:.2f} s"
            for name in error_names:
                (error,) = struct.unpack("<i", example.read(rank, name))
                if error != missing + 1:
                    return f"step {step}: {name} is {error}, not {missing + 1}"
        return None

    example.on_ranks([rank for rank in range(example.ranks) if rank != missing], work)
    print(f"{example.directory.name}: without rank {missing} all others report it: ok")


def main():
    root = pathlib.Path(sys.argv[1])
    check_steps(root / "minimal")
    for name in ("barrier", "barrier2", "barrier4"):
        check_steps(root / name)
    for name in ("neighbour", "neighbour4"):
        check_steps(root / name, vary="rotate")
    for name in ("allreduce", "allreduce2", "allreduce4"):
        check_steps(root / name, vary="double")
    examples = {name: check_steps(root / name, TOLERANCE, "rotate")
                for name in ("ep", "ep1", "ep2", "ep4")}
    check_same_on_any_number_of_ranks(examples)
    check_missing_rank(root / "barrier4", ["error"], 3)
    check_missing_rank(root / "neighbour", ["error"], 1)
    check_missing_rank(root / "allreduce4", ["error_f32", "error_bf16"], 0)
    check_missing_rank(root / "ep4", ["error"], 2)


main()
