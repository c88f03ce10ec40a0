# SPDX-License-Identifier: Apache-2.0
"""kern_kernels.py KERN BUILD: `kern verify --kernels` of every example, and of artifacts with known
parameters (tests/data/layouts), which manifests declare rightly and wrongly."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

KERN, BUILD = sys.argv[1], pathlib.Path(sys.argv[2])
DATA = pathlib.Path(__file__).parent / "data" / "layouts"
MIXED = ["in buffer<f32>", "i32", "i64", "u8", "f32", "bytes<48>", "bytes<3>", "out buffer<i64>"]
PATH = os.environ["PATH"]
failed = 0


def check(what, good, result):
    global failed
    if not good:
        failed += 1
        print(f"FAIL  {what}: ends with {result.returncode}\n{result.stdout}{result.stderr}")


def verify(*words):
    return subprocess.run([KERN, "verify", *map(str, words)], capture_output=True, text=True,
                          timeout=60, check=False)


def manifest(artifact, params=None, entry="mixed"):
    """One launch of an entry, whose parameters are [params], with an argument for each."""
    params = params or MIXED
    args = []
    for param in params:
        if param.startswith("bytes"):
            size = int(param[6:-1])
            args.append({"pack": {"size": size, "fields": [{"at": 0, "u8": 1, "width": 1}]}})
        elif "buffer" in param:
            args.append({"param": 0 if param.startswith("in") else 1})
        else:
            args.append({param: 1})
    text = artifact.read_bytes()
    return {
        "schema_version": 7, "model": "layouts",
        "modules": {"k": {"source": artifact.name, "sha256": hashlib.sha256(text).hexdigest()}},
        "buffers": {"x": {"dtype": "f32", "shape": [4], "kind": "input"},
                    "y": {"dtype": "i64", "shape": [1], "kind": "output"}},
        "ops": {"op": {"params": ["in buffer<f32>", "out buffer<i64>"], "impl": {"launches": [
            {"module": "k", "entry": entry, "block": [1, 1, 1], "grid": [1, 1, 1],
             "params": params, "args": args}]}}},
        "programs": {"p": {"calls": [{"op": "op", "args": [{"buf": "x"}, {"buf": "y"}]}]}},
    }


def judge(folder, content):
    path = folder / "manifest.json"
    path.write_text(json.dumps(content))
    return verify("--kernels", folder, path)


def examples():
    os.environ["PATH"] = fake_cuobjdump("exit 0")
    found = sorted(path for path in (BUILD / "examples").rglob("*.json")
                   if '"schema_version"' in path.read_text()[:4096])
    assert len(found) > 8, found
    for path in found:
        result = verify("--kernels", BUILD / "kernels", path)
        check(path, result.returncode == 0 and "host half" in result.stdout, result)


def known_parameters(folder):
    cases = {"mixed_sm_90.cubin": "sm_90", "mixed_sm_100.cubin": "sm_100", "mixed.ptx": "PTX",
             "mixed.fatbin": "compute_90, sm_90, sm_100"}
    for name, targets in cases.items():
        result = judge(folder, manifest(DATA / name))
        check(name, result.returncode == 0 and f"mixed  {targets} " in result.stdout, result)
        for at, other, text in [
                (1, "i64", "parameter 1 is declared i64, 8 bytes at 8; it is 4 bytes at 8"),
                (3, "i32", "parameter 3 is declared i32, 4 bytes at 24; it is 1 bytes at 24"),
                (5, "bytes<40>", "parameter 5 is declared bytes<40>"),
        ]:
            result = judge(folder, manifest(DATA / name, MIXED[:at] + [other] + MIXED[at + 1:]))
            check(f"{name} with {other}", result.returncode == 4 and text in result.stderr
                  and "entry mixed of module k" in result.stderr
                  and targets.split(",")[0] in result.stderr, result)
        result = judge(folder, manifest(DATA / name, MIXED[:3] + MIXED[5:]))
        check(f"{name} with fewer", result.returncode == 4 and "parameter 3" in result.stderr, result)
        result = judge(folder, manifest(DATA / name, MIXED[:7] + ["i32"] + MIXED[7:]))
        check(f"{name} with more", result.returncode == 4 and "parameter 7" in result.stderr, result)
        result = judge(folder, manifest(DATA / name, entry="absent"))
        check(f"{name} without it", result.returncode == 4
              and "has no entry absent: not in " + targets in result.stderr, result)


def what_cannot_be_read(folder):
    result = judge(folder, manifest(DATA / "mixed_compressed.fatbin"))
    check("compressed", result.returncode == 0 and "sm_90 (compressed)" in result.stdout, result)


def several_containers(folder):
    """A shared object as a PyTorch extension is one, with two containers that hold the same name."""
    if not shutil.which("gcc"):
        return
    source, artifact = folder / "section.S", folder / "two.so"
    source.write_text('.section .nv_fatbin,"a"\n.balign 8\n'
                      f'.incbin "{DATA / "other.fatbin"}"\n.balign 8\n'
                      f'.incbin "{DATA / "mixed.fatbin"}"\n.section .note.GNU-stack,"",%progbits\n')
    subprocess.run(["gcc", "-shared", "-nostdlib", "-o", artifact, source], check=True)
    result = judge(folder, manifest(artifact))
    check("two containers", result.returncode == 0 and "compute_90" in result.stdout, result)
    other = manifest(artifact, ["i32", "out buffer<i64>"])
    other["ops"]["op"]["params"] = ["in buffer<f32>", "out buffer<i64>"]
    result = judge(folder, other)
    check("one of them", result.returncode == 4 and "compute_90: parameter 0" in result.stderr
          and "sm_90: parameter" not in result.stderr, result)
    result = judge(folder, manifest(artifact, ["out buffer<i64>"], entry="only"))
    check("only in one", result.returncode == 0 and " sm_90 " in result.stdout
          and "sm_100" in result.stdout, result)


def what_is_missing(folder):
    content = manifest(DATA / "mixed.ptx")
    (folder / "mixed.ptx").write_text("not it")
    result = judge(folder, content)
    check("another digest", result.returncode == 4 and "modules.k" in result.stderr
          and "its sha256 is" in result.stderr, result)
    (folder / "mixed.ptx").unlink()
    result = judge(folder, content)
    check("missing", result.returncode == 4 and "no artifact of source" in result.stderr, result)
    junk = folder / "junk"
    junk.write_bytes(b"neither this nor that")
    result = judge(folder, manifest(junk))
    check("no code", result.returncode == 4 and "it holds no code" in result.stderr, result)
    result = verify("--kernels", folder / "absent", folder / "manifest.json")
    check("no folder", result.returncode == 2, result)


def fake_cuobjdump(script):
    """PATH with a cuobjdump of ours in front."""
    folder = tempfile.mkdtemp(dir=SCRATCH)
    program = pathlib.Path(folder) / "cuobjdump"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{folder}:{PATH}"


def multicast():
    barrier = BUILD / "examples" / "barrier" / "model.json"
    minimal = BUILD / "examples" / "minimal" / "model.json"
    if b".nv_fatbin" not in (BUILD / "kernels" / "peer_barrier.so").read_bytes():
        return
    dump = """printf '\tcode for sm_90\n\t\tFunction : %s\n'
        printf '        /*0e90*/  UBLKCP.S.G.%s [UR8], [UR4], UR6 ;\n'"""
    warning = "entry peer_barrier of module peer_barrier copies by multicast"
    for function, word, warned in [("peer_barrier", "MULTICAST", True), ("other", "MULTICAST", False),
                                   ("peer_barrier", "BULK", False)]:
        os.environ["PATH"] = fake_cuobjdump(dump.replace("%s", function, 1).replace("%s", word, 1))
        result = verify("--kernels", BUILD / "kernels", barrier)
        check(f"multicast {function} {word}", result.returncode == 0
              and (warning in result.stderr) == warned, result)
    asked = pathlib.Path(SCRATCH) / "asked"
    os.environ["PATH"] = fake_cuobjdump(f'echo "$@" > {asked}')
    verify("--kernels", BUILD / "kernels", minimal)
    result = verify("--kernels", BUILD / "kernels", barrier)
    check("what cuobjdump is asked", asked.exists() and "-sass " in asked.read_text()
          and "peer_barrier.so" in asked.read_text(), result)
    os.environ["PATH"] = fake_cuobjdump("exit 3")
    result = verify("--kernels", BUILD / "kernels", barrier)
    check("cuobjdump fails", result.returncode == 0 and "and it failed" in result.stderr, result)
    os.environ["PATH"] = SCRATCH
    result = verify("--kernels", BUILD / "kernels", barrier)
    check("no cuobjdump", result.returncode == 0 and "it is not in PATH" in result.stderr
          and result.stderr.count("warning:") == 1, result)
    result = verify("--kernels", BUILD / "kernels", minimal)
    check("no peers", result.returncode == 0 and not result.stderr, result)
    os.environ["PATH"] = PATH


def as_json(folder):
    path = folder / "manifest.json"
    path.write_text(json.dumps(manifest(DATA / "mixed.fatbin")))
    result = verify("--json", "--kernels", DATA, path, path)
    files = json.loads(result.stdout)
    check("json", result.returncode == 0 and len(files) == 2 and files[1]["kernels"] == [
        {"module": "k", "artifact": str(DATA / "mixed.fatbin"), "entry": "mixed",
         "checked": "compute_90, sm_90, sm_100", "absent": None, "unread": None}], result)
    files = json.loads(verify("--json", path).stdout)
    check("json without", "kernels" not in files[0], result)


with tempfile.TemporaryDirectory() as SCRATCH:
    examples()
    multicast()
    place = pathlib.Path(SCRATCH)
    for artifact in DATA.iterdir():
        shutil.copy(artifact, place)
    known_parameters(place)
    what_cannot_be_read(place)
    several_containers(place)
    as_json(place)
    what_is_missing(place)
print("failed" if failed else "ok")
sys.exit(failed > 0)
