#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# kern cut and kern diff: exit codes, what is printed, what is written and what is never written over.
# shellcheck source=tests/kern_lib.sh
. "$(dirname "$0")/kern_lib.sh"
cd "$work" || exit 1

says() {
    grep -qE -- "$2" "$1" || fail "$command: \"$2\" is not in $1" "$(head -20 "$1")"
}

# Three layers with a weight of 4 KiB and a state each, behind an embedding of 8 KiB.
python3 -B - >model.json <<'PYTHON'
import json

def buffer(kind, shape, **more):
    return {"dtype": "f32", "shape": shape, "kind": kind, **more}

def weight(name, rows):
    return buffer("weight", [rows, 32], bind=[{"tensor": name}])

def op(*params):
    return {"params": list(params), "impl": {"launches": [
        {"module": "k", "entry": "e", "block": [32, 1, 1], "grid": ["n", "g", 1]}]}}

calls = [{"op": "embed", "label": "embed",
          "args": [{"buf": "ids"}, {"buf": "table"}, {"buf": "x"}]}]
for layer in range(3):
    calls += [
        {"op": "attend", "label": f"{layer}.attend",
         "args": [{"state": f"kv{layer}"}, {"buf": "pages"}, {"buf": "x"}]},
        {"op": "product", "label": f"{layer}.product",
         "args": [{"buf": "x"}, {"buf": f"w{layer}"}, {"buf": "x"}]},
    ]
calls.append({"op": "result", "label": "result", "args": [{"buf": "x"}, {"buf": "y"}]})
print(json.dumps({
    "schema_version": 7, "model": "layers",
    "vars": {"n": {"max": 4, "axis": "rows"}, "g": {"max": 2, "axis": "groups"}},
    "states": {f"kv{layer}": {"bytes_per_token": 64} for layer in range(3)},
    "buffers": {
        "ids": buffer("input", ["n"]) | {"dtype": "i32"},
        "pages": buffer("input", ["g", 8], domain={"index_into": "kv0", "stride": 16})
        | {"dtype": "i32"},
        "table": weight("table", 64), **{f"w{layer}": weight(f"w{layer}", 32) for layer in range(3)},
        "x": buffer("workspace", ["n", 32]), "y": buffer("output", ["n", 32])},
    "modules": {"k": {"source": "k.so", "sha256": "0" * 64}},
    "ops": {
        "embed": op("in buffer<i32>", "in buffer<f32>", "out buffer<f32>"),
        "attend": op("inout state", "in buffer<i32>", "inout buffer<f32>"),
        "product": op("in buffer<f32>", "in buffer<f32>", "out buffer<f32>"),
        "result": op("in buffer<f32>", "out buffer<f32>")},
    "programs": {"step": {"batch": {"groups": 1, "rows": "n"}, "calls": calls}},
}))
PYTHON

# cut
kern 2 diff - -
says err 'standard input can be read once'
kern 0 cut --at 3,5 model.json
says out '^# model layers  model.json: cut at 3,5, id [0-9a-f]{16}$'
says out '^ +0  step 3 +12288  12.0 KiB  kv0$'
says out '^ +2  step 3 +4096   4.0 KiB  kv2$'
says out '^ +1 to 2  x +512  512 B  inout$'
silent err
[ "$(echo *.json)" = model.json ] || fail "$command: wrote $(echo *.json)"

kern 0 cut --at 3,5 -o stages model.json
[ "$(echo stages/*)" = "stages/stage0.json stages/stage1.json stages/stage2.json" ] ||
    fail "$command: wrote $(echo stages/*)"
for stage in 0 1 2; do
    kern 0 verify stages/stage$stage.json
    kern 0 show stages/stage$stage.json
    cmp -s out stages/stage$stage.json || fail "stage$stage.json is not canonical"
done
says stages/stage1.json '"index_into": "kv1"'

# The same again changes nothing, another cut is refused, --force writes it.
touch -d '2001-01-01' stages/*
kern 0 cut --at=3,5 --out=stages model.json
[ "$(find stages -newermt 2002-01-01 -name '*.json')" = "" ] || fail "$command: wrote the same again"
cp -r stages before
kern 2 cut --at 3,6 --out stages model.json
silent out
says err 'stages/stage1.json: holds something else already; --force writes over it'
says err 'stages/stage2.json'
diff -r stages before || fail "$command: wrote something"
kern 0 cut --at 3,6 --force -o stages model.json
diff -rq stages before >/dev/null && fail "$command: wrote nothing"
kern 2 cut --at 3 --out model.json model.json
kern 2 cut model.json
says err 'no point is given; say where to cut with --at I,J'
kern 2 cut --at 3 --balance 2 model.json
says err '\-\-at and --balance are both given'
kern 2 cut --at 3 --out none/none model.json
says err 'none/none: cannot be made'

kern 0 cut --balance 2 model.json
says out 'cut at [34], '
kern 0 cut --balance 3 --out balanced model.json
says out '^# model layers  model.json: cut at 2,6, '
[ -f balanced/stage2.json ] || fail "$command: wrote no stages"
kern 3 cut --balance 9 model.json
says err '9 stages need 8 points, and the manifest can be cut at 7 \[V-CUT\]$'
kern 3 cut --balance 18446744073709551615 model.json
kern 3 cut --balance 0 model.json
kern 3 cut --balance 1 model.json

kern 3 cut --at 8 model.json
says err '^error: programs.step: it has 8 calls, none of them behind the point 8 \[V-CUT\]$'
kern 3 cut --at 1 stages/stage0.json
says err '^error: cut: this is stage 0 of 3 already'
for list in '' ',' '3,' 3,,5 3x -1 99999999999999999999; do
    kern 2 cut "--at=$list" model.json
    silent out
done
kern 2 cut model.json
kern 2 cut --at 3 --balance 2 model.json
kern 2 cut --at 3 none.json
kern 2 cut -x 3 model.json

# diff
kern 0 diff model.json model.json
silent out
silent err
kern 0 show model.json
mv out canonical.json
kern 0 diff model.json canonical.json
sed 's/"max": 4/"max": 5/; s/"label": "1.attend"/"label": "1.mix"/' model.json >other.json
kern 1 diff model.json other.json
says out '^# vars$'
says out '^~ vars.n.max: 4 -> 5$'
says out '^- programs.step.calls\[3\] \(1.attend\): \{"op":"attend",'
says out '^\+ programs.step.calls\[3\] \(1.mix\): \{"op":"attend",'
[ "$(wc -l <out)" -eq 5 ] || fail "$command: prints something else too" "$(cat out)"
kern 1 diff --json model.json other.json
python3 -B - <<'PYTHON' || fail "$command: not what is expected" "$(cat out)"
import json
found = json.load(open("out"))["differences"]
assert found[0] == {"change": "changed", "section": "vars", "place": "vars.n.max", "before": 4,
                    "after": 5}, found[0]
assert [one["change"] for one in found[1:]] == ["removed", "added"]
assert found[1]["before"]["label"] == "1.attend" and "after" not in found[1]
PYTHON
kern 0 diff --json model.json model.json
says out '^\{"differences":\[\]\}$'
# What breaks a rule can be compared; what is no manifest cannot.
sed 's/"kv0", "stride"/"kvv", "stride"/' model.json >broken.json
kern 1 diff model.json broken.json
says out '^~ buffers.pages.domain.index_into: "kv0" -> "kvv"$'
echo '{' >nothing.json
kern 3 diff model.json nothing.json
kern 2 diff model.json none.json
kern 2 diff model.json

finish
