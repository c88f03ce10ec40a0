#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What outputs are worth: infinities, integers and shapes in --check, a run that is stopped before all of
# them are there, and what once programs find in inputs.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"

minimal=$examples/minimal
inputs=$minimal/inputs-0.safetensors
expected=$minimal/expected-0.safetensors

# edit NAME STATEMENT: the minimal manifest m after a Python statement, as $work/NAME.json.
edit() {
    edit_manifest "$minimal/model.json" "$work/$1.json" "$2"
}

tensors change "$expected" "$work/infinite" value=y_f32:7:inf
launch 1 "$minimal/model.json" --input "$inputs" --check "$work/infinite" --rtol 1e-6 --json "$run/report.json"
check "an infinity is expected: ends with 1" ended_with 1
check "an infinity is expected: it is said" says "y_f32: 1 of 4096 elements differ"
check "an infinity is expected: the element is named" says ", expected inf"
check "an infinity is expected: the JSON has finite errors" json "$run/report.json" "r['check']['max_error'] == 0"

tensors change "$expected" "$work/shaped" shape=y_f32:64,64
refuses 4 1 "another shape is expected" "$minimal/model.json" --input "$inputs" --check "$work/shaped" -- \
    "y_f32" "[64, 64]" "[4096]"

tensors make "$work/integer" error I32 -1234567891
launch 2 "$examples/barrier2/model.json" --check "$work/integer"
check "an integer differs: ends with 1" ended_with 1
check "an integer differs: it is shown in full" says ": 0, expected -1234567891"

# The second of two programs alone writes y_bf16, and is not driven before the signal comes.
edit programs 'step = m["programs"]["step"]["calls"]
m["programs"] = {"a": {"calls": step[:1]}, "b": {"calls": step[1:]}}'
KERN_EMU_FAIL=cuLaunchKernelEx:30:stop@1 launch 2 "$work/programs.json" --kernels "$minimal" --input "$inputs" \
    --check "$expected" -n 1000000 &
until_stops 1
check "a signal: it runs" kill "$pid"
kill -CONT "$pid"
wait
check "a signal before all outputs are there: ends with 143" ended_with 143
check "a signal before all outputs are there: it is said" prints "check not made: the run was stopped"
check "a signal before all outputs are there: nothing is left" nothing_left

# made NAME READS: a manifest whose once program keeps what it finds in input x, which step copies to y;
# step reads x as well if READS is not empty.
made() {
    edit "$1" 'one = {"dtype": "f32", "shape": [1]}
kinds = {"x": "input", "kept": "carry", "y": "output", "z": "output"}
calls = {"ready": [("x", "kept")], "step": [("kept", "y")] + [("x", "z")] * bool("'"$2"'")}
used = {name for call in sum(calls.values(), []) for name in call}
m["vars"], m["buffers"] = {}, {name: dict(one, kind=kind) for name, kind in kinds.items() if name in used}
m["ops"] = {"copy": m["ops"]["scale_f32"]}
m["ops"]["copy"]["impl"]["launches"][0]["grid"] = [1, 1, 1]
m["programs"] = {program: {"calls": [
    {"op": "copy", "args": [{"buf": a}, {"buf": b}, {"f32": 1.0}, {"f32": 0.0}, {"i32": 1}]}
    for a, b in pairs]} for program, pairs in calls.items()}
m["programs"]["ready"]["once"] = True'
}
# keeps WHAT VALUE NAME WORD…: a run of it after which y is VALUE.
keeps() {
    local what=$1 value=$2 name=$3
    shift 3
    launch 1 "$work/$name.json" --kernels "$minimal" -n 1 --output "$run/y" "$@"
    check "$what: ends with 0" ended_with 0
    check "$what: the once program finds $value" test "$(tensors show "$run/y" y)" = "F32 [1] $value"
}
tensors make "$work/x" x F32 2.5
tensors make "$work/two" x F32 2.5 3.5
made alone ""
made both yes
keeps "an input that only a once program reads" 2.5 alone --input "$work/x"
keeps "an input that a once program and a step read" 2.5 both --input "$work/x"
keeps "an input of a once program that no file gives" 0.0 alone
keeps "an input of both that no file gives" 0.0 both
refuses 4 1 "an input of a once program in another shape" "$work/alone.json" --kernels "$minimal" \
    --input "$work/two" -- "[2]" "[1] in a once program"
finish
