#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables of what examples/p2p measured: row and column are ranks; the rank of the row measures.

PATTERN is what kern-rank was given as --output, with its {rank}."""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from manifest import read_safetensors  # noqa: E402

TABLES = (
    ("write_gb_s", "write: GB/s from the row's memory into the column's", 1),
    ("read_gb_s", "read: GB/s from the column's memory into the row's", 1),
    ("flag_us", "flag: microseconds until the other rank sees it, half a round trip", 2),
)


def fail(text):
    sys.exit(f"matrix.py: {text}")


def read_rows(pattern):
    """The outputs of every rank as lists, by name."""
    ranks, rows = 1, []
    while len(rows) < ranks:
        path = pathlib.Path(pattern.replace("{rank}", str(len(rows))))
        if not path.is_file():
            fail(f"there is no {path}; run kern-rank with --output '{pattern}'")
        tensors = read_safetensors(path)
        missing = [name for name in ("measured", "wrong_words", *(t[0] for t in TABLES))
                   if name not in tensors]
        if missing:
            fail(f"{path} has no {missing[0]}: it is no output of examples/p2p")
        rows.append({name: tensor.values for name, tensor in tensors.items()})
        ranks = len(rows[0]["measured"])
    return rows


def check(rows):
    ranks = range(len(rows))
    pairs = [(a, b) for a in ranks for b in ranks]
    unmeasured = [pair for pair in pairs if rows[pair[0]]["measured"][pair[1]] == 0]
    wrong = [pair for pair in pairs if rows[pair[0]]["wrong_words"][pair[1]] != 0]
    if unmeasured:
        fail(f"{len(unmeasured)} of {len(pairs)} pairs were not measured, the first of them "
             f"{unmeasured[0]}; kern-rank needs --steps {len(pairs)}")
    if wrong:
        fail("wrong bytes came through the mappings; (rank that saw them, its peer): "
             + ", ".join(map(str, wrong)))


def text_of(title, name, digits, rows):
    # Between a rank and itself no flag passes.
    cells = [[f"{value:.{digits}f}" if value > 0 else "-" for value in row[name]] for row in rows]
    width = max(len(cell) for line in cells for cell in line) + 2
    width = max(width, len(str(len(rows))) + 2)
    lines = [f"# {title}", "#     " + "".join(str(r).rjust(width) for r in range(len(rows)))]
    lines += [f"{r:6}" + "".join(cell.rjust(width) for cell in line) for r, line in enumerate(cells)]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the tables as JSON as well")
    parser.add_argument("pattern", metavar="PATTERN")
    args = parser.parse_args()
    if "{rank}" not in args.pattern:
        fail("PATTERN has no {rank}")
    rows = read_rows(args.pattern)
    check(rows)
    print("\n".join(text_of(title, name, digits, rows) for name, title, digits in TABLES))
    if args.json:
        tables = {name: [[value or None for value in row[name]] for row in rows]
                  for name, _, _ in TABLES}
        pathlib.Path(args.json).write_text(json.dumps({"ranks": len(rows), **tables}, indent=1) + "\n")


if __name__ == "__main__":
    main()
