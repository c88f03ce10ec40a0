#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The tool kern: exit codes, what goes to stdout and what to stderr, and what it prints, compared
# with tests/data/*.expected. After a change that is meant, KERN_UPDATE=1 tests/kern_tool.sh writes
# them anew.
# shellcheck source=tests/kern_lib.sh
. "$(dirname "$0")/kern_lib.sh"
cd "$source_dir/tests/data" || exit 1

# same STREAM NAME: out or err of the last run is what NAME.expected has.
same() {
    if [ -n "${KERN_UPDATE:-}" ]; then
        cp "$work/$1" "$2.expected"
    elif ! diff -u "$2.expected" "$work/$1" >"$work/diff"; then
        fail "$command: $1 is not $2.expected" "$(cat "$work/diff")"
    fi
}

says() {
    grep -qF -- "$2" "$work/$1" || fail "$command: \"$2\" is not in $1" "$(head -5 "$work/$1")"
}

# What is named as a file: a pipe that nobody writes to is not waited for, one with a writer is read.
mkfifo "$work/pipe"
kern 2 verify "$work/pipe"
says err "is a pipe that nobody writes to"
kern 0 verify <(cat kern_serving.json)
kern 2 verify - -
says err "standard input can be read once"
kern 2 plan --seqs 1 --seqs 2 kern_serving.json
says err "is given twice"

# verify
kern 0 verify kern_serving.json
same out kern_verify_accepted
silent err
kern 3 verify kern_refused.json
silent out
same err kern_verify_refused
kern 3 verify kern_serving.json kern_refused.json
says out 'kern_serving.json: ok'
says err 'kern_refused.json: '
kern 0 verify - <kern_serving.json
says out '-: ok'
kern 0 verify -- kern_serving.json
kern 2 verify no_such_file.json
says err 'no_such_file.json: '
kern 2 verify kern_refused.json no_such_file.json
kern 3 verify - </dev/null
says err 'V-JSON'
# A refusal after an accepted file is a refusal, in either order.
kern 3 verify kern_refused.json kern_serving.json

python3 - "$work/many.json" <<'EOF'
import json, sys
buffers = {f"b{i:03}": {"dtype": "i32", "shape": [0], "kind": "input"} for i in range(250)}
root = {"schema_version": 7, "model": "m", "buffers": buffers, "modules": {}, "ops": {},
        "programs": {"p": {"calls": []}}}
json.dump(root, open(sys.argv[1], "w"))
EOF
kern 3 verify "$work/many.json"
errors=$(sed -nE '1s/.*: ([0-9]+) errors$/\1/p' "$work/err")
[ "${errors:-0}" -gt 200 ] || fail "$command: the first line does not count the errors"
[ "$(grep -c '^error: ' "$work/err")" -eq 200 ] || fail "$command: does not print 200 errors"
says err "and $((errors - 200)) more"

# verify --json: one array for all files, with every error; nothing else on stdout.
kern 3 verify --json kern_serving.json kern_refused.json "$work/many.json"
silent err
ERRORS=$errors python3 - "$work/out" <<'EOF' || fail "$command: is not the JSON it should be"
import json, os, sys
accepted, refused, many = json.load(open(sys.argv[1]))
assert accepted == {"file": "kern_serving.json", "ok": True, "errors": [], "warnings": []}
assert refused["file"] == "kern_refused.json" and refused["ok"] is False
orders = [error["order"] for error in refused["errors"]]
assert orders == sorted(orders) and all(isinstance(order, int) for order in orders)
for error in refused["errors"]:
    assert set(error) == {"rule", "place", "text", "order"}, error
    assert error["rule"].startswith("V-") and error["place"] and error["text"], error
by_place = {error["place"]: error["rule"] for error in refused["errors"]}
assert by_place["programs.p.calls[0] (first) arg 0"] == "V-CALL", by_place
assert by_place["modules.k.sha256"] == "V-MODULE", by_place
assert len(many["errors"]) == int(os.environ["ERRORS"])
EOF
kern 2 verify --json no_such_file.json
python3 -c 'import json, sys; (one,) = json.load(open(sys.argv[1])); assert not one["ok"]' \
    "$work/out" || fail "$command: is not the JSON it should be"
# A name that is not UTF-8 does not spoil the JSON.
kern 2 verify --json $'no_such_\xff\x01"file'
python3 - "$work/out" <<'EOF' || fail "$command: is not the JSON it should be"
import json, sys
(one,) = json.load(open(sys.argv[1], encoding="utf-8"))
assert one["file"] == "no_such_\ufffd\x01\"file"
EOF

# show
kern 0 show kern_serving.json
same out kern_show
silent err
cp "$work/out" "$work/shown.json"
kern 0 show "$work/shown.json"
cmp -s "$work/out" "$work/shown.json" || fail "$command: changes its own output"
kern 0 verify "$work/shown.json"
kern 0 show - <kern_serving.json
cmp -s "$work/out" "$work/shown.json" || fail "$command: depends on where the text comes from"
kern 3 show kern_refused.json
silent out
kern 0 show --summary kern_serving.json
same out kern_summary

# plan
kern 0 plan kern_serving.json
same out kern_plan
kern 0 plan --capacity 1000 --seqs=1 --largest 2 kern_serving.json
says out '1024 tokens in pages of 16, 3 sequence slots'
says out 'and 24 more'
kern 0 plan --json kern_serving.json
python3 - "$work/out" <<'EOF' || fail "$command: is not the JSON it should be"
import json, sys
plan = json.load(open(sys.argv[1]))
memory = plan["memory_bytes"]
assert plan["total_bytes"] == sum(memory.values()) - memory["exported"]
assert plan["total_bytes"] == sum(item["taken"] for item in plan["items"])
assert memory["exported"] == sum(item["taken"] for item in plan["items"] if item["exported"])
assert memory["exported"] % (2 << 20) == 0 and memory["states"] % (2 << 20) == 0
EOF
kern 2 plan --capacity 0 kern_serving.json
silent out
says err 'states.kv'
kern 3 plan kern_refused.json
silent out

# The command line.
for words in "" "verify" "verfy model.json" "show" "show a b" "plan --capcity 1 x" \
    "plan --capacity" "plan --capacity -1 x" "plan --capacity= x" "verify --json=1 x" "verify -j x" \
    "plan --capacity 99999999999999999999 x"; do
    read -ra split <<<"$words"
    kern 2 "${split[@]}"
    silent out
    [ -s "$work/err" ] || fail "$command: says nothing"
done
kern 2 verfy model.json
says err 'did you mean "verify"?'
kern 2 plan --capcity 1 x
says err 'did you mean "capacity"?'
for name in verify show plan topo; do
    kern 0 $name --help
    silent err
    [ "$(wc -l <"$work/out")" -le 24 ] || fail "$command: does not fit a screen"
    [ "$(wc -L <"$work/out")" -le 100 ] || fail "$command: is too wide"
    says out "For example: kern $name "
    cp "$work/out" "$work/help"
    kern 0 $name -h
    cmp -s "$work/out" "$work/help" || fail "$command: is not the same as --help"
    kern 0 --help
    says out "    kern $name "
done

# Colours: on a terminal only, and not where NO_COLOR is set.
python3 - "$kern" <<'EOF' || fail "colours are not what they should be"
import os, pty, subprocess, sys

def terminal(*words, **more):
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    master, slave = pty.openpty()
    process = subprocess.Popen([sys.argv[1], *words], stdin=subprocess.DEVNULL, stdout=slave,
                               stderr=slave, env=environment | {"TERM": "xterm"} | more)
    os.close(slave)
    text = b""
    try:
        while piece := os.read(master, 65536):
            text += piece
    except OSError:
        pass
    process.wait()
    os.close(master)
    return text

for words in ("verify", "kern_refused.json"), ("verify", "kern_serving.json"):
    assert b"\x1b[" in terminal(*words), words
    assert b"\x1b[" not in terminal(*words, NO_COLOR="1"), words
    assert b"\x1b[" not in terminal(*words, TERM="dumb"), words
assert b"\x1b[" not in terminal("verify", "--json", "kern_refused.json")
EOF
"$kern" verify kern_refused.json 2>&1 | grep -q $'\033' && fail "colours without a terminal"

# What cannot be written is an error.
if [ -w /dev/full ]; then
    "$kern" show kern_serving.json >/dev/full 2>"$work/err"
    [ $? -eq 5 ] || fail "kern show to a full device: does not end with 5"
fi

finish
