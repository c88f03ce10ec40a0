# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the tests of loading share, after lib.sh: a model whose weight takes many reads.
minimal=$examples/minimal
# Modules are looked for in every file beside the manifest, so data is elsewhere.
models=$work/models
files=$work/files
mkdir "$models" "$files"
cp "$minimal/toy_scale.so" "$models"

# In $models the minimal example with its x_f32 as a weight: on the device, on the host, and on the host
# where a derive program reads it. $files/big.safetensors has its tensor, big.x, whose first values are
# those of the example's input; $files/inputs.safetensors has the other input.
python3 -B - "$minimal" "$models" "$files" <<'PYTHON'
import json, pathlib, struct, sys
minimal, models, files = map(pathlib.Path, sys.argv[1:])
ELEMENTS = 1 << 21

def read(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    return {name: (tensor, raw[8 + length:][slice(*tensor["data_offsets"])])
            for name, tensor in header.items() if name != "__metadata__"}

def write(path, name, dtype, shape, data):
    text = json.dumps({name: {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}}).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)

inputs = read(minimal / "inputs-0.safetensors")
data = inputs["x_f32"][1]
write(files / "big.safetensors", "big.x", "F32", [ELEMENTS], data + bytes(4 * ELEMENTS - len(data)))
tensor, data = inputs["x_bf16"]
write(files / "inputs.safetensors", "x_bf16", tensor["dtype"], tensor["shape"], data)

model = json.loads((minimal / "model.json").read_text())
weight = {"dtype": "f32", "shape": [ELEMENTS], "kind": "weight", "bind": [{"tensor": "big.x"}]}
model["buffers"]["x_f32"] = weight
(models / "device.json").write_text(json.dumps(model))
weight["placement"] = "host"
(models / "host.json").write_text(json.dumps(model))
# A derive program copies what the step reads from the host.
model["buffers"]["copied"] = {"dtype": "f32", "shape": [4096], "kind": "carry"}
model["programs"]["copy"] = {"derive": True, "calls": [
    {"op": "scale_f32", "args": [{"buf": "x_f32"}, {"buf": "copied"}, {"f32": 1}, {"f32": 0}, {"i32": 4096}]}]}
for op in "scale_f32", "scale_bf16":
    model["ops"][op]["impl"]["launches"][0]["grid"] = [16, 1, 1]
model["programs"]["step"]["calls"][0]["args"][0] = {"buf": "copied"}
(models / "derived.json").write_text(json.dumps(model))
PYTHON

# load RANKS NAME [WORD…]: a run of $models/NAME.json with $checkpoint, or the large tensor.
load() {
    launch "$1" "$models/$2.json" --weights "${checkpoint-$files/big.safetensors}" \
        --input "$files/inputs.safetensors" --check "$minimal/expected-0.safetensors" "${@:3}"
}

# with_fault NAME=VALUE COMMAND…: the command, with this fault of its files (tests/file_fault.c).
with_fault() {
    export LD_PRELOAD=$build/tests/libfile_fault.so "${1?}"
    # The sanitizer's own functions come after these.
    ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 "${@:2}"
    unset LD_PRELOAD KERN_TEST_READ KERN_TEST_NO_MEMORY
}
