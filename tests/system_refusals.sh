#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Wrong things, one by one: each ends soon with its exit code, is said once whatever the number of
# ranks, in words that help, and leaves nothing behind.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"

minimal=$examples/minimal
inputs=$minimal/inputs-0.safetensors
expected=$minimal/expected-0.safetensors
files=$work/files
mkdir "$files"

# refused CODE RANKS WHAT WORD… -- TEXT…: kern-rank WORD… on so many ranks ends with CODE and says every
# TEXT on stderr.
refused() {
    job refused_soon "$1" "$2" "$3, $2 ranks" "${@:4}"
}
refused_soon() {
    refuses "$@"
    check "$3: ends in time" in_time
}

# everywhere CODE WHAT …: all ranks say the same. KERN_TEST_ALL=1 tries it with 8 ranks as well.
everywhere() {
    local code=$1 what=$2 ranks
    shift 2
    for ranks in 2 ${KERN_TEST_ALL:+8}; do
        refused "$code" "$ranks" "$what" "$@" "all $ranks ranks: error: "
    done
}

# edit NAME STATEMENT [EXAMPLE]: the example's manifest m after a Python statement, as $files/NAME.json.
edit() {
    edit_manifest "$examples/${3-minimal}/model.json" "$files/$1.json" "$2"
}

# --- the command line
everywhere 2 "no manifest" -- "no manifest is named" "mpirun -np 8 kern-rank model.json"
everywhere 2 "an unknown option" --stesp 3 "$minimal/model.json" -- "--stesp" "--help"
everywhere 2 "an option without its value" "$minimal/model.json" --steps -- "--steps" "needs a value"
everywhere 2 "steps that are no number" "$minimal/model.json" -n many -- "many" "whole number"
everywhere 2 "a flag with a value" "$minimal/model.json" --share-devices=2 -- "takes no value"
everywhere 2 "an unknown kind of device" "$minimal/model.json" --device tpu -- "tpu" "auto, cuda or emu"
everywhere 3 "two manifests" "$minimal/model.json" "$minimal/model.json" -- "is no stage of a pipeline"
refused 2 2 "a timeout of 0" "$minimal/model.json" -T 0 -- "seconds above 0"
refused 2 2 "a var that is not declared" "$minimal/model.json" --var rows=1 -- 'no var "rows"'
refused 2 2 "a var above its maximum" "$minimal/model.json" --var count=4097 -- "1 to 4096"
refused 2 2 "a var of 0" "$minimal/model.json" --var count=0 -- "1 to 4096"
refused 2 2 "a var twice" "$minimal/model.json" --var count=7 --var count=7 -- "count is given twice"
refused 2 2 "a var without a value" "$minimal/model.json" --var count -- "NAME=N"
refused 2 2 "a program that is not declared" "$minimal/model.json" --program decode -- 'no program "decode"'
refused 2 2 "a once program to drive" "$examples/ep2/model.json" \
    --weights "$examples/ep2/weights.safetensors" --program ready -- "ready" "once program"

# --- the manifest's file
refused 2 8 "no such manifest" "$files/absent.json" -- "absent.json" "No such file"
refused 2 8 "a directory" "$files" -- "$files" "directory"
echo 'schema_version: 7' >"$files/text.json"
refused 3 8 "a manifest that is no JSON" "$files/text.json" -- "text.json" "[V-JSON]"
head -c 1000 "$minimal/model.json" >"$files/short.json"
refused 3 8 "a truncated manifest" "$files/short.json" -- "short.json" "[V-JSON]"
: >"$files/empty.json"
refused 3 2 "an empty manifest" "$files/empty.json" -- "empty.json" "[V-JSON]"

# --- the contract
edit shape 'm["buffers"]["x_f32"]["shape"] = [0]; m["vars"]["count"]["max"] = 0'
everywhere 3 "a manifest that breaks two rules" "$files/shape.json" -- "buffers.x_f32" "[V-SHAPE]" "[V-VAR]"
edit key 'm["buffers"]["x_f32"]["shpe"] = []'
refused 3 2 "an unknown key" "$files/key.json" -- "shpe" "[V-KEY]"

# --- the ranks

refused 2 2 "2 ranks for groups of 4" "$examples/ep4/model.json" -- "topology.groups.ep" "mpirun -np 4"
edit three 'm["topology"]["groups"]["all"] = 3
m["buffers"]["barrier_flags"]["shape"] = [3]
m["buffers"]["barrier_flags_peers"]["shape"] = [3]
m["programs"]["step"]["calls"][0]["args"][5] = {"i32": 3}' barrier
refused 2 8 "8 ranks for groups of 3" "$files/three.json" -- "topology.groups.all" "all 8 ranks: " "-np 3"
refused 2 2 "a layout of a group that is not declared" "$examples/ep2/model.json" --group tp=block -- \
    'no group "tp"'
refused 2 2 "an unknown layout" "$examples/ep2/model.json" --group ep=ring -- "NAME=block or NAME=stride"
echo 'ep 0 2' >"$files/no-rank"
refused 2 2 "a groups file with a rank that is none" "$examples/ep2/model.json" --groups "$files/no-rank" -- \
    "no-rank:1" "ranks are 0 to 1"
printf 'ep 0 1\nep 1 0\n' >"$files/twice"
refused 2 2 "a groups file with a rank twice" "$examples/ep2/model.json" --groups "$files/twice" -- \
    "twice:2" "already"

# alone WHAT WORD… : WORD… -- TEXT…: two ranks of neighbour, each with words of its own, of which the
# second is told that it is the one that differs. Nobody waits for anybody until the timeout.
alone() {
    local what=$1 first=()
    shift
    while [ "$1" != : ]; do
        first+=("$1")
        shift
    done
    shift
    refused 2 1 "$what" "$examples/neighbour/model.json" "${first[@]}" : -np 1 "$kern_rank" --device emu \
        "$examples/neighbour/model.json" "$@"
}
alone "another layout" --group ring=block : --group ring=stride -- "start: rank 1 (" "--group: differs"
alone "a manifest to compare with on one rank" --compare "$examples/neighbour/model.json" : -- "--compare: differs"
alone "generation on one rank" --generate 3 --prompt-ids 1 : -- "--generate: differs" "--prompt-ids: differs"
alone "another number of steps, another timeout" -n 3 : -T 5 -- "--steps: differs" "--timeout: differs"
alone "a trace on one rank" --trace "$files/trace" : -- "--trace: differs"
echo 'ring 0 1' >"$files/forth"
echo 'ring 1 0' >"$files/back"
alone "groups files that say different things" --groups "$files/forth" : --groups "$files/back" -- \
    "topology: rank 1 (" "ring: is a group of other ranks here than on rank 0"
refused 2 2 "no groups file" "$examples/ep2/model.json" --groups "$files/absent" -- "absent" "No such file"

# --- code
mkdir "$files/other" "$files/none"
cp "$minimal/toy_scale.so" "$files/other"
printf 'x' >>"$files/other/toy_scale.so"
everywhere 4 "a module of other bytes" "$minimal/model.json" --kernels "$files/other" -- \
    "toy_scale.so" "sha256"
everywhere 4 "a module that is missing" "$minimal/model.json" --kernels "$files/none" -- \
    "toy_scale.so" "$files/none"
refused 2 2 "no directory of kernels" "$minimal/model.json" --kernels "$files/absent" -- "absent" "No such file"
# A kernel of other parameters than the launch declares: i64 for the i32 at the end.
edit params 'm["ops"]["scale_f32"]["params"][4] = "i64"'
everywhere 4 "parameters that are not the kernel's" "$files/params.json" --kernels "$minimal" -- \
    "toy_scale_f32" "parameter 4 is declared i64, 8 bytes at 24; it is 4 bytes at 24"
edit entry 'm["ops"]["scale_f32"]["impl"]["launches"][0]["entry"] = "toy_scale_f23"'
everywhere 4 "an entry that the module does not have" "$files/entry.json" --kernels "$minimal" -- \
    "toy_scale_f23" "toy_scale.so"

# --- weights
ep2=$examples/ep2
everywhere_ep() { # WHAT WORD… -- TEXT…, with code 4 on 2 ranks of ep
    local what=$1
    shift
    refused 4 2 "$what" "$ep2/model.json" "$@"
}
refused 2 2 "no weights" "$ep2/model.json" -- "--weights"
launch 2 "$examples/minimal/model.json" --weights "$files/absent"
check "weights that nobody reads: ends with 0" ended_with 0
check "weights that nobody reads: it is said" says "all 2 ranks: warning: --weights: no buffer is bound"
refused 2 2 "no such file of weights" "$ep2/model.json" --weights "$files/absent" -- "absent" "No such file"
tensors change "$ep2/weights.safetensors" "$files/cut" "length=$(($(stat -c %s "$ep2/weights.safetensors") - 100))"
everywhere_ep "truncated weights" --weights "$files/cut" -- "files/cut"
tensors change "$ep2/weights.safetensors" "$files/header" length=20
everywhere_ep "weights cut in their header" --weights "$files/header" -- "files/header"
tensors change "$ep2/weights.safetensors" "$files/renamed" name=experts.7.down:experts.7.dwon
refused 4 2 "a tensor that is missing" "$ep2/model.json" --weights "$files/renamed" -- "experts.7.down" "rank 0"
tensors change "$ep2/weights.safetensors" "$files/dtype" dtype=experts.gate:F16
everywhere_ep "weights of another dtype" --weights "$files/dtype" -- "experts.gate" "files/dtype"
echo 'version https://git-lfs.github.com/spec/v1' >"$files/pointer"
everywhere_ep "an LFS pointer for weights" --weights "$files/pointer" -- "files/pointer" "LFS"

# --- inputs
everywhere 2 "no such inputs" "$minimal/model.json" --input "$files/absent" -- "absent" "No such file"
tensors change "$inputs" "$files/large" value=x_f32:17:1.5
everywhere 4 "an input outside its domain" "$minimal/model.json" --input "$files/large" -- \
    "x_f32" "element 17 is 1.5" "-1..1"
tensors change "$inputs" "$files/nan" value=x_f32:3:nan
refused 4 2 "an input that is NaN" "$minimal/model.json" --input "$files/nan" -- "x_f32" "element 3"
tensors change "$inputs" "$files/shaped" shape=x_f32:64,64
everywhere 4 "an input of another shape" "$minimal/model.json" --input "$files/shaped" -- \
    "x_f32" "[64, 64]" "[4096]"
refused 4 2 "an input of another number of rows" "$minimal/model.json" --input "$inputs" --var count=7 -- \
    "x_f32" "[4096]" "[7]"
tensors change "$inputs" "$files/typed" dtype=x_f32:I32
refused 4 2 "an input of another dtype" "$minimal/model.json" --input "$files/typed" -- "x_f32" "I32" "f32"
tensors change "$inputs" "$files/named" name=x_f32:z_f32
refused 4 2 "an input that the manifest does not have" "$minimal/model.json" --input "$files/named" -- \
    'no input or inout buffer "z_f32"'
cp "$inputs" "$files/by-rank-0"
cp "$files/large" "$files/by-rank-1"
refused 4 2 "an input outside its domain on one rank" "$minimal/model.json" --input "$files/by-rank-{rank}" -- \
    "inputs: rank 1 (" "element 17 is 1.5"

# --- outputs
tensors change "$expected" "$files/wrong" value=y_f32:1234:0.625
launch 2 "$minimal/model.json" --input "$inputs" --check "$files/wrong" --json "$files/report.json"
check "an output that is not as expected: ends with 1" ended_with 1
for text in "all 2 ranks: error: y_f32: 1 of 4096 elements" "[1234]" "expected 0.625"; do
    check "an output that is not as expected: says \"$text\"" says "$text"
done
check "an output that is not as expected: the report says so" prints "check WRONG"
check "an output that is not as expected: it is in the JSON" grep -q '"verdict": *"wrong"' "$files/report.json"
tensors change "$expected" "$files/unknown" name=y_f32:z_f32
refused 4 2 "an expected output that is none" "$minimal/model.json" --input "$inputs" \
    --check "$files/unknown" -- '"z_f32"' "output"
tensors change "$expected" "$files/retyped" dtype=y_f32:I32
refused 4 2 "an expected output of another dtype" "$minimal/model.json" --input "$inputs" \
    --check "$files/retyped" -- "y_f32" "I32"
refused 2 2 "no file of expected outputs" "$minimal/model.json" --check "$files/absent" -- "absent" "No such file"
refused 2 2 "outputs that cannot be written" "$minimal/model.json" --output /proc/nope -- "/proc/nope"
refused 2 2 "a report that cannot be written" "$minimal/model.json" --json /proc/nope -- "/proc/nope"
mkdir "$files/checkpoint"
cp "$inputs" "$files/checkpoint/model.safetensors"
cp "$inputs" "$files/read-1"
cp "$inputs" "$files/read-0"
echo '[]' >"$files/vocab.json"
refused 2 2 "a trace over weights in a directory" "$minimal/model.json" --weights "$files/checkpoint" \
    --trace "$files/checkpoint/model.safetensors" -- "--trace" "would be written over"
refused 2 2 "a report over what another rank reads" "$minimal/model.json" --input "$files/read-{rank}" \
    --json "$files/read-1" -- "--json" "would be written over"
refused 2 2 "a picture over the vocabulary" "$minimal/model.json" --generate 1 --prompt-ids 1 \
    --vocab "$files/vocab.json" --picture "$files/vocab.json" -- "--picture" "would be written over"
refused 2 2 "one file for two options" "$minimal/model.json" --json "$files/both" \
    --trace "$files/../files/both" -- "--trace" "is written by --json already"
refused 2 2 "one file for two options, one of each rank" "$minimal/model.json" \
    --output "$files/both-{rank}" --picture "$files/both-1" -- "--picture" "is written by --output already"
echo '{}' >"$files/earlier"
refused 2 2 "a trace over the report that is kept" "$minimal/model.json" --json "$files/earlier" \
    --trace "$files/earlier~" -- "earlier~ is written by --trace already"

# --- texts that are no names, and paths that are no text
edit steering 'm["model"] = "a\x1b[31m\nb"; m["cut"] = {"id": "c\nd", "stages": 2, "stage": 0}'
path=$files/$(printf 'not\377utf8').json
cp "$files/steering.json" "$path"
launch 1 "$path" --kernels "$minimal" --input "$inputs" --json "$files/utf8.json"
check "a model that would steer a terminal: runs" ended_with 0
check "a model that would steer a terminal: is shown as one harmless line" prints "model a?[31m?b "
check "a path that is not UTF-8: the JSON is" python3 -B -c 'import json, sys
assert json.load(open(sys.argv[1], encoding="utf-8"))["manifest"].endswith("not\ufffdutf8.json")' "$files/utf8.json"

# --- the device
if [ -z "$gpu" ]; then
    everywhere 5 "a GPU where there is none" "$minimal/model.json" --device cuda -- "libcuda.so.1"
fi
export KERN_EMU_FABRIC=yes
refused 5 2 "a malformed wish for fabric handles" "$minimal/model.json" -- "KERN_EMU_FABRIC=yes" "0, 1 or refuse"
unset KERN_EMU_FABRIC
export KERN_EMU_DEVICES=2
refused 2 4 "4 ranks on 2 devices" "$minimal/model.json" -- "2 visible devices" "--share-devices"
launch 4 "$minimal/model.json" --share-devices
check "4 ranks on 2 devices, --share-devices: ends with 0" ended_with 0
check "4 ranks on 2 devices, --share-devices: two have one" \
    test "$(grep -c ' 0000:01:00.0 ' "$run/out")" -eq 2
export KERN_EMU_DEVICES=none
refused 5 2 "a malformed number of devices" "$minimal/model.json" -- "KERN_EMU_DEVICES=none"
unset KERN_EMU_DEVICES
export KERN_EMU_MEMORY=4M
refused 5 2 "too little device memory" "$examples/ep2/model.json" --weights "$ep2/weights.safetensors" -- \
    "OUT_OF_MEMORY"
unset KERN_EMU_MEMORY
export KERN_EMU_FAIL=cuMemCreat:1
refused 5 2 "a fault of a function that is none" "$minimal/model.json" -- "KERN_EMU_FAIL=cuMemCreat:1" \
    "FUNCTION:COUNT"
export KERN_EMU_FAIL=cuMemAlloc:first
refused 5 2 "a fault without a number" "$minimal/model.json" -- "KERN_EMU_FAIL=cuMemAlloc:first"
unset KERN_EMU_FAIL
export CUDA_VISIBLE_DEVICES=
refused 5 2 "no visible device" "$minimal/model.json" -- "CUDA_VISIBLE_DEVICES"
export CUDA_VISIBLE_DEVICES=3
refused 2 2 "one visible device for two ranks" "$minimal/model.json" -- "ranks 0 and 1" "same device" \
    "--share-devices"
end_jobs
check "one file for two options: it is not written" [ ! -e "$files/both" ]
check "a trace over weights in a directory: they are as before" \
    cmp "$inputs" "$files/checkpoint/model.safetensors"
finish
