#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# kern topo: this machine and runs that are still to come, as tables and as pictures, without MPI; and
# the same picture of a run by kern-rank --picture.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"

# A machine that hwloc makes up: two NUMA nodes of eight processors.
export HWLOC_SYNTHETIC='numa:2 core:4 pu:2'

# kern WORD…: as launch, without MPI.
kern() {
    echo "kern $*" >"$run/command"
    "$build/bin/kern" "$@" --device emu >"$run/out" 2>"$run/err"
    echo $? >"$run/status"
}

# Two groups, of which only the sizes matter: the barrier example once over each.
python3 -B - "$examples/barrier2/model.json" "$work/two.json" <<'PYTHON'
import copy, json, sys
model = json.load(open(sys.argv[1]))
buffers, calls = model["buffers"], model["programs"]["step"]["calls"]
names = [name for name in buffers if name.startswith("barrier_")]
model["buffers"] = {"error": buffers["error"]}
model["programs"]["step"]["calls"] = []
model["topology"]["groups"] = {"tp": 4, "e<p>": 2}
for group, size in model["topology"]["groups"].items():
    for name in names:
        buffer = copy.deepcopy(buffers[name])
        if name != "barrier_epoch":
            buffer["shape"] = [size]
        if "of" in buffer:
            buffer |= {"of": group + buffer["of"], "group": group}
        model["buffers"][group + name] = buffer
    call = copy.deepcopy(calls[0])
    for arg in call["args"]:
        if arg.get("buf", "error") != "error":
            arg["buf"] = group + arg["buf"]
        if "rank" in arg:
            arg["rank"] = group
        if "i32" in arg:
            arg["i32"] = size
    model["programs"]["step"]["calls"].append(call)
json.dump(model, open(sys.argv[2], "w"))
PYTHON

# drawn FILE RANKS NODES: whether it is XML with so many ranks and nodes, each rank in a node, and no two
# of them over another.
drawn() {
    python3 -B - "$@" <<'PYTHON'
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
svg = "{http://www.w3.org/2000/svg}"
width, height = float(root.get("width")), float(root.get("height"))

def box(rect):
    x, y, w, h = (float(rect.get(key)) for key in ("x", "y", "width", "height"))
    return x, y, x + w, y + h

def inside(a, b):
    return a[0] >= b[0] and a[1] >= b[1] and a[2] <= b[2] and a[3] <= b[3]

def apart(a, b):
    return a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]

paper = (0, 0, width, height)
for rect in root.iter(svg + "rect"):
    assert rect.get("width") == "100%" or inside(box(rect), paper), rect.attrib
for text in root.iter(svg + "text"):
    assert 0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height - 4, text.text
ranks, nodes = [], []
for group in root.iter(svg + "g"):
    first = group.find(svg + "rect")
    if group.find(svg + "title").text.startswith("rank "):
        ranks.append(box(first))
    elif first.get("rx") == "10.0":
        nodes.append(box(first))
assert (len(ranks), len(nodes)) == (int(sys.argv[2]), int(sys.argv[3])), (len(ranks), len(nodes))
for boxes in ranks, nodes:
    assert all(apart(a, b) for i, a in enumerate(boxes) for b in boxes[:i])
assert all(any(inside(rank, node) for node in nodes) for rank in ranks)
PYTHON
}

kern topo
check "a machine: ends with 0" ended_with 0
check "a machine: its NUMA nodes" eval "prints '     0  0-7   1.0 GiB' && prints '     1  8-15  1.0 GiB'"
check "a machine: its devices" prints '0000:07:00.0     -  kern emu GPU'
check "a machine: no word of ranks" eval "! prints rank && test ! -s '$run/err'"
check "kern needs no MPI" eval "! ldd '$build/bin/kern' | grep -q libmpi"

for shape in "1 1" "8 1" "16 2" "13 4" "64 8" "80 1"; do
    read -r ranks nodes <<<"$shape"
    kern topo --ranks "$ranks" --nodes "$nodes" --picture "$work/$ranks.svg"
    check "$ranks ranks on $nodes nodes: ends with 0" ended_with 0
    check "$ranks ranks on $nodes nodes: a picture" drawn "$work/$ranks.svg" "$ranks" "$nodes"
done
kern topo --ranks 7 --ranks-per-node 3
check "ranks per node: the last node has the rest" prints '     6  node2  0      0 0000:00:00.0'
kern topo --ranks 20 --ranks-per-node 16
check "ranks per node: emulated devices for the fullest node" eval \
    "test ! -s '$run/err' && prints '    15  node0  15     15 0000:0F:00.0'"
kern topo --ranks 4 --ranks-per-node 18446744073709551615
check "ranks per node: more than there are" eval "ended_with 0 && grep -qE '^ +3 .* 3 +3 ' '$run/out'"

kern topo "$work/two.json" --picture "$work/two.svg"
check "a manifest: as few ranks as form the groups" drawn "$work/two.svg" 4 1
check "a manifest: the ranks' groups" grep -qE '^ +3 .* 3 0000:03:00.0  1.1   0.3$' "$run/out"
check "a manifest: the groups" eval "prints 'tp           4       1  inside a node'"
kern topo "$work/two.json" --ranks 16 --nodes 2 --group tp=stride '--group=e<p>=stride' --picture "$work/two.svg"
check "stride: both groups cross nodes" test "$(grep -c 'across nodes' "$run/out")" -eq 2
check "stride: one warning for each, with the remedy" eval \
    "says 'group tp: crosses nodes' && says '--group e<p>=block lays them inside'"
check "stride: a picture" drawn "$work/two.svg" 16 2
printf 'tp 0 1 2 3\ntp 7 6 5 4 # backwards\n' >"$work/groups"
kern topo "$work/two.json" --ranks 8 --groups "$work/groups"
check "a groups file: backwards" grep -qE '^ +4 .* 4 0000:04:00.0  2.0   1.3$' "$run/out"

# refused CODE TEXT WORD…
refused() {
    local code=$1 text=$2
    shift 2
    kern topo "$@"
    check "kern topo $*: ends with $code" ended_with "$code"
    check "kern topo $*: says so" says "$text"
}
refused 2 'cannot be written: No such file' --picture "$work/none/a.svg"
refused 2 'cannot form groups of 4' "$work/two.json" --ranks 6
refused 2 'no group "ep"; did you mean "tp"?' "$work/two.json" --group ep=block
refused 2 'it takes NAME=block or NAME=stride' "$work/two.json" --group tp=blocks
refused 2 'needs a manifest' --ranks 8 --group tp=block
refused 2 'or a manifest is needed' --nodes 2
refused 2 'is 1 to 2, the number of ranks' --ranks 2 --nodes 3
refused 2 'is 1 to 65536' --ranks 1000000
refused 2 'rank 4 is in no group tp' "$work/two.json" --ranks 8 --groups <(echo tp 0 1 2 3)
KERN_EMU_DEVICES=4 kern topo --ranks 6
check "more ranks than devices: a warning" says '6 ranks on a node with 4 devices'

unset HWLOC_SYNTHETIC
launch 2 "$examples/barrier2/model.json" -n 2 --picture "$run/real.svg"
check "a run: ends with 0" ended_with 0
check "a run: a picture" drawn "$run/real.svg" 2 1
launch 2 "$examples/barrier2/model.json" --picture "$run/none/real.svg"
check "a picture that cannot be written: ends with 2" ended_with 2
check "a picture that cannot be written: said once" says_each_once
check "a picture that cannot be written: says so" says 'real.svg: cannot be written: No such file'
check "a picture that cannot be written: nothing was loaded" test ! -s "$run/out"
cp "$examples/barrier2/model.json" "$run/model.json"
launch 2 "$run/model.json" --kernels "$examples/barrier2" --picture "$run/model.json"
check "a picture over the manifest: refused" eval "ended_with 2 && says 'would be written over'"
check "nothing is left" nothing_left
finish
