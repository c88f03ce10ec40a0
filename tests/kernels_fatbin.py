# SPDX-License-Identifier: Apache-2.0
"""kernels_fatbin.py ARTIFACT...: the section .nv_fatbin of each artifact is whole, holds code for
every architecture, and its kernels have the parameters and the static shared memory of the host
half. Exits with 77 where no artifact has such a section, because there was no nvcc to make one."""

import pathlib
import struct
import sys

from kernels_host import load_entries

MAGIC, PTX, ELF, EM_CUDA = 0xBA55ED50, 1, 2, 190
SHT_NOBITS = 8
# Of a block's shared memory the GPU keeps this much for itself, from compute capability 9 on.
RESERVED_SHARED = 1024


def sections(elf):
    """[(name, type, offset, size)] of a 64-bit little-endian ELF file."""
    assert elf[:6] == b"\x7fELF\x02\x01", "not a 64-bit little-endian ELF file"
    (start,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, start + i * size) for i in range(count)]
    table = headers[names][4]
    return [(elf[table + name:elf.index(b"\0", table + name)].decode(), kind, offset, length)
            for name, kind, _, _, offset, length in headers]


def codes(fatbin):
    """[(kind, architecture, bytes)] of the containers that fill the section to its last byte."""
    found, at = [], 0
    while at < len(fatbin):
        magic, version, header, length = struct.unpack_from("<IHHQ", fatbin, at)
        assert magic == MAGIC, f"{magic:#x} at byte {at} is no fatbin"
        assert version == 1 and header == 16, (version, header)
        at += header
        end = at + length
        assert end <= len(fatbin), f"a container ends {end - len(fatbin)} bytes behind the section"
        while at < end:
            kind, _, code_header, size = struct.unpack_from("<HHIQ", fatbin, at)
            (architecture,) = struct.unpack_from("<I", fatbin, at + 28)
            at += code_header
            found.append((kind, architecture, fatbin[at:at + size]))
            at += size
        assert at == end, "a code ends behind its container"
    return found


def attributes(info):
    """[(attribute, bytes)] of a section .nv.info.ENTRY."""
    found, at = [], 0
    while at < len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        at += 4
        found.append((attribute, info[at:at + value] if form == 4 else None))
        at += value if form == 4 else 0
    assert at == len(info)
    return found


def kernels(cubin):
    """{entry: ([(offset, size)], static shared bytes)} of a cubin."""
    assert struct.unpack_from("<H", cubin, 18) == (EM_CUDA,), "not a cubin"
    found, shared = {}, {}
    for name, kind, offset, size in sections(cubin):
        if name.startswith(".nv.info."):
            params = {}
            for attribute, value in attributes(cubin[offset:offset + size]):
                if attribute == 0x17:
                    _, ordinal, place, flags = struct.unpack("<IHHI", value)
                    params[ordinal] = (place, flags >> 18)
            found[name[len(".nv.info."):]] = [params[i] for i in range(len(params))]
        elif name.startswith(".nv.shared.") and kind == SHT_NOBITS:
            shared[name[len(".nv.shared."):]] = size
    return {name: (params, shared.get(name, RESERVED_SHARED) - RESERVED_SHARED)
            for name, params in found.items()}


def check(path):
    elf = path.read_bytes()
    by_name = {name: (offset, size) for name, _, offset, size in sections(elf)}
    if ".nv_fatbin" not in by_name:
        return False
    offset, size = by_name[".nv_fatbin"]
    assert offset % 8 == 0, "containers are 8-byte aligned"
    found = codes(elf[offset:offset + size])
    kinds = sorted((kind, architecture) for kind, architecture, _ in found)
    assert kinds == [(PTX, 90), (ELF, 90), (ELF, 100)], kinds
    entries = load_entries(path)
    host = {name: (entry.layout(), entry.static_shared) for name, entry in entries.items()}
    for kind, architecture, code in found:
        if kind == ELF:
            for name, (params, shared) in kernels(code).items():
                layout, static_shared = host[name]
                assert params == layout, f"{name} sm_{architecture}: {params}, on the host {layout}"
                # nvcc may round it up to an alignment that it wants.
                assert static_shared <= shared < static_shared + 16, (name, shared, static_shared)
            assert kernels(code).keys() == host.keys(), (kernels(code).keys(), host.keys())
        else:
            for name in host:
                assert f".entry {name}".encode() in code, f"no {name} in the PTX"
    print(f"{path.name}: {size} bytes of GPU code, {len(host)} kernels: ok")
    return True


def main():
    paths = [pathlib.Path(argument) for argument in sys.argv[1:]]
    assert paths, "no artifacts named"
    whole = [check(path) for path in paths]
    if not any(whole):
        print("skipped: the kernels were built without nvcc, so they have no GPU half")
        sys.exit(77)
    assert all(whole), "some artifacts have a GPU half and some have none"


main()
