#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the reports of an expert-parallel benchmark as one table.

Two kinds of bytes stand side by side, because the same kernel looks better in one than in the other:
logical bytes count a row for every selection, there (bf16) and back (f32), local ones included; wire
bytes leave out what stays on the rank, as it would be with evenly spread experts.
"""
import argparse
import json


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, required=True)
    parser.add_argument("--top-k", type=int, required=True)
    parser.add_argument("--experts", type=int, required=True)
    parser.add_argument("reports", nargs="+")
    arguments = parser.parse_args()
    rows = []
    for path in arguments.reports:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        program = next(p for p in report["programs"] if p["name"] == "step")
        ranks, tokens = len(report["ranks"]), program["vars"]["tokens"]
        logical = tokens * arguments.top_k * arguments.hidden * (2 + 4)
        wire = logical * (ranks - 1) / ranks
        time = program["step_ns"]
        rows.append((tokens, ranks, report["nodes"], logical, wire, time["min"] / 1e3, time["median"] / 1e3,
                     time["p99"] / 1e3, time["max"] / 1e3, logical / time["median"], wire / time["median"],
                     report["check"]["verdict"]))
    print(f"# hidden {arguments.hidden}, top-k {arguments.top_k}, {arguments.experts} experts, "
          "bf16 out and f32 back; per rank and step, a step as slow as its slowest rank")
    print(f"#{'tokens':>8} {'ranks':>6} {'nodes':>6} {'logical B':>11} {'wire B':>11} {'min us':>9} "
          f"{'median':>9} {'p99':>9} {'max':>9} {'logical GB/s':>13} {'wire GB/s':>10}  check")
    for row in sorted(rows):
        print(f" {row[0]:>8} {row[1]:>6} {row[2]:>6} {row[3]:>11} {row[4]:>11.0f} {row[5]:>9.1f} "
              f"{row[6]:>9.1f} {row[7]:>9.1f} {row[8]:>9.1f} {row[9]:>13.3f} {row[10]:>10.3f}  {row[11]}")


if __name__ == "__main__":
    main()
