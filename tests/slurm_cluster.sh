#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples on a real Slurm cluster of two nodes, which lives as long as this test.
set -eu
export OMPI_MCA_mpi_yield_when_idle=1
export KERN_CLUSTER=$KERN_BUILD/testcluster
cluster=$KERN_SOURCE/slurm/testcluster
for program in munged slurmctld slurmd srun; do
    command -v "$program" >/dev/null || { echo "skipped: $program is not installed"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo "skipped: a cluster needs root"; exit 77; }
work=$(mktemp -d "$KERN_BUILD/slurm_cluster.XXXXXX")
trap '"$cluster" down; rm -rf "$work"' EXIT
# To a file: the daemons keep what they were started with open.
"$cluster" up >"$work/up"
eval "$("$cluster" env)"
failed=0

expect() { # $1: what, $2: expected code, $3: code, $4: words, $5: file with the output
    if [ "$2" = "$3" ] && grep -q -- "$4" "$5"; then
        echo "ok: $1"
    else
        echo "FAILED: $1 (code $3, expected $2; expected \"$4\")"
        cat "$5"
        failed=1
    fi
}

expect "what is up and how to use it is said" 0 0 "^2 nodes are up: eval " "$work/up"
code=0
"$cluster" --help >"$work/out" 2>&1 || code=$?
expect "--help has a word on each verb" 0 "$code" "crash NODE  *end everything" "$work/out"

ep=$KERN_BUILD/examples/ep
ep_run=("$KERN_BUILD/bin/kern-rank" --device emu "$ep/model.json" --weights "$ep/weights.safetensors"
    --input "$ep/inputs-{rank}.safetensors" --steps 5)
two_nodes=(srun -N2 -n8 --ntasks-per-node=4 --mpi=pmix)

code=0
"${two_nodes[@]}" "${ep_run[@]}" --check "$ep/expected-{rank}.safetensors" --atol 1e-5 --rtol 1e-5 \
    --output "$work/two-{rank}" >"$work/out" 2>&1 || code=$?
expect "ep over two nodes" 0 "$code" "check ok" "$work/out"
expect "two nodes are seen" 0 "$code" "8 ranks on 2 nodes" "$work/out"

code=0
srun -N1 -n8 --ntasks-per-node=8 --mpi=pmix "${ep_run[@]}" --output "$work/one-{rank}" \
    >"$work/out" 2>&1 || code=$?
expect "ep on one node" 0 "$code" "8 ranks on 1 node" "$work/out"
for ((r = 0; r < 8; r++)); do
    cmp "$work/one-$r" "$work/two-$r" || failed=1
done
echo "ok: both runs gave the same bytes"

code=0
KERN_EMU_FABRIC=0 "${two_nodes[@]}" "${ep_run[@]}" >"$work/out" 2>&1 || code=$?
expect "a group over two nodes without fabric handles is refused" 5 "$code" \
    "group ep spans the nodes kn0, kn1 and shares .*IMEX" "$work/out"

python3 -B "$KERN_SOURCE/tests/rank_collective.py" 4 "$work/collective"
code=0
KERN_EMU_FABRIC=0 srun -N2 -n4 --ntasks-per-node=2 --mpi=pmix "$KERN_BUILD/bin/kern-rank" --device emu \
    "$work/collective/model.json" --input "$work/collective/inputs-{rank}.safetensors" \
    --check "$work/collective/expected-{rank}.safetensors" -n 3 -w 1 >"$work/out" 2>&1 || code=$?
expect "collectives over two nodes need no fabric handles" 0 "$code" "check ok" "$work/out"
expect "collectives over two nodes: two nodes are seen" 0 "$code" "4 ranks on 2 nodes" "$work/out"

b=$KERN_BUILD/examples/barrier4
code=0
KERN_EMU_FABRIC=0 "${two_nodes[@]}" "$KERN_BUILD/bin/kern-rank" --device emu "$b/model.json" \
    >"$work/out" 2>&1 || code=$?
expect "groups inside the nodes fall back to file descriptors" 0 "$code" "file descriptors, because" "$work/out"

code=0
srun -N2 -n4 --ntasks-per-node=2 --gpus-per-task=1 --mpi=pmix "$KERN_BUILD/bin/kern-rank" --device emu \
    "$b/model.json" >"$work/out" 2>&1 || code=$?
expect "one visible device per task" 0 "$code" "0000:01:00.0" "$work/out"

code=0
(cd "$work" && sbatch --wait -N2 --ntasks-per-node=2 --gres=gpu:2 \
    --export="ALL,KERN_HOME=$KERN_SOURCE,KERN_BUILD=$KERN_BUILD,EP_TOKENS=4 8,EP_STEPS=5" \
    "$KERN_SOURCE/slurm/ep-bench.sbatch") >"$work/out" 2>&1 || code=$?
cat "$work"/ep-bench-*.out "$work"/ep-bench-*.err >>"$work/out" 2>/dev/null || true
expect "sbatch ep-bench" 0 "$code" "^ *4 *2 *8 .* ok$" "$work/out"

# What the cluster itself makes of what it is told.
verb() { # WHAT CODE WORDS VERB…
    local what=$1 expected=$2 words=$3
    shift 3
    code=0
    "$cluster" "$@" >"$work/out" 2>&1 || code=$?
    echo "(that was $*)" >>"$work/out"
    expect "$what" "$expected" "$code" "$words" "$work/out"
}
sleep 1000 &
stranger=$!
verb "a node that is up is not started" 1 "kn1 is up already" start kn1
verb "a node loses its power" 0 "" crash kn1
verb "a node loses its power but once" 1 "kn1 is not up" crash kn1
verb "a node comes back" 0 "" start kn1
verb "a node loses its power again" 0 "" crash kn1
echo $stranger >"$KERN_CLUSTER/node-kn1.pid"
verb "a process that has the number of a node by now is none" 1 "kn1 is not up" crash kn1
verb "a cluster is ended" 0 "the cluster is down" down
if ! kill "$stranger" || [ -e "$KERN_CLUSTER" ]; then
    echo "FAILED: down ended a process that is not its own, or left its folder"
    failed=1
fi
for word in up down; do
    KERN_CLUSTER=$work verb "$word: a folder of other things stays" 2 "is not the folder of a cluster" $word
done
verb "no cluster has no nodes" 1 "no cluster is up in" crash kn1
exit $failed
