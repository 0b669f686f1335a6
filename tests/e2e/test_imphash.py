#!/usr/bin/env python3
# sanitizers: asan-ubsan
"""The import hash and the description of image files (proto/image, by tests/unit/pe_facts.c) against a naive reader (tests/naive_pe.py): images that the
test makes, of 32 and 64 bit, with functions by name and by number, and each of them damaged; the program under test, built for Windows, where it is there.

    python3 tests/e2e/test_imphash.py --build BUILD [--more FOLDER] [--ws2-32 FILE] [--oleaut32 FILE]

With --more all images in a folder are compared as well; names of functions by number are then those that the two libraries export.
"""
import argparse
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import naive_pe  # noqa: E402

RVA, RAW = 0x1000, 0x400
# of the tables of numbers: the first, the last and some between
NUMBERS = {"ws2_32.dll": {1: "accept", 4: "connect", 23: "socket", 57: "gethostname", 115: "wsastartup", 151: "__wsafdisset", 500: "wep"},
           "wsock32.dll": {3: "closesocket", 111: "wsagetlasterror"},
           "oleaut32.dll": {2: "sysallocstring", 6: "sysfreestring", 9: "variantclear", 200: "geterrorinfo", 443: "unregistertypelibforuser"}}
LIBRARIES = ["KERNEL32.dll", "WS2_32.dll", "wsock32.DLL", "OleAut32.dll", "a.b.dll", "win32k.sys", "ctl.OCX", "noend", "other.exe", "NTDLL.dll"]
DAMAGED = 40  # of each image


class Section:
    """Bytes that are placed one after the other, and where they are in memory."""

    def __init__(self):
        self.data = bytearray(16)

    def put(self, data, align=4):
        self.data += bytes(-len(self.data) % align)
        at = len(self.data)
        self.data += data
        return RVA + at


def block(key, value, children=b"", length=None):
    body = struct.pack("<HH", len(value) // 2 if length is None else length, 1) + (key + "\0").encode("utf-16le")
    body += bytes(-(len(body) + 2) % 4) + value
    body += bytes(-(len(body) + 2) % 4) + children
    return struct.pack("<H", len(body) + 2) + body


def version(section, description):
    text = block("FileDescription", (description + "\0").encode("utf-16le"))
    fixed = struct.pack("<13I", 0xFEEF04BD, 0x10000, 0x10002, 3, *[0] * 9)
    data = block("VS_VERSION_INFO", fixed, block("StringFileInfo", b"", block("040904b0", b"", text)), len(fixed))
    at = section.put(data)
    tree = struct.pack("<12xHH", 0, 1) + struct.pack("<II", 16, 0x80000018) + struct.pack("<12xHH", 0, 1) + struct.pack("<II", 1, 0x80000030) + \
        struct.pack("<12xHH", 0, 1) + struct.pack("<II", 1033, 72) + struct.pack("<IIII", at, len(data), 0, 0)
    return section.put(tree)


def image(wide, libraries, description):
    """libraries: [(name, [function's name or number])]"""
    section, rows = Section(), []
    pointer, bit = ("<Q", 63) if wide else ("<I", 31)
    for name, functions in libraries:
        entries = [1 << bit | f if isinstance(f, int) else section.put(b"\0\0" + f.encode() + b"\0", 2) for f in functions]
        table = section.put(b"".join(struct.pack(pointer, e) for e in [*entries, 0]), 8)
        rows.append((table if len(rows) % 2 == 0 else 0, section.put(name.encode() + b"\0"), table))
    imports = section.put(b"".join(struct.pack("<IIIII", names, 0, 0, name, addresses) for names, name, addresses in rows) + bytes(20)) if rows else 0
    resources = version(section, description) if description else 0
    optional = bytearray(240 if wide else 224)
    struct.pack_into("<H", optional, 0, 0x20B if wide else 0x10B)
    first = 112 if wide else 96
    struct.pack_into("<I", optional, first - 4, 16)
    struct.pack_into("<II", optional, first + 8, imports, 20 * (len(rows) + 1) if rows else 0)
    struct.pack_into("<II", optional, first + 16, resources, 88 if resources else 0)
    head = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664 if wide else 0x14C, 1, 7, 0, 0, len(optional), 2) + bytes(optional)
    head += struct.pack("<8sIIIIIIHHI", b".rdata", len(section.data), RVA, len(section.data), RAW, 0, 0, 0, 0, 0x40000040)
    return head + bytes(RAW - len(head)) + bytes(section.data)


def generated(rng):
    libraries = []
    for name in rng.sample(LIBRARIES, rng.randint(0, 6)):
        known = list(NUMBERS.get(name.lower(), ()))
        functions = [rng.choice([*known, rng.randint(600, 65535), f"Function{rng.randint(0, 99)}", "x" * rng.randint(1, 300)]) for _ in range(rng.randint(0, 12))]
        libraries.append((name, functions))
    return libraries, rng.choice(["", "Größe & Co", "Windows PowerShell", "d" * 120])


def answers(program, paths):
    done = subprocess.run([program, *paths], capture_output=True, text=True, encoding="utf-8", timeout=120)
    if done.returncode not in (0, 1) or "runtime error" in done.stderr or "Sanitizer" in done.stderr:
        raise SystemExit(f"pe_facts ended with {done.returncode}: {done.stderr[-2000:]}")
    lines = (line.split("\t") for line in done.stdout.split("\n"))
    return {line[2]: (line[0], line[1]) for line in lines if len(line) == 3}  # a damaged description has any characters


def compare(got, want, what):
    wrong = [(path, want[path], got.get(path)) for path in want if got.get(path) != want[path]]
    if wrong:
        raise SystemExit(f"{what}: {len(wrong)} of {len(want)} differ: (path, expected, got) {wrong[:3]}")


def bounds(program, folder):
    """As many functions and libraries as proto/image/pe_imports.h allows, and one more; a name that is too long; a name without an end."""
    cases = {"functions": ([("many.dll", [7] * 65536)], True), "functions+1": ([("many.dll", [7] * 65537)], False),
             "libraries": ([("a.dll", [1])] * 4095, True), "libraries+1": ([("a.dll", [1])] * 4096, False),
             "name": ([("a.dll", ["n" * 511])], True), "name+1": ([("a.dll", ["n" * 512])], False)}
    want = {}
    for name, (libraries, is_good) in cases.items():
        data = image(True, libraries, "bounds")
        (folder / name).write_bytes(data)
        want[str(folder / name)] = (naive_pe.imphash(data, NUMBERS) if is_good else "-", "bounds")
    compare(answers(program, want), want, "bounds")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--more", type=pathlib.Path)
    parser.add_argument("--ws2-32", type=pathlib.Path)
    parser.add_argument("--oleaut32", type=pathlib.Path)
    options, _ = parser.parse_known_args()
    program, rng = options.build / "tests" / "unit" / "pe_facts", random.Random(24)
    with tempfile.TemporaryDirectory() as name:
        folder, want, damaged = pathlib.Path(name), {}, []
        for i in range(200):
            libraries, description = generated(rng)
            data = image(i % 2 == 0, libraries, description)
            path = folder / f"{i}.dll"
            path.write_bytes(data)
            want[str(path)] = (naive_pe.imphash(data, NUMBERS) or "-", description or "-")
            for k in range(DAMAGED if i < 20 else 0):
                bad = bytearray(data[:rng.randint(RAW, len(data))] if k % 4 == 0 else data)
                for _ in range(rng.randint(1, 6)):
                    at = rng.randrange(RAW, len(bad)) if len(bad) > RAW else 0
                    bad[at:at + 4] = rng.choice([b"\xff" * 4, bytes(4), struct.pack("<I", RVA + rng.randrange(len(data)))])
                damaged.append(folder / f"{i}-{k}.bad")
                damaged[-1].write_bytes(bad)
        hashes = {imphash for imphash, _ in want.values()}
        if len(hashes) < 100 or "-" not in hashes:
            raise SystemExit(f"the images are too much alike: {len(hashes)} hashes")
        got = answers(program, want)
        compare(got, want, "made images")
        bounds(program, folder)
        kept = answers(program, damaged)
        print(f"{len(want)} images as the naive reader has them; of {len(damaged)} damaged ones {sum(h != '-' for h, _ in kept.values())} have a hash", flush=True)
    built = [p for p in (options.build.parent / "windows").glob("*/app/*.exe") if p.is_file()]
    real = {str(p): p.read_bytes() for p in [*built, *(sorted(options.more.glob("*.*")) if options.more else ())]}
    real = {path: data for path, data in real.items() if data[:2] == b"MZ"}
    known = dict(NUMBERS)
    if options.ws2_32 and options.oleaut32:
        sockets, known["oleaut32.dll"] = naive_pe.exports(options.ws2_32.read_bytes()), naive_pe.exports(options.oleaut32.read_bytes())
        known["ws2_32.dll"] = known["wsock32.dll"] = sockets
    if real:
        got = {path: facts[0] for path, facts in answers(program, real).items()}
        compare(got, {path: naive_pe.imphash(data, known) or "-" for path, data in real.items()}, "images that a linker made")
        print(f"{len(real)} images that a linker made as the naive reader has them")
    print(f"{len(want) + len(damaged) + len(real)} passed, 0 failed")  # compare and bounds end the program at the first difference


if __name__ == "__main__":
    main()
