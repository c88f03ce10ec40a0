#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random JSON texts, whole and damaged: the reader must accept what Python's does, and read the same.

    json_random.py PRINT [COUNT [SEED]]    PRINT is tests/json_print"""

import json
import random
import re
import subprocess
import sys

NUMBERS = ["0", "-0", "1", "12", "-7", "0.5", "1e3", "1E+2", "1.25e-7", "18446744073709551615",
           "18446744073709551616", "9007199254740993", "-9223372036854775809", "1e400", "1e-400",
           "2.2250738585072011e-308", "4.9406564584124654e-324", "1.7976931348623158e308",
           "0.1000000000000000055511151231257827021181583404541015625", "123456789012345678901e-9"]
STRINGS = ["", "a", "key", "\u00e9", "\u4e2d", "\U0001f600", "\n\t\\\"/", "\x7f", "\ud7ff", "\uffff",
           "x" * 40]
SPACES = ["", "", "", " ", "\n", "\t", "\r\n", "  "]
# What is put in to damage a text.
BITS = [b"", b",", b":", b"{", b"}", b"[", b"]", b'"', b"'", b"\\", b"\\u0000", b"\\ud800",
        b"\\udc00", b"\\ud83d\\ude00", b"\\u00", b"\\x", b"\0", b"\x01", b"\x7f", b"\x80", b"\xc0\x80",
        b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"0", b"-", b"+", b".", b"e", b"e5",
        b"E-", b"NaN", b"Infinity", b"null", b"tru", b"true", b"/", b"#", b" ", b"\n", b"\f",
        b"\xc2\xa0"]


def write_string(rng, text):
    """With a random choice of escapes."""
    written = ""
    for char in text:
        escaped = json.dumps(char)[1:-1]
        if char < " " or char in '"\\' or rng.random() < 0.3:
            written += escaped if rng.random() < 0.5 else "".join(
                f"\\u{unit:04X}" for unit in units(char))
        else:
            written += char
    return f'"{written}"'


def units(char):
    """The UTF-16 code units of a character."""
    data = char.encode("utf-16-be")
    return [data[i] << 8 | data[i + 1] for i in range(0, len(data), 2)]


def write(rng, depth):
    """A random value with random white space."""
    kind = rng.randrange(8 if depth < 6 else 5)
    space = rng.choice(SPACES)
    if kind < 2:
        return space + rng.choice(NUMBERS)
    if kind < 4:
        return space + write_string(rng, rng.choice(STRINGS)) + rng.choice(SPACES)
    if kind == 4:
        return space + rng.choice(["null", "true", "false"])
    # Now and then more members than are compared one by one.
    count = rng.choice([0, 1, 2, 3, 20 if depth > 3 else 4])
    if kind < 7:
        members = (f"{rng.choice(SPACES)}{write_string(rng, rng.choice(STRINGS))}"
                   f"{rng.choice(SPACES)}:{write(rng, depth + 1)}" for _ in range(count))
        return space + "{" + ",".join(members) + rng.choice(SPACES) + "}"
    return space + "[" + ",".join(write(rng, depth + 1) for _ in range(count)) + space + "]"


def damage(rng, text):
    at = rng.randrange(len(text) + 1)
    cut = rng.choice([0, 0, 1, 2])
    return text[:at] + rng.choice(BITS) + text[at + cut:]


def refuse(word):
    raise ValueError(word)


def read(text):
    """What Python makes of it: objects as lists of pairs, numbers as their text and their value."""
    try:
        value = json.loads(text.decode(), parse_constant=refuse, object_pairs_hook=lambda p: ("{", p),
                           parse_int=number, parse_float=number)
    except (ValueError, RecursionError):
        return None
    # Python lets pass what no UTF-8 can say, and NUL characters.
    return None if re.search("[\0\ud800-\udfff]", all_strings(value)) else value


def number(text):
    return f"{text} = {float(text).hex()}"


def all_strings(value):
    """All strings and keys in a value, end to end."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return "".join(key + all_strings(member) for key, member in value[1])
    return "".join(map(all_strings, value)) if isinstance(value, list) else ""


def read_printed(line):
    if line.startswith("refused"):
        return None
    value = json.loads(line, object_pairs_hook=lambda pairs: ("{", pairs))
    return normal(value)


def normal(value):
    """Doubles as Python writes them: C leaves out zeros at the end."""
    if isinstance(value, str):
        match = re.fullmatch(r"(-?[0-9][^ ]*) = (\S+)", value)
        return f"{match[1]} = {float.fromhex(match[2]).hex()}" if match else value
    if isinstance(value, tuple):
        return ("{", [(key, normal(member)) for key, member in value[1]])
    return [normal(one) for one in value] if isinstance(value, list) else value


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    texts = []
    for _ in range(count):
        text = write(rng, 0).encode()
        for _ in range(rng.choice([0, 1, 1, 2])):
            text = damage(rng, text)
        texts.append(text)
    data = b"".join(b"%d\n%s" % (len(text), text) for text in texts)
    printed = subprocess.run([sys.argv[1]], input=data, capture_output=True, check=True)
    lines = printed.stdout.decode().split("\n")[:-1]
    assert len(lines) == count, f"{len(lines)} answers to {count} texts"
    wrong = 0
    accepted = 0
    for text, line in zip(texts, lines):
        expected = read(text)
        accepted += expected is not None
        if read_printed(line) != expected:
            wrong += 1
            if wrong <= 10:
                print(f"{text!r}\n  Python: {expected}\n  kern: {line}")
    print(f"{count} texts, {accepted} accepted: {wrong} differ")
    sys.exit(1 if wrong or not 0.2 < accepted / count < 0.8 else 0)


if __name__ == "__main__":
    main()
