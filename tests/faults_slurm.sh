#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What becomes of a job under srun on two nodes, and of a batch job that is cancelled, comes to its time
# limit or loses a node. KERN_TEST_ALL=1 tries every fault in every phase, as tests/faults.sh does.
# shellcheck source=tests/faults_lib.sh disable=SC2317
for tool in munged slurmctld slurmd srun; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo "skipped: a cluster needs root"; exit 77; }

# Each node has a /tmp of its own; what a run leaves must be seen from all.
TMPDIR=$(realpath "${KERN_BUILD:-$(dirname "$0")/../build}")
export TMPDIR
. "$(dirname "$0")/faults_lib.sh"
export KERN_CLUSTER=$build/faults_cluster
cluster=$source_dir/slurm/testcluster
trap '"$cluster" down; tidy' EXIT
"$cluster" up || exit 1
eval "$("$cluster" env)"

world=4
most_jobs=$((2 * $(nproc)))
nodes=2
starter() {
    start=(srun -N2 -n"$1" --ntasks-per-node=$((($1 + 1) / 2)) --mpi=pmix --distribution=block --kill-on-bad-exit=1)
}
# srun ends with the highest code: with 137 if a rank had to be killed, be it on the other node, which
# cannot know who died, or the one that was stopped, and otherwise that of the rank that it was.
job_code() {
    case $1 in
    stop | exit | abort) echo "${code[$1]} 137" ;;
    *) echo "${code[$1]}" ;;
    esac
}
launcher_says() { # WHAT FAULT RANK
    case $2 in
    kill) once "$1: srun names the rank" "^srun: error: kn[01]: task $3: Killed" ;;
    abort) once "$1: srun names the rank" "^srun: error: kn[01]: task $3: Aborted" ;;
    exit) once "$1: srun names rank and code" "^srun: error: kn[01]: task $3: Exited with exit code ${code[exit]}" ;;
    esac
}

# submit FOLDER SCRIPT [WORD…]: a batch job on two nodes with two ranks each, whose id is in $id. Its
# rank 3 stops in a step of its own, which is the sign that all run; what ends it wakes it.
submit() {
    local folder=$1 script=$2
    shift 2
    mkdir -p "$folder"
    id=$(cd "$folder" && env "$mark.$(basename "$run")" KERN_RANK="$kern_rank" sbatch --parsable -N2 \
        --ntasks-per-node=2 --gres=gpu:2 "${limits[@]}" "$source_dir/slurm/$script" --device emu "$@")
}
endless=("$examples/minimal/model.json" -w 0 -n 1000000)

state_of() { # ID
    scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'
}
until_ended() { # ID
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        case $(state_of "$1") in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL) return ;; esac
        sleep 0.2
    done
}
# Whether the job's report is one of a run that was ended by SIGTERM amid its steps.
partial() { # FOLDER
    json "$(echo "$1"/*.json)" "r['stopped_by_signal'] == 15 and 0 < r['programs'][0]['steps'] < 1000000"
}

# Slurm sends the signal between 10 and 40 s after the start, and wakes nobody: the steps take time instead.
at_time_limit() {
    local id limits=(--time=1 --signal=TERM@50) folder=$work/limit
    KERN_EMU_DELAY=cuLaunchKernelEx:1ms submit "$folder" kern-rank.sbatch "${endless[@]}"
    until_ended "$id"
    cp "$folder/kern-rank-$id.out" "$run/out"
    cat "$folder"/*.err >"$run/err"
    check "at its time limit: ends with 143" grep -q "ExitCode=143:0" < <(scontrol show job "$id")
    check "at its time limit: the log says so" prints "# stopped by signal 15"
    check "at its time limit: the report is there" partial "$folder"
}
job at_time_limit

# By default what srun and two nodes may make another thing of.
tried() { # FAULT PHASE
    [ -n "${KERN_TEST_ALL-}" ] || [[ $1-$2 = @(kill|stop|error)-@(load|share|drive|tokens) ]] ||
        [[ $1-$2 = disk-@(check|report) ]]
}
for phase in "${phases[@]}"; do
    model_of "$phase"
    left=()
    for fault in "${faults[@]}"; do
        if tried "$fault" "$phase"; then
            for rank in 0 "$other"; do cell "$fault" "$phase" "$rank"; done
        else
            left+=("$fault")
        fi
    done
    [ ${#left[@]} -eq 0 ] || echo "none  ${left[*]} in $phase: as under mpirun; KERN_TEST_ALL=1 tries it"
done

# scancel wakes the ranks, sends SIGTERM, and kills what is left after KillWait, which on a machine that
# is busy with other jobs can be too short.
end_jobs
cancelled() { # SCRIPT WORD…
    local id pid limits=() folder=$work/cancelled-$1 what="scancel of $1"
    KERN_EMU_FAIL=cuLaunchKernelEx:30:stop@3 submit "$folder" "$@"
    until_stops 3
    scancel "$id"
    until_ended "$id"
    cp "$folder/${1%.sbatch}-$id.out" "$run/out"
    cat "$folder"/*.err >"$run/err"
    check "$what: it is cancelled" test "$(state_of "$id")" = CANCELLED
    check "$what: the log begins with the command" \
        grep -qE "^\+ 'srun' .*model.json.*  # job $id on kn\[0-1\], start 0$" "$run/out"
    check "$what: the log says so" prints "# stopped by signal 15"
    check "$what: the report is there" partial "$folder"
    check "$what: nothing is left" nothing_left
}
job cancelled kern-rank.sbatch "${endless[@]}"
job cancelled pipeline.sbatch --cut 4 "$examples/chain/model.json" -n 1000000
end_jobs

# A node that dies takes its ranks with it; the job is put back, and its log goes on when it is back.
lost_node() {
    local id pid limits=() folder=$work/lost
    KERN_EMU_FAIL=cuLaunchKernelEx:30:stop@3 submit "$folder" kern-rank.sbatch "${endless[@]}"
    until_stops 3
    "$cluster" crash kn1
    for ((tries = 0; tries < 600; tries++)); do
        [ "$(state_of "$id")" = PENDING ] && break
        sleep 0.2
    done
    check "a node dies: the job is put back" grep -q "Restarts=1" < <(scontrol show job "$id")
    # Slurm would wait for two minutes. Shorter than its MessageTimeout it must not be: so long it tries to
    # tell the node to end the first start, and would end the second.
    sleep 11
    "$cluster" start kn1
    scontrol update "JobId=$id" StartTime=now
    until_stops 3
    scancel "$id"
    until_ended "$id"
    cp "$folder/kern-rank-$id.out" "$run/out"
    cat "$folder"/*.err >"$run/err"
    check "a node dies: the log goes on with the second start" \
        test "$(sed -n 's/^+ .*, start //p' "$run/out" | paste -sd' ')" = "0 1"
    check "a node dies: the report is the second start's" partial "$folder"
    check "a node dies: nothing is left" nothing_left
}
lost_node

for node in kn0 kn1; do
    check "$node: nothing is left in its /tmp and /dev/shm" test -z \
        "$(find "/proc/$(cat "$KERN_CLUSTER/node-$node.pid")/root/"{tmp,dev/shm} -mindepth 1)"
done
finish
