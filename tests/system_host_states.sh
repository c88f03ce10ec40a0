#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A manifest whose state lies in memory of its host: kern-rank is its own host with --host-blocks.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/lib.sh"

# Kernel add reads an index of blocks that is made up from its domain; count_up counts in block 0.
kernels=$build/tests/rank_kernels
model=$work/hosted.json
sed "s/@SHA/$(sha256sum "$kernels/rank_kernels.so" | cut -d' ' -f1)/" >"$model" <<'JSON'
{"schema_version": 7, "model": "hosted",
 "modules": {"k": {"source": "rank_kernels.so", "sha256": "@SHA"}},
 "states": {"kv": {"host": {"dtype": "i32", "shape": [0, 8], "strides": [8, 1]}}},
 "buffers": {
  "blocks": {"dtype": "i32", "shape": [256], "kind": "input", "domain": {"index_into": "kv"}},
  "seen": {"dtype": "i32", "shape": [256], "kind": "output"}},
 "ops": {
  "add": {"params": ["in buffer<i32>", "out buffer<i32>", "i32", "i32"], "impl": {"launches": [
   {"module": "k", "entry": "add", "block": [1, 1, 1], "grid": [1, 1, 1]}]}},
  "touch": {"params": ["inout state", "i32"], "impl": {"launches": [
   {"module": "k", "entry": "count_up", "block": [1, 1, 1], "grid": [1, 1, 1]}]}}},
 "programs": {"step": {"calls": [
  {"op": "touch", "args": [{"state": "kv"}, {"i32": 1}]},
  {"op": "add", "args": [{"buf": "blocks"}, {"buf": "seen"}, {"i32": 0}, {"i32": 256}]}]}}}
JSON

launch 2 "$model" --kernels "$kernels" --host-blocks 5 -n 2 -w 1 --output "$work/seen-{rank}.safetensors"
check "blocks are lent: ends with 0" ended_with 0
check "blocks are lent: nothing on stderr" test ! -s "$run/err"
check "blocks are lent: nothing is left" nothing_left
python3 - "$work" >"$run/range" <<'PY'
import json, pathlib, struct, sys
seen = set()
for rank in (0, 1):
    data = (pathlib.Path(sys.argv[1]) / f"seen-{rank}.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    begin, end = json.loads(data[8:8 + length])["seen"]["data_offsets"]
    seen |= set(struct.unpack("<256i", data[8 + length + begin:8 + length + end]))
print(min(seen), max(seen))
PY
check "indices go from the first block to the last" grep -qx '0 4' "$run/range"

launch 2 "$model" --kernels "$kernels"
check "no blocks: ends with 2" ended_with 2
check "no blocks: the option is named" says '--host-blocks N'
check "no blocks: nothing is left" nothing_left

KERN_EMU_MEMORY=64M launch 2 "$model" --kernels "$kernels" --host-blocks 100000000
check "too many blocks: ends with 5" ended_with 5
check "too many blocks: it is said" says 'allocating 100000000 blocks for host state kv'
check "too many blocks: nothing is left" nothing_left

finish
