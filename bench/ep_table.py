#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the reports of an expert-parallel benchmark as one table.

Each FOLDER is one case: a kern-rank report per round (report*.json), and what ep_alltoallv printed
for the same tokens (alltoallv-SETTINGS*.json), if it was asked. Of several rounds, and of several
settings of MPI, the one with the least median counts.

Two kinds of bytes stand side by side, because the same kernel looks better in one than in the
other: logical bytes count a row for every selection, there (bf16) and back (f32), local ones
included; wire bytes leave out what stays on the rank, as it would be with evenly spread experts.
"""
import argparse
import json
import pathlib


def read(paths):
    """(file name, contents) of each."""
    return [(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def step_of(report):
    return next(p for p in report["programs"] if p["name"] == "step")


def row_of(folder, hidden, top_k):
    reports = read(sorted(folder.glob("report*.json")))
    verdicts = {report["check"]["verdict"] for _, report in reports}
    report = min((r for _, r in reports), key=lambda r: step_of(r)["step_ns"]["median"])
    step = step_of(report)
    ranks, tokens, time = len(report["ranks"]), step["vars"]["tokens"], step["step_ns"]
    logical = tokens * top_k * hidden * (2 + 4)
    row = {
        "ranks": ranks, "nodes": report["nodes"], "tokens": tokens, "KiB": tokens * hidden * 2 / 1024,
        "min us": time["min"] / 1e3, "median us": time["median"] / 1e3, "p99 us": time["p99"] / 1e3,
        "logical GB/s": logical / time["median"],
        "wire GB/s": logical * (ranks - 1) / ranks / time["median"],
    }
    others = read(sorted(folder.glob("alltoallv-*.json")))
    if others:
        name, best = min(others, key=lambda other: other[1]["step_ns"]["median"])
        row["MPI us"] = best["step_ns"]["median"] / 1e3
        row["ratio"] = time["median"] / best["step_ns"]["median"]
        row["MPI settings"] = name.split("-")[1]
    row["check"] = verdicts.pop() if len(verdicts) == 1 else "wrong"
    return row


def text_of(value):
    if isinstance(value, float):
        return f"{value:.0f}" if value == int(value) else f"{value:.3f}" if value < 10 else f"{value:.1f}"
    return str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("hidden", "top-k", "experts"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    rows = [row_of(folder, args.hidden, args.top_k) for folder in args.folders]
    rows.sort(key=lambda row: (row["nodes"], row["ranks"], row["tokens"]))
    print(f"# hidden {args.hidden}, top-k {args.top_k}, {args.experts} experts, bf16 out and f32 back; "
          "KiB: token rows of one rank; a step is as slow as its slowest rank")
    names = list(rows[0])
    lines = [names] + [[text_of(row.get(name, "")) for name in names] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    for number, line in enumerate(lines):
        text = "  ".join(cell.rjust(width) for cell, width in zip(line, widths))
        print(("# " if number == 0 else "  ") + text)


if __name__ == "__main__":
    main()
