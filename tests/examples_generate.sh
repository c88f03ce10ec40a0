#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The generators of examples/: the same arguments give the same files, other seeds give others, the
# data of ep does not depend on the number of ranks, and arguments that make no sense are refused.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$1"
    exit 1
}

generate() { # NAME OUT OPTIONS…
    python3 -B "$KERN_SOURCE/examples/$1/generate.py" --kernels "$KERN_BUILD/kernels" \
        --out "$work/$2" "${@:3}"
}

small=(--experts 8 --top-k 2 --hidden 16 --inner 8)

for name in minimal neighbour barrier allreduce; do
    generate $name $name-a
    generate $name $name-b
    diff -r "$work/$name-a" "$work/$name-b" || fail "$name: two runs differ"
done
generate ep ep-a "${small[@]}" --ranks 4 --tokens 3
generate ep ep-b "${small[@]}" --ranks 4 --tokens 3
diff -r "$work/ep-a" "$work/ep-b" || fail "ep: two runs differ"

generate minimal minimal-c --seed 2
generate ep ep-c "${small[@]}" --ranks 4 --tokens 3 --seed 2
for file in minimal-{a,c}/inputs-0 ep-{a,c}/inputs-0 ep-{a,c}/weights; do
    sha256sum <"$work/$file.safetensors"
done | sort | uniq -d | grep -q . && fail "another seed gives the same data"

generate ep ep-one "${small[@]}" --ranks 1 --tokens 12
cmp "$work/ep-a/weights.safetensors" "$work/ep-one/weights.safetensors" ||
    fail "ep: the experts depend on the number of ranks"

# Reads every file as a reader that trusts nothing: offsets without holes, sizes of shape times
# type.
python3 -B - "$work" <<'EOF' || fail "a file is not what it should be"
import json, pathlib, struct, sys

SIZE = {"F32": 4, "BF16": 2, "I32": 4}

def read(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    at = 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        size = SIZE[tensor["dtype"]]
        for extent in tensor["shape"]:
            size *= extent
        assert tensor["data_offsets"] == [at, at + size], (path, name)
        at += size
    assert at == len(body), path
    return {name: body[slice(*tensor["data_offsets"])] for name, tensor in header.items()}

root = pathlib.Path(sys.argv[1])
files = {path: read(path) for path in root.glob("*/*.safetensors")}
for kind in ("inputs", "expected"):
    whole = files[root / "ep-one" / f"{kind}-0.safetensors"]
    parts = [files[root / "ep-a" / f"{kind}-{rank}.safetensors"] for rank in range(4)]
    for name in whole.keys() - {"error"}:
        assert b"".join(part[name] for part in parts) == whole[name], f"{kind}: {name}"
EOF

for wrong in "--ranks 3" "--top-k 9" "--hidden 12"; do
    read -ra options <<<"$wrong"
    if generate ep wrong "${small[@]}" "${options[@]}" 2>"$work/stderr"; then
        fail "ep: $wrong is accepted"
    fi
    grep -q -- '--' "$work/stderr" || fail "ep: $wrong is refused without saying why"
done
for name in minimal neighbour chain barrier allreduce ep p2p; do
    if python3 -B "$KERN_SOURCE/examples/$name/generate.py" --kernels "$work/nowhere" \
        --out "$work/wrong" 2>"$work/stderr"; then
        fail "$name: a wrong --kernels is accepted"
    fi
    grep -q "^generate.py: there is no $work/nowhere/.*\.so; --kernels is " "$work/stderr" ||
        fail "$name: a wrong --kernels is refused without saying why"
    [ "$(wc -l <"$work/stderr")" -eq 1 ] || fail "$name: a wrong --kernels is not told in one line"
done
for out in checkpoint-a checkpoint-b; do
    python3 -B "$KERN_SOURCE/examples/llama/random_checkpoint.py" --out "$work/$out"
done
diff -r "$work/checkpoint-a" "$work/checkpoint-b" || fail "llama: two checkpoints differ"
checkpoint=(--checkpoint "$work/checkpoint-a")
generate llama llama-a "${checkpoint[@]}" --tp 4
generate llama llama-b "${checkpoint[@]}" --tp 4
diff -r "$work/llama-a" "$work/llama-b" || fail "llama: two runs differ"
for wrong in "--tp 3" "--tp 8" "--pages 9" "--max-rows 7"; do
    read -ra options <<<"$wrong"
    if generate llama wrong "${checkpoint[@]}" "${options[@]}" 2>"$work/stderr"; then
        fail "llama: $wrong is accepted"
    fi
    grep -q -- "${wrong% *}" "$work/stderr" || fail "llama: $wrong is refused without saying why"
done
sed -i 's/"BF16","shape":\[32,48\]/"BF16","shape":[48,32]/' "$work/checkpoint-b/model.safetensors"
if generate llama wrong --checkpoint "$work/checkpoint-b" 2>"$work/stderr"; then
    fail "llama: a tensor of another shape is accepted"
fi
grep -q 'down_proj.weight is BF16 \[48, 32\], not BF16 \[32, 48\]' "$work/stderr" ||
    fail "llama: a tensor of another shape is refused without saying why"

# variant OUT KEYS [TENSOR]: the first checkpoint with these keys of config.json changed (null removes
# one), and with one more tensor.
variant() {
    cp -r "$work/checkpoint-a" "$work/$1"
    python3 -B - "$work/$1" "${@:2}" <<'EOF'
import json, pathlib, struct, sys

folder = pathlib.Path(sys.argv[1])
config = json.loads((folder / "config.json").read_text()) | json.loads(sys.argv[2])
config = {key: value for key, value in config.items() if value is not None}
(folder / "config.json").write_text(json.dumps(config))
for name in sys.argv[3:]:
    header = json.dumps({name: {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}).encode()
    (folder / "more.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
EOF
}
refused() { # VARIANT TEXT
    if generate llama wrong --checkpoint "$work/$1" 2>"$work/stderr"; then
        fail "llama: $1 is accepted"
    fi
    grep -qF -- "$2" "$work/stderr" || fail "llama: $1 is refused without saying why"
}

variant theta-top '{"rope_theta": 500000.0}'
variant theta-inside \
    '{"rope_theta": null, "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}}'
for name in checkpoint-a theta-top theta-inside; do
    generate llama "of-$name" --checkpoint "$work/$name"
done
cmp "$work/of-theta-top/model.json" "$work/of-theta-inside/model.json" ||
    fail "llama: rope_theta is not found in rope_parameters"
if cmp -s "$work/of-theta-top/model.json" "$work/of-checkpoint-a/model.json"; then
    fail "llama: rope_theta makes no difference"
fi

for part in '{"partial_rotary_factor": 0.5}' '{"rope_parameters": {"partial_rotary_factor": 0.5}}'; do
    rm -rf "$work/part"
    variant part "$part"
    refused part "rotary positions of a part of the head"
done
variant scaled '{"rope_parameters": {"rope_type": "llama3"}}'
refused scaled "scaled rotary positions"
variant window '{"sliding_window": 4096}'
refused window "sliding_window is 4096, not null"
variant granite '{"architectures": ["GraniteForCausalLM"]}'
refused granite "GraniteForCausalLM"
for name in model.layers.0.self_attn.{q_proj.bias,q_norm.weight}; do
    variant "$name" '{}' "$name"
    refused "$name" "there is a tensor $name, of which"
done
variant frequencies '{}' model.layers.0.self_attn.rotary_emb.inv_freq
generate llama of-frequencies --checkpoint "$work/frequencies"
cmp "$work/of-frequencies/model.json" "$work/of-checkpoint-a/model.json" ||
    fail "llama: rotary_emb.inv_freq makes a difference"
variant tied '{"tie_word_embeddings": true}'
generate llama of-tied --checkpoint "$work/tied"
echo "the generators give what they are asked for"
