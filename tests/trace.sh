#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# --trace: what Perfetto is given, with clocks that belong together.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"

# traced FILE EXPRESSION: whether a Python expression about the trace is true, of which data, spans (by
# (rank, row) with begin and end, in the order of the file), names (of rows) and processes are known.
traced() {
    python3 -B -c 'import collections, json, sys
data = json.load(open(sys.argv[1]))
spans, names, processes = collections.defaultdict(list), {}, {}
for event in data["traceEvents"]:
    row = event["pid"] - 1, event["tid"] - 1
    if event["ph"] == "X":
        event["end"] = event["ts"] + event["dur"]
        spans[row].append(event)
    elif event["name"] == "thread_name":
        names[row] = event["args"]["name"]
    elif event["ph"] == "M" and event["name"].startswith("process_"):
        processes.setdefault(row[0], {}).update(event["args"])
PHASES, STEPS, DEVICE = 0, 1, 2

# Spans of a row follow each other, or the later one lies in the earlier.
def nested(row):
    open_spans = []
    for span in row:
        while open_spans and open_spans[-1]["end"] <= span["ts"] + 0.002:
            open_spans.pop()
        if open_spans and span["end"] > open_spans[-1]["end"] + 0.002:
            return False
        open_spans.append(span)
    return all(a["ts"] <= b["ts"] for a, b in zip(row, row[1:]))

def of_step(rank, number):
    (span,) = [s for s in spans[rank, STEPS] if s["args"]["step"] == number]
    return span

sys.exit(0 if eval("(" + sys.argv[2] + ")") else 1)' "$@"
}

launch 2 "$examples/barrier2/model.json" -n 20 -w 5 --trace "$run/trace.json" --json "$run/report.json"
check "a run: ends with 0" ended_with 0
check "a run: the report names the trace" prints "# trace: $run/trace.json, "
check "a run: processes" traced "$run/trace.json" \
    'processes[0]["name"].startswith("rank 0, ") and processes[1]["name"].startswith("rank 1, ") and
     [processes[r]["sort_index"] for r in (0, 1)] == [0, 1] and "clock within" in processes[1]["labels"]'
check "a run: rows" traced "$run/trace.json" \
    '[names[r, row] for r in (0, 1) for row in (0, 1, 2)] == ["phases", "steps", "device"] * 2'
check "a run: phases from the first on" traced "$run/trace.json" \
    'all([s["name"] for s in spans[r, PHASES]][0::2][:4] == ["start", "manifest", "topology", "load"] and
         {s["name"] for s in spans[r, PHASES][1::2]} == {"wait for others"} for r in (0, 1))'
check "a run: every step of every rank, warm-up included" traced "$run/trace.json" \
    'all([s["args"]["step"] for s in spans[r, STEPS]] == list(range(1, 26)) for r in (0, 1))'
check "a run: every launch in its step" traced "$run/trace.json" \
    'all([s["name"] for s in spans[r, DEVICE]] ==
         ["step", "calls[0] (barrier) launch 0 peer_barrier"] * 25 for r in (0, 1))'
check "a run: spans lie beside or in each other" traced "$run/trace.json" \
    'len(spans) == 6 and all(nested(row) for row in spans.values())'
check "a run: no time is negative" traced "$run/trace.json" \
    'all(s["ts"] >= 0 and s["dur"] >= 0 for row in spans.values() for s in row)'
# Both are on this machine and have one clock.
check "a run: the clocks' offset is in its error" traced "$run/trace.json" \
    'all(abs(r["clock_offset_us"]) <= r["clock_error_us"] < 1e5 for r in data["otherData"]["ranks"])'
check "a run: ranks meet in each step" traced "$run/trace.json" \
    'all(max(of_step(r, n)["ts"] for r in (0, 1)) <= min(of_step(r, n)["end"] for r in (0, 1)) +
         2 * data["otherData"]["clock_error_us"] for n in range(1, 26))'
check "a run: the JSON report has it" json "$run/report.json" \
    'r["trace"]["spans_dropped"] == 0 and r["trace"]["spans"] > 150 and r["trace"]["clock_error_ns"] > 0'

launch 2 "$examples/barrier2/model.json" -n 3 --graphs on --trace "$run/trace.json"
check "graphs: a step is one span" traced "$run/trace.json" \
    '[s["name"] for s in spans[1, DEVICE]] == ["step"] * 8'
launch 1 "$examples/minimal/model.json" -n 3 --trace "$run/trace.json"
check "one rank: ends with 0" ended_with 0
check "one rank: a trace" traced "$run/trace.json" 'len(spans[0, STEPS]) == 8'
# The device's clock is known from the item whose end was seen soonest, so there are many.
launch 2 --cut 4 "$examples/chain/model.json" --program a -n 200 --trace "$run/trace.json"
check "a pipeline: what the first stage did" traced "$run/trace.json" \
    '[s["name"] for s in spans[0, 3]] == ["a", "wait for room", "hand over"] * 205 and names[0, 3] == "pipeline"'
check "a pipeline: what the last stage did" traced "$run/trace.json" \
    '[s["name"] for s in spans[1, 3]] == ["wait for input", "a"] * 205'
check "a pipeline: an item is taken once it is handed over" traced "$run/trace.json" \
    'all(take["end"] + 2 * data["otherData"]["clock_error_us"] + 1000 >= give["ts"]
         for give, take in zip(spans[0, 3][2::3], spans[1, 3][::2]))'
launch 2 "$examples/barrier2/model.json" -n 3 --json "$run/report.json"
check "without --trace: none" json "$run/report.json" 'r["trace"] is None'

launch 2 "$examples/barrier2/model.json" --trace "$run/none/trace.json"
check "a trace that cannot be written: ends with 2 before the work" eval "ended_with 2 && test ! -s '$run/out'"
check "a trace that cannot be written: said once" says_each_once
launch 2 "$examples/barrier2/model.json" --json "$run/none/report.json"
check "nor can a report: ends with 2 before the work" eval "ended_with 2 && test ! -s '$run/out'"
launch 2 "$examples/barrier2/model.json" -n 3 --trace /dev/full
check "a full disk: ends with 5" ended_with 5
check "a full disk: said" says '/dev/full: cannot be written: No space left'
check "nothing is left" nothing_left
finish
