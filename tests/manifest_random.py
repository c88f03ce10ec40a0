#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random manifests, whole and damaged, made from the schema alone: the parser must accept exactly those
that the schema accepts, but for the rules in which the contract asks more (STRICTER).

    manifest_random.py JUDGE SCHEMA [COUNT [SEED]]    JUDGE is tests/manifest_judge"""

import json
import random
import re
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

# Where the contract is stricter than the schema. Each is checked here beside the schema.
STRICTER = {
    "V-KEY field": "a field of a pack has no key but its source, at and width, and one source",
    "V-KEY expr": "an expression that is an object has exactly one key",
    "V-NUM format": "numbers are in the range of their format; f32 and f64 are finite",
    "V-CONST known": "a string where only a number may stand names a constant",
    "V-CONST first": "a string that names a constant stands for its number, never for a var",
    "V-CONST var": "no constant has the name of a var",
    "V-NAME": "names in maps are not empty and have no control characters",
    "V-TYPE bytes": "N of a param bytes<N> is at most 4294967295",
    "V-DUP": "no key stands twice in an object",
}

INTEGERS = {
    "uint8": (0, 2**8 - 1), "uint16": (0, 2**16 - 1), "uint32": (0, 2**32 - 1),
    "uint": (0, 2**64 - 1), "uint64": (0, 2**64 - 1),
    "int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1),
}
# From here on a number rounds to infinity.
INFINITE = {"float": (2 - Fraction(1, 2**24)) * 2**127, "double": (2 - Fraction(1, 2**53)) * 2**1023}
CONSTANT = "Name of a numeric constant declared in constants."
NAMED_MAPS = ("vars", "states", "buffers", "modules", "ops", "programs")


# Validation ------------------------------------------------------------------------------------


def is_number(value):
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def is_integral(value):
    if isinstance(value, int):
        return True
    _, digits, exponent = value.as_tuple()
    kept = "".join(map(str, digits)).rstrip("0")
    return not kept or exponent + len(digits) - len(kept) >= 0


def has_type(value, name):
    return {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "string": isinstance(value, str),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
        "number": is_number(value),
        "integer": is_number(value) and is_integral(value),
    }[name]


def in_format(value, name):
    if name in INTEGERS:
        low, high = INTEGERS[name]
        return low <= value <= high
    # An exponent far beyond the range would take its digits in memory as a fraction.
    if isinstance(value, Decimal) and value.adjusted() > 400:
        return value == 0
    return abs(Fraction(value)) < INFINITE[name]


def takes_constants(schema):
    return schema.get("description") == CONSTANT or any(
        takes_constants(one) for one in schema.get("anyOf", []))


class Validator:
    """Of the keywords that the schema uses, and of what STRICTER lists."""

    def __init__(self, schema):
        self.root, self.defs = schema, schema["$defs"]
        self.field_keys = {"at", "width"} | {
            key for one in self.defs["Field"]["anyOf"] for key in one["properties"]}
        self.constants = {}

    def accepts(self, document):
        constants = document.get("constants") if isinstance(document, dict) else None
        self.constants = constants if isinstance(constants, dict) else {}
        return self.valid(document, self.root) and self.names_are_right(document)

    def names_are_right(self, document):
        maps = [document.get(name, {}) for name in NAMED_MAPS]
        maps += [self.constants, (document.get("topology") or {}).get("groups", {})]
        maps += [op["impl"].get("scratch", {}) for op in document["ops"].values()]
        right = all(name and not re.search("[\x00-\x1f\x7f-\x9f]", name)
                    for one in maps for name in one)
        return right and not self.constants.keys() & document.get("vars", {}).keys()

    def valid(self, value, schema):
        if "anyOf" in schema and isinstance(value, str) and takes_constants(schema):
            value = self.constants.get(value, value)
        if schema.get("description") == CONSTANT:
            return False  # what is a constant has become its number
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            if not self.valid(value, self.defs[name]) or not self.is_strict(value, name):
                return False
        return all(check(self, value, schema[word])
                   for word, check in self.WORDS.items() if word in schema) \
            and self.valid_object(value, schema) and self.valid_array(value, schema)

    def is_strict(self, value, name):
        if name == "Field":
            return value.keys() <= self.field_keys and len(value.keys() - {"at", "width"}) == 1
        if name == "Expr" and isinstance(value, dict):
            return len(value) == 1
        if name == "ParamType" and value.startswith("bytes<"):
            return int(value[6:-1]) <= 2**32 - 1
        return True

    def valid_type(self, value, names):
        names = [names] if isinstance(names, str) else names
        return any(has_type(value, name) for name in names)

    WORDS = {
        "type": valid_type,
        "anyOf": lambda self, value, all_: any(self.valid(value, one) for one in all_),
        "oneOf": lambda self, value, all_: sum(self.valid(value, one) for one in all_) == 1,
        "enum": lambda self, value, words: value in words,
        "const": lambda self, value, word: value == word,
        "minimum": lambda self, value, least: not is_number(value) or value >= least,
        "maximum": lambda self, value, most: not is_number(value) or value <= most,
        "format": lambda self, value, name: not is_number(value) or in_format(value, name),
        "minLength": lambda self, value, least: not isinstance(value, str) or len(value) >= least,
        "pattern": lambda self, value, pattern: not isinstance(value, str)
        or re.fullmatch(pattern, value) is not None,
    }

    def valid_object(self, value, schema):
        if not isinstance(value, dict):
            return True
        if any(key not in value for key in schema.get("required", [])):
            return False
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        names = schema.get("propertyNames")
        for key, member in value.items():
            if names and not self.valid(key, names):
                return False
            one = properties.get(key, more)
            if one is False or (one is not True and not self.valid(member, one)):
                return False
        return True

    def valid_array(self, value, schema):
        if not isinstance(value, list):
            return True
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return False
        first = schema.get("prefixItems", [])
        rest = schema.get("items", {})
        return all(self.valid(item, first[i] if i < len(first) else rest)
                   for i, item in enumerate(value))


# Generation ------------------------------------------------------------------------------------


class Raw(str):
    """A number as it is to be written."""


NAMES = ["a", "b", "n", "kv", "x.0", "\u00e9\U0001f600", "with space"]
CONSTANTS = {"SMALL": "7", "WIDE": "4096", "LARGE": "18446744073709551615", "MINUS": "-3",
             "HALF": "0.5", "POINT": "2560.0", "EXPONENT": "1e3", "HUGE": "1e300"}
INTEGER_TEXTS = ["0", "1", "2", "7", "64", "128", "255", "256", "65535", "65536", "1e3", "2560.0",
                 "12.50e1", "2147483647", "2147483648", "4294967295", "4294967296", "-0", "-1",
                 "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
                 "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
                 "18446744073709551615.0", "1844674407370955161.5e1", "18446744073709551616",
                 "1e19", "1e20", "0e99", "0.0"]
REAL_TEXTS = ["0.5", "-1.5", "1e-7", "1e-400", "3.4028235e38", "3.4028235677973366e38", "3.5e38",
              "340282356779733661637539395458142568447",
              "340282356779733661637539395458142568448", "1.7976931348623157e308", "1e308",
              "1.797693134862315807e308", "1.8e308", "1e400", "-1e999", "2.5e0", "1.5e-1"]
PARAMS = ["i32", "i64", "f32", "u8", "bytes<64>", "bytes<4294967295>", "in state", "inout state",
          "in buffer<bf16>", "out buffer<f32>", "inout buffer<u64>", "in buffer<fp8e8m0>"]
WRONG_PARAMS = ["bytes<0>", "bytes<4294967296>", "bytes<01>", "bytes<1> ", "in  state", "state",
                "buffer<bf16>", "in buffer<f64>", "I32", "", "in buffer<bf16>x", "bytes<>"]


class Generator:
    def __init__(self, schema, rng):
        self.root, self.defs, self.rng = schema, schema["$defs"], rng

    def document(self):
        return self.make(self.root, 0, "")

    def make(self, schema, depth, name):
        rng = self.rng
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            return self.make(self.defs[name], depth + 1, name)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            # Deep down only what nests no further.
            flat = [one for one in choices if "$ref" not in one and one.get("type") != "object"]
            value = self.make(rng.choice(flat if depth > 12 and flat else choices), depth + 1, name)
            if "properties" in schema and isinstance(value, dict):
                value.update(self.make_object(schema, depth, name))
            return value
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return rng.choice(schema["enum"])
        types = schema.get("type", "object")
        kind = rng.choice(types) if isinstance(types, list) else types
        if kind == "object":
            return self.make_object(schema, depth, name)
        if kind == "array":
            return self.make_array(schema, depth)
        return self.make_scalar(schema, kind)

    def make_scalar(self, schema, kind):
        rng = self.rng
        if kind == "null":
            return None
        if kind == "boolean":
            return rng.random() < 0.5
        if kind == "integer":
            low, high = INTEGERS[schema["format"]]
            while True:
                text = rng.choice(INTEGER_TEXTS[:10] if rng.random() < 0.7 else INTEGER_TEXTS)
                if low <= Fraction(text) <= high or rng.random() < 0.02:
                    return Raw(text)
        if kind == "number":
            return Raw(rng.choice(REAL_TEXTS[:4] + INTEGER_TEXTS[:9]
                                  if rng.random() < 0.95 else REAL_TEXTS))
        if schema.get("description") == CONSTANT:
            return rng.choice(list(CONSTANTS)) if rng.random() < 0.1 else "SMALL"
        if "pattern" in schema:
            return rng.choice(PARAMS)
        return rng.choice(NAMES)

    def make_object(self, schema, depth, name):
        rng, value = self.rng, {}
        keys = list(schema.get("properties", {}))
        rng.shuffle(keys)
        for key in keys:
            if key == "constants":
                value[key] = {constant: Raw(text) for constant, text in CONSTANTS.items()}
            elif key == "schema_version":
                value[key] = Raw("7")
            elif key in schema.get("required", []) or rng.random() < 0.4:
                value[key] = self.make(schema["properties"][key], depth + 1, name)
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            for key in rng.sample(NAMES, rng.randint(0, 2)):
                value[key] = self.make(more, depth + 1, name)
        return value

    def make_array(self, schema, depth):
        first = schema.get("prefixItems", [])
        count = max(len(first), schema.get("minItems", 0)) or self.rng.choice([0, 1, 1, 2, 3])
        return [self.make(first[i] if i < len(first) else schema["items"], depth + 1, "")
                for i in range(count)]


# Damage ----------------------------------------------------------------------------------------


class Twice(dict):
    """An object one of whose members, [again], is written a second time."""

    again = None


def places(value, found):
    """Every (container, key) below `value`."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in items:
        found.append((value, key))
        if isinstance(member, (dict, list)):
            places(member, found)
    return found


def damage(document, rng):
    """Changes one thing, which may leave the manifest right."""
    container, key = rng.choice(places(document, []))
    value = container[key]
    action = rng.randrange(8)
    if action == 0:
        container[key] = rng.choice([None, True, False, {}, [], "", "n", "SMALL", "HALF", "bf16",
                                     [Raw("1"), Raw("2")], {"x": None}])
    elif action == 1:
        container[key] = Raw(rng.choice(INTEGER_TEXTS + REAL_TEXTS))
    elif action == 2:
        del container[key]
    elif action == 3 and isinstance(container, dict):
        container[rng.choice(["x", "", "at", "group", "algo", "offset", "segments", "param", "u8",
                              "buf", "max", "mul", "width"])] = value
    elif action == 4 and isinstance(container, dict):
        new = rng.choice([key + "s", key[:-1], key.upper(), "", "\x01", "\x7f", "\x85", "SMALL"])
        container[new] = container.pop(key)
    elif action == 5 and isinstance(value, list):
        value.insert(rng.randint(0, len(value)), rng.choice([None, Raw("1"), "a", {}, []]))
    elif action == 6 and isinstance(value, str):
        container[key] = rng.choice(WRONG_PARAMS + PARAMS + NAMES + ["position", "heads", "rows"])
    elif action == 7 and isinstance(value, dict) and value and rng.random() < 0.3:
        container[key] = Twice(value)
        container[key].again = rng.choice(list(value))


def write(value):
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        members = list(value.items())
        if isinstance(value, Twice) and value.again in value:
            members.append((value.again, value[value.again]))
        return "{" + ",".join(f"{json.dumps(key)}:{write(one)}" for key, one in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return json.dumps(value)


def read(text):
    """The document, and whether a key stands twice in one of its objects."""
    repeated = False

    def pairs(members):
        nonlocal repeated
        repeated = repeated or len(dict(members)) < len(members)
        return dict(members)

    return json.loads(text, parse_float=Decimal, object_pairs_hook=pairs), repeated


def main():
    judge, schema_path = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 5000
    rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    generator, validator = Generator(schema, rng), Validator(schema)
    texts, expected = [], []
    for _ in range(count):
        document = generator.document()
        for _ in range(rng.choice([0, 0, 0, 1, 1, 1, 2])):
            if document:
                damage(document, rng)
        text = write(document)
        read_back, repeated = read(text)
        texts.append(text)
        expected.append(not repeated and validator.accepts(read_back))
    judged = subprocess.run([judge], input="\n".join(texts) + "\n", capture_output=True, text=True,
                            check=True, encoding="utf-8").stdout.split("\n")[:-1]
    assert len(judged) == count, f"{len(judged)} verdicts on {count} manifests"
    wrong = [i for i in range(count) if expected[i] != (judged[i] == "ok")]
    for i in wrong[:10]:
        print(f"the schema {'accepts' if expected[i] else 'refuses'} this, the parser says "
              f"{judged[i]}:\n{texts[i]}\n")
    right = sum(expected)
    print(f"{count} manifests, {right} of them right: {len(wrong)} verdicts differ")
    # Where nearly everything is right or wrong, little was tried.
    sys.exit(1 if wrong or not 0.2 < right / count < 0.8 else 0)


if __name__ == "__main__":
    main()
