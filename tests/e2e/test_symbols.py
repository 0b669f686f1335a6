"""Symbols: an image and its PDB, built here by clang and lld-link, named to function, line and inlined function; with and without
a symbolizer, and with symbolizers that fail; a symbol server on loopback, cold, warm, and with everything that goes wrong with one;
PDBs that are missing, another's, cut or hostile: one clear line each. Then the same for an address of a recorded machine.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Stacks, profiles and symbols 10: An address has its function and line. | each byte of a 64-bit and a 32-bit image equals the answer of
#   llvm-symbolizer with the image at hand | 2026-11-22
# - Stacks, profiles and symbols 11: ... whatever symbol server, PDB or symbolizer there is. | 13 kinds of servers, 11 hostile PDBs, 6 broken
#   symbolizers: one line of log each | 2026-11-22
# sanitizers: asan-ubsan
import collections
import http.client
import http.server
import importlib.util
import json
import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import threading
import time
import uuid
import zlib

import harness
import web_world

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = """\
static __attribute__((always_inline)) inline int leaf(int x) {
    volatile int y = x * 3;
    return y + 1;
}
static __attribute__((always_inline)) inline int twig(int x) {
    volatile int z = leaf(x) + 2;
    return z;
}
__attribute__((noinline)) int branch(int x) {
    int a = twig(x);
    return a * 2;
}
__attribute__((noinline, used)) static int hidden(int x) {
    volatile int b = x;
    return b * 5;
}
int entry(int x) {
    return branch(x) + leaf(x) + hidden(x);
}
"""
SERVER_MODES = ("whole", "packed", "lzx", "pointer", "absent", "other", "cut", "cut once", "silent", "busy once", "forbidden", "huge", "garbage", "redirect", "redirect elsewhere", "redirect to a file", "redirect to https", "redirect for ever")


def build(env, folder, target, machine, source=SOURCE):
    """An image and its PDB."""
    folder.mkdir(parents=True)
    (folder / "code.c").write_text(source)
    env.run(["clang", f"--target={target}", "-g", "-gcodeview", "-O1", "-c", folder / "code.c", "-o", folder / "code.obj"])
    env.run(["lld-link", "/nologo", "/debug", "/dll", "/noentry", "/nodefaultlib", f"/machine:{machine}", "/safeseh:no", "/export:entry",
             "/pdbaltpath:code.pdb", f"/out:{folder}/code.dll", f"/pdb:{folder}/code.pdb", folder / "code.obj"])
    return folder / "code.dll", folder / "code.pdb"


def identity(image):
    """GUID and age in an image's RSDS record, and the folder's name in a symbol store."""
    data = image.read_bytes()
    at = data.index(b"RSDS")
    guid, age = uuid.UUID(bytes_le=data[at + 4:at + 20]), struct.unpack_from("<I", data, at + 20)[0]
    return guid, age, f"{guid.hex.upper()}{age:X}"


def code(image):
    """Where .text is: (RVA, bytes)."""
    data = image.read_bytes()
    pe = struct.unpack_from("<I", data, 60)[0]
    sections = pe + 24 + struct.unpack_from("<H", data, pe + 20)[0]
    size, rva = struct.unpack_from("<II", data, sections + 8)
    assert data[sections:sections + 5] == b".text"
    return rva, size


def span(image):
    rva, size = code(image)
    return rva, rva + size


def cabinet(data, method):
    """A cabinet with one file, MSZIP (1), or one that says LZX (3)."""
    blocks = b""
    for at in range(0, len(data), 32768):
        plain = data[at:at + 32768]
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, data[at - 32768:at]) if at else zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = b"CK" + deflate.compress(plain) + deflate.flush()
        blocks += struct.pack("<IHH", 0, len(packed), len(plain)) + packed
    name = b"code.pdb\0"
    file_at = 36 + 8
    head = b"MSCF" + struct.pack("<IIIIIBBHHHHH", 0, file_at + 16 + len(name) + len(blocks), 0, file_at, 0, 3, 1, 1, 1, 0, 0, 0)
    folder = struct.pack("<IHH", file_at + 16 + len(name), -(-len(data) // 32768), method)
    return head + folder + struct.pack("<IIHHHH", len(data), 0, 0, 0, 0, 0) + name + blocks


class Server:
    """A symbol server whose every path begins with how it is to behave."""

    def __init__(self, data, other, elsewhere=None):
        self.asked, self.elsewhere = [], elsewhere
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, status, body=b"", cut=None):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body[:cut])
                except OSError:
                    pass
                if cut is not None:
                    self.close_connection = True

            def do_GET(self):
                mode, _, path = self.path.lstrip("/").partition("/")
                mode, name = mode.replace("%20", " "), path.rsplit("/", 1)[-1]
                outer.asked.append(self.path)
                is_first = sum(p.startswith(self.path) for p in outer.asked) == 1
                if mode == "silent":
                    outer.release.wait(120)
                    self.close_connection = True
                elif mode == "forbidden":
                    self.answer(403)
                elif mode.startswith("redirect"):
                    self.send_response(302)
                    self.send_header("Location", {"redirect": "/whole/" + path, "redirect elsewhere": f"{outer.elsewhere.url('whole')}/{path}" if outer.elsewhere else "",
                                                  "redirect to a file": "file:///etc/passwd", "redirect for ever": self.path,
                                                  "redirect to https": f"{outer.elsewhere.url('whole')}/{path}".replace("http:", "https:") if outer.elsewhere else ""}[mode])
                    self.send_header("Content-Length", "20000")
                    self.end_headers()
                    self.wfile.write(b"x" * 20000)
                elif mode == "busy once" and is_first:
                    self.answer(503)
                elif mode == "cut" or (mode == "cut once" and is_first):
                    self.answer(200, data, len(data) // 2)
                elif mode == "huge":
                    self.send_response(200)
                    self.send_header("Content-Length", str(1 << 40))
                    self.end_headers()
                elif name == "code.pdb" and mode in ("whole", "cut once", "busy once", "other", "garbage"):
                    self.answer(200, {"other": other, "garbage": b"<html>please log in</html>"}.get(mode, data))
                elif name == "code.pd_" and mode in ("packed", "lzx"):
                    self.answer(200, cabinet(data, 1 if mode == "packed" else 3))
                elif name == "file.ptr" and mode == "pointer":
                    self.answer(200, b"PATH:\\\\builds\\share\\code.pdb\r\n")
                else:
                    self.answer(404)

        self.release = threading.Event()
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def url(self, mode):
        return f"http://127.0.0.1:{self.http.server_address[1]}/{mode.replace(' ', '%20')}"

    def close(self):
        self.release.set()
        self.http.shutdown()
        self.http.server_close()


class Symbols:
    """The command, with a cache of its own."""

    def __init__(self, env, cache):
        self.env, self.cache = env, env.folder / cache

    def run(self, *arguments):
        return self.env.run([self.env.collector, "symbols", "--symbol-cache", self.cache, *arguments], check=False, timeout=300)

    def frames(self, *arguments):
        """RVA -> [(function, file's name, line)], and what standard error said."""
        done = self.run("--json", *arguments)
        if done.returncode != 0:
            raise harness.Failure(f"symbols {arguments} ended with {done.returncode}: {done.stderr}")
        answer = {int(a["rva"], 16): [(f["function"], pathlib.PurePath(f["file"]).name if f["file"] else None, f["line"]) for f in a["frames"]]
                  for a in json.loads(done.stdout)}
        return answer, done.stderr


def judge(image, rvas):
    """What llvm-symbolizer says of the image itself."""
    questions = "".join(f'"{image}" {hex(r)}\n' for r in rvas)
    lines = subprocess.run(["llvm-symbolizer", "--output-style=JSON", "--relative-address", "--inlines"], input=questions, text=True,
                           capture_output=True, check=True).stdout.splitlines()
    return {r: [(f["FunctionName"], pathlib.PurePath(f["FileName"]).name, f["Line"]) for f in json.loads(line)["Symbol"]]
            for r, line in zip(rvas, lines)}


def one_line(checks, done, words, what, codes=(1, 3)):
    lines = done.stderr.strip().splitlines()
    checks.that(done.returncode in codes and len(lines) == 1 and all(w in lines[0] for w in words),
                f"{what}: one line with {words}: {done.returncode} {done.stderr!r}")


def check_lines(env, checks, image, pdb, what):
    rva, size = code(image)
    rvas = list(range(rva, rva + size))
    expected = {r: f for r, f in judge(image, rvas).items() if f and f[0][1]}
    symbols = Symbols(env, f"cache-{what}")
    for again in ("cold", "warm"):
        got, said = symbols.frames("--lines", image, *rvas)
        checks.equal(said, "", f"{what}, {again}: no message")
        checks.equal({r: got[r] for r in expected}, expected, f"{what}, {again}: frames of each byte")
    chains = {tuple(f[0] for f in frames) for frames in got.values()}
    checks.that(("leaf", "twig", "branch") in chains and ("leaf", "entry") in chains and ("hidden",) in chains, f"{what}: inlined functions: {chains}")
    checks.that(("leaf", "code.c", 3) in {f for frames in got.values() for f in frames}, f"{what}: the line in the inlined function")
    # by the PDB's own records: the outermost function of each address, static ones too
    plain, said = symbols.frames(pdb, *rvas)
    bare = {r: [(f[-1][0], None, None)] for r, f in expected.items()}
    checks.equal({r: [(n.lstrip("_"), a, b) for n, a, b in plain[r]] for r in expected}, bare, f"{what}: functions by the PDB alone")
    outside, _ = symbols.frames("--lines", image, rva + 0x100000, 0)
    checks.equal(list(outside.values()), [[], []], f"{what}: addresses outside")


def check_server(env, checks, image, pdb, other):
    elsewhere = Server(pdb.read_bytes(), other.read_bytes())
    server = Server(pdb.read_bytes(), other.read_bytes(), elsewhere)
    guid, age, key = identity(image)
    rva, _ = code(image)
    try:
        def ask(mode, cache, *more):
            before = len(server.asked)
            done = Symbols(env, cache).run("--symbols", f"srv**{server.url(mode)}", *more, f"code.pdb/{key}", rva)
            return done, server.asked[before:]

        for mode, requests in (("whole", 1), ("packed", 2), ("cut once", 2), ("busy once", 2), ("redirect", 2)):
            done, asked = ask(mode, f"srv-{mode}")
            checks.that(done.returncode == 0 and done.stdout.split()[1].startswith("branch"), f"{mode}: found: {done.stderr}")
            checks.equal(len(asked), requests, f"{mode}: requests {asked}")
            kept = env.folder / f"srv-{mode}" / "code.pdb" / key / "code.pdb"
            checks.that(kept.read_bytes() == pdb.read_bytes(), f"{mode}: kept in the layout of symsrv")
            again, asked = ask(mode, f"srv-{mode}", "--lines")
            checks.that(again.returncode == 0 and "code.c:" in again.stdout, f"{mode}, warm: {again.stderr}")
            checks.equal(asked, [], f"{mode}, warm: nothing is asked for")
        failures = {"absent": ([": 404"], 3), "lzx": (["LZX"], 2), "pointer": (["builds"], 3), "other": (["GUID is", "expected"], 1),
                    "cut": (["code.pdb"], 3), "silent": (["Operation too slow"], 1), "forbidden": (["403"], 1), "huge": (["larger than"], 1),
                    "garbage": (["is no PDB"], 1),
                    "redirect elsewhere": (["redirects to http://127.0.0.1:", "expected https, or http on the same host and port"], 1),
                    "redirect to a file": (["redirects to"], 1), "redirect for ever": (["redirects more than 5 times"], 6),
                    "redirect to https": (["SSL"], 1)}
        checks.equal(set(failures) | {"whole", "packed", "cut once", "busy once", "redirect"}, set(SERVER_MODES), "every mode is tried")
        for mode, (words, requests) in failures.items():
            begun = time.monotonic()
            done, asked = ask(mode, f"srv-{mode}")
            one_line(checks, done, words, mode)
            checks.equal(len(asked), requests, f"{mode}: requests {asked}")
            checks.that(time.monotonic() - begun < 300, f"{mode}: it took {time.monotonic() - begun:.0f} s")
            again, asked = ask(mode, f"srv-{mode}")
            one_line(checks, again, ["asked before"], f"{mode}, again")
            checks.equal(asked, [], f"{mode}: the server is left alone")
            left = [f.name for f in (env.folder / f"srv-{mode}" / "code.pdb" / key).iterdir()]
            checks.that(len(left) == 1 and left[0].startswith("absent-"), f"{mode}: nothing wrong is kept: {left}")
        checks.equal(elsewhere.asked, [], "what a server redirects to by http on another port is not asked")
        # a chain: what the server has is kept in each cache before it
        caches = [env.folder / "chain-1", env.folder / "chain-2"]
        done = Symbols(env, "chain-0").run("--symbols", f"srv*{caches[0]}*{caches[1]}*{server.url('whole')}", f"code.pdb/{key}", rva)
        checks.that(done.returncode == 0 and all((c / "code.pdb" / key / "code.pdb").exists() for c in caches), f"a chain: {done.stderr}")
    finally:
        server.close()
        elsewhere.close()


def script(env, name, text):
    path = env.folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def check_symbolizers(env, checks, image, pdb):
    rva, _ = code(image)
    rvas = [rva, rva + 1, rva + 2, rva + 3, rva + 4]
    broken = {
        "missing": (env.folder / "nothing", "start"),
        "dies": (script(env, "dies", "exit 3\n"), "ended"),
        "garbage": (script(env, "garbage", "while read q; do echo 'no json'; done\n"), "an answer of the symbolizer"),
        "flood": (script(env, "flood", "read q; exec tr '\\000' x </dev/zero\n"), "in lines of more than"),
        "chatty": (script(env, "chatty", "while read q; do printf '{\"Symbol\":[]}\\n{\"Symbol\":[]}\\n'; done\n"), "more than it was asked"),
        "hangs": (script(env, "hangs", "exec sleep 1000\n"), "did not answer within 500 ms"),
    }
    for name, (program, words) in broken.items():
        begun = time.monotonic()
        done = Symbols(env, f"broken-{name}").run("--lines", "--symbolizer", program, "--symbol-time", "500ms" if name == "hangs" else "60s", pdb, *rvas)
        one_line(checks, done, [words], f"a symbolizer that {name}", codes=(0,))
        checks.equal([line.split()[1].split("+")[0].lstrip("_") for line in done.stdout.splitlines()], ["branch"] * 5, f"{name}: named all the same")
        checks.that(time.monotonic() - begun < 300, f"{name}: it took {time.monotonic() - begun:.0f} s")
    # a symbolizer that exits at an address is replaced, and the other addresses are answered
    mortal = script(env, "mortal", "while read q; do case $q in *" + hex(rva + 2) + ") exit 1;; *) echo '{\"Symbol\":[{\"FunctionName\":\"f\"}]}';; esac; done\n")
    done = Symbols(env, "mortal-cache").run("--lines", "--symbolizer", mortal, image, *rvas)
    checks.equal([line.split()[1].split("+")[0].lstrip("_") for line in done.stdout.splitlines()], ["f", "f", "branch", "f", "f"], "one address lost")
    one_line(checks, done, ["ended without an answer"], "a symbolizer that dies once", codes=(0,))
    # answers are kept in the cache; an address without an answer is looked up again
    done = Symbols(env, "mortal-cache").run("--lines", image, *rvas)
    checks.equal(["code.c" in line for line in done.stdout.splitlines() if "inlined" not in line], [False, False, True, False, False], "kept answers")
    # its limits
    limits = script(env, "limits", "while read q; do echo \"{\\\"Symbol\\\":[{\\\"FunctionName\\\":\\\"$(ulimit -v) $(ulimit -t) $(ulimit -f) $(nice) $HOME\\\"}]}\"; done\n")
    got, _ = Symbols(env, "limits-cache").frames("--lines", "--symbolizer", limits, pdb, rva)
    checks.equal(got[rva][0][0], f"{4 << 20} 600 0 {min(os.nice(0) + 10, 19)} ", "limits of the child: memory, CPU, files, nice, no environment")


def check_hostile(env, checks, image, pdb, arguments):
    data = pdb.read_bytes()
    block, directory_at = struct.unpack_from("<I", data, 32)[0], struct.unpack_from("<I", data, 52)[0]
    directory = struct.unpack_from("<I", data, directory_at * block)[0] * block
    sizes = directory + 4
    hostile = {
        "empty": (b"", "is no PDB"),
        "text": (b"hello\n" * 100, "is no PDB"),
        "portable": (b"BSJB" + bytes(100), "portable PDB"),
        "old": (b"Microsoft C/C++ program database 2.00\r\n\x1aJG\0\0" + bytes(100), "2.00"),
        "cut": (data[:-1], "is cut"),
        "half": (data[:len(data) // 2], "is cut"),
        "block size": (data[:32] + struct.pack("<I", 3) + data[36:], "power of two"),
        "directory": (data[:44] + struct.pack("<I", 0x7fffffff) + data[48:], "directory"),
        "map": (data[:52] + struct.pack("<I", 0xfffffff0) + data[56:], "directory is at block"),
        "streams": (data[:directory] + struct.pack("<I", 0xffffff) + data[directory + 4:], "contradicts itself"),
        "stream": (data[:sizes + 4 * 3] + struct.pack("<I", 0xfffffffe) + data[sizes + 16:], "contradicts itself"),
    }
    for name, (content, words) in hostile.items():
        path = env.folder / f"hostile-{name.replace(' ', '-')}.pdb"
        path.write_bytes(content)
        one_line(checks, Symbols(env, "hostile").run("--lines", path, 0x1000), [words], f"hostile: {name}", codes=(3, 1))
    # bits that turned over: whatever the symbolizer makes of them, an answer or a line comes
    dice = random.Random(20261122)
    rva, size = code(image)
    live = [i for i in range(0, len(data), block) if any(data[i:i + block])]
    path, outcomes = env.folder / "flipped.pdb", {}
    for _ in range(400 if arguments.soak else 16):
        flipped = bytearray(data)
        for _ in range(8):
            flipped[dice.choice(live) + dice.randrange(1024)] ^= 1 << dice.randrange(8)
        path.write_bytes(flipped)
        done = Symbols(env, "hostile").run("--lines", "--symbol-time", "5s", path, rva, rva + size // 2)
        outcomes[done.returncode] = outcomes.get(done.returncode, 0) + 1
        lines = len(done.stderr.splitlines())  # with an answer it may say why there are no lines
        checks.that(done.returncode in (0, 1, 3) and lines == 1 or (done.returncode, lines) == (0, 0), f"flipped: {done.returncode} {done.stderr!r}")
    print(f"flipped PDBs: {outcomes} by exit code")


def check_web(env, checks, collector, folded, trace):
    """Profiles over HTTP have the same names. A symbol server that never answers delays no other request, and the request's processes end with it."""
    web = web_world.Web(collector)
    status, _, text = web.ask("/api/v1/profile?weight=samples&format=folded")
    checks.equal((status, sorted(text.splitlines())), (200, sorted(folded)), "a profile over HTTP, with names")
    _, _, text = web.ask("/api/v1/profile?weight=samples&format=folded&names=0")
    checks.that(text and all("code.dll+0x" in line for line in text.splitlines()), f"a profile over HTTP, without names: {text}")
    top = web.get("profile", weight="samples")
    checks.that({"code.dll!branch", "code.dll!entry"} <= {frame["label"] for frame in top["frames"]}, f"frames over HTTP: {top['frames']}")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow = env.new_collector("slow", extra=["--web", "127.0.0.1:0", "--symbols", f"srv*http://127.0.0.1:{silent.getsockname()[1]}/silent"]).start()
        env.replay([trace], slow, spool=env.folder / "slow-spool")
        port = web_world.Web(slow).port
        asking = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        asking.request("GET", "/api/v1/profile?weight=samples&format=folded")
        silent.settimeout(120)
        connection, _ = silent.accept()  # its worker waits for us now
        began = time.monotonic()
        env.replay([trace], slow, spool=env.folder / "slow-spool-again", extra=["--batch-events", "7"])
        checks.equal(web_world.Web(slow).get("hosts")["items"][0]["host"], "test-machine", "another question beside it")
        print(f"while a symbol server is silent: an upload and a question in {time.monotonic() - began:.1f} s")
        workers = children(slow.process.pid)
        checks.that(any("symbol-worker" in name for name in workers), f"no process names symbols: {workers}")
        asking.close()
        harness.wait_until(lambda: not children(slow.process.pid), "the end of processes of a question whose client left", 120)
        connection.close()
        slow.stop()


def children(pid):
    """Command lines of a process's children without the file broker, which lives as long as the process."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(status.read_text().rsplit(")", 1)[1].split()[1]) == pid and "file-broker" not in (status.parent / "cmdline").read_text():
                found.append((status.parent / "cmdline").read_text())
        except (OSError, IndexError):
            continue
    return found


def check_watch(env, checks, collector, names, call):
    """Functions in the stacks of a program of the query language; modules and offsets without symbols, or where they are missing."""
    program = "PerfInfo/SampleProf { @[ustack()] = count(); }"
    offsets = {(f"code.dll+{hex(call)}",): 1}

    def stacks(*options):
        done = env.run([env.collector, "watch", "--store", collector.store, "--json", *options, "-e", program])
        return {tuple(row["keys"][0]): row["count"] for row in map(json.loads, done.stdout.splitlines())}, done.stderr

    got, said = stacks(*names)
    checks.equal((got, said), ({("code.dll!entry",): 1, ("code.dll!branch", "code.dll!entry"): 10}, ""), "watch with symbols")
    plain, _ = stacks()
    checks.that(plain.items() > offsets.items() and len(plain) == 2 and all("code.dll+0x" in frame for frames in plain for frame in frames),
                f"watch without symbols: {plain}")
    absent, said = stacks("--symbols", env.folder / "empty", "--symbol-cache", env.folder / "watch-cache")
    checks.that(absent == plain and "etwcollector: 1 modules are without functions: " in said, f"watch, without the PDB: {absent} {said}")


COUNTERS = {19: ("InstructionRetired", 65536), 20: ("TotalCycles", 70000)}


def check_functions(checks, collector, names, want):
    """Counter samples by function: with the names that symbols have, and by place without; as a profile's functions, and the named query over HTTP."""
    rows = json.loads(collector.ask("query", "--format", "json", *names, "SELECT function, source_name, samples, events FROM function_counters"))["rows"]
    got = {(row["function"], row["source_name"]): row["samples"] for row in rows}
    checks.equal((got, [row for row in rows if row["events"] != row["samples"] * dict(COUNTERS.values())[row["source_name"]]]), (want, []), f"function_counters with {names}")
    for name, interval in COUNTERS.values():
        folded = collections.Counter()
        for line in collector.ask("profile", "--weight", f"pmc:{name}", "--format", "folded", *names).splitlines():
            folded[line.rsplit(" ", 1)[0].split(";")[-1]] += int(line.rsplit(" ", 1)[1])
        checks.equal(folded, {function: n * interval for (function, of), n in want.items() if of == name}, f"a profile's functions of {name} with {names}")


def ipc_of(want):
    """The named query's rows: {function: (instructions, cycles, their ratio)}"""
    rows = {}
    for function in {function for function, _ in want}:
        instructions, cycles = (want[function, name] * interval if (function, name) in want else None for name, interval in COUNTERS.values())
        rows[function] = instructions, cycles, instructions / cycles if instructions is not None and cycles else None
    return rows


def check_where(env, checks, image, pdb):
    """An address of a machine whose trace has the image's events."""
    spec = importlib.util.spec_from_file_location("single", HERE / "test_single_records.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    guid, age, key = identity(image)
    rva, _ = code(image)
    base, pid = 0x7FFA12340000, 1234
    data = image.read_bytes()
    pe = struct.unpack_from("<I", data, 60)[0]
    stamp, size = struct.unpack_from("<I", data, pe + 8)[0], struct.unpack_from("<I", data, pe + 24 + 56)[0]

    def load(at):
        return struct.pack("<QQIIIIQIIII", at, size, pid, 0, stamp, 0, at, 0, 0, 0, 0) + "\\Device\\HarddiskVolume3\\app\\code.dll\0".encode("utf-16le")

    rsds = struct.pack("<QI", base, pid) + guid.bytes_le + struct.pack("<I", age) + b"D:\\build\\code.pdb\0"
    process = struct.pack("<QIIIiQI", 0xFFFFA00000001080, pid, 4, 1, 0, 0x1000, 0) + struct.pack("<QQ", 1, 0) + \
        bytes.fromhex("010100000000000512000000") + b"app.exe\0" + "app.exe\0".encode("utf-16le") + bytes(4)
    thread = struct.pack("<IIQQQQQQQIBBBB", pid, 77, 0, 0, 0, 0, 1, base, 0, 0, 8, 5, 2, 0)
    # ten samples in branch, called by entry; one in entry itself
    call = next(r for r, frames in judge(image, range(*span(image))).items() if frames and frames[0][0] == "entry" and frames[0][2] == 18 and r > rva + 8)
    samples = []
    for k in range(11):
        at, clock = (base + rva, 3000 + k) if k else (base + call, 3000)
        samples += [writer.system_record(15, 46, 2, struct.pack("<QIHH", at, 77, 1, 0), clock),
                    writer.system_record(24, 32, 2, struct.pack("<QII", clock, pid, 77) + b"".join(struct.pack("<Q", a) for a in ([at, base + call + 1] if k else [at])), clock)]
    # two counters, sampled in both functions, and in the module whose image alone says which PDB it has
    for source, (name, interval) in COUNTERS.items():
        samples.append(writer.system_record(15, 73, 3, struct.pack("<III", source, interval, 0) + f"{name}\0".encode("utf-16le"), 3100))
    for k, at in enumerate([base + rva] * 6 + [base + rva + 1] * 2 + [base + call] * 4 + [base + 0x100000 + rva] * 2):
        samples += [writer.system_record(15, 47, 2, struct.pack("<QIHH", at, 77, sorted(COUNTERS)[k % 4 == 0], 0), 3200 + k),
                    writer.system_record(24, 32, 2, struct.pack("<QIIQ", 3200 + k, pid, 77, at), 3200 + k)]
    trace = env.folder / "where.etl"
    trace.write_bytes(writer.trace([writer.system_record(3, 1, 4, process, 900), writer.system_record(5, 1, 3, thread, 950),
                                    writer.system_record(3, 10, 2, load(base), 1000), writer.full_record(writer.IMAGE_ID, 36, 2, rsds, 1000),
                                    writer.system_record(3, 10, 2, load(base + 0x100000), 2000), *samples]))
    env.make_certificates()
    collector = env.new_collector(extra=["--web", "127.0.0.1:0", "--lines", "--symbols", pdb.parent, "--symbol-cache", env.folder / "web-cache"]).start()
    env.replay([trace], collector)
    place = ("--pid", pid, "--symbol-cache", env.folder / "where-cache", "--lines", "--symbols")
    found = collector.ask("where", *place, pdb.parent, hex(base + rva)).strip()
    checks.that(found.startswith(f"code.dll+{hex(rva)} ") and "branch+0x0" in found and "code.c:9" in found, f"where: {found}")
    answer = json.loads(collector.ask("where", "--json", *place, pdb.parent, hex(base + rva)))
    checks.equal([f["function"] for f in answer["frames"]][-1], "branch", "where --json")
    folded = collector.ask("profile", "--weight", "samples", "--format", "folded", *place[2:], pdb.parent).splitlines()
    checks.equal(sorted(folded), ["app.exe;code.dll!entry 1", "app.exe;code.dll!entry;code.dll!branch 10"], "profile: functions")
    check_watch(env, checks, collector, (*place[2:4], "--symbols", pdb.parent), call)
    plain, named = collections.Counter(), collections.Counter()
    for k, at in enumerate([rva] * 6 + [rva + 1] * 2 + [call] * 4 + [rva] * 2):
        counter = COUNTERS[sorted(COUNTERS)[k % 4 == 0]][0]
        plain[f"code.dll+{hex(at)}", counter] += 1
        named[f"code.dll!{judge(image, [at])[at][0][0]}", counter] += 1
    check_functions(checks, collector, (), plain)
    check_functions(checks, collector, (*place[2:], pdb.parent), named)
    over_http = {row["function"]: (row["instructions"], row["cycles"], row["ipc"]) for row in web_world.Web(collector).get("queries/ipc-by-function")["items"]}
    checks.equal(over_http, ipc_of(named), "instructions per cycle by function over HTTP")
    check_web(env, checks, collector, folded, trace)
    plain = collector.ask("profile", "--weight", "samples", "--format", "folded").splitlines()
    checks.that(all("code.dll+0x" in line for line in plain), f"profile without symbols: {plain}")
    # a module of which no event named a PDB: its image says it, when there is one
    done = env.run([env.collector, "where", "--store", collector.store, *place, env.folder / "empty", hex(base + 0x100000 + rva)], check=False)
    stored = f"{stamp:08X}{size:x}"
    checks.that(done.returncode == 0 and done.stdout.strip() == f"code.dll+{hex(rva)}" and f"code.dll {stored}: " in done.stderr,
                f"where, without an image: {done.stdout} {done.stderr}")
    for file, folder in ((image, stored), (pdb, key)):
        (env.folder / "images" / file.name / folder).mkdir(parents=True)
        shutil.copy(file, env.folder / "images" / file.name / folder)
    found = collector.ask("where", "--pid", pid, "--symbol-cache", env.folder / "images-cache", "--symbols", f"srv*{env.folder}/images",
                          hex(base + 0x100000 + rva)).strip()
    checks.equal(found, f"code.dll+{hex(rva)} branch+0x0", "where, by the image's time and size")
    collector.stop()


def test(env, checks, arguments):
    image, pdb = build(env, env.folder / "x64", "x86_64-pc-windows-msvc", "x64")
    _, other = build(env, env.folder / "other", "x86_64-pc-windows-msvc", "x64", SOURCE.replace("* 5", "* 7"))
    image32, pdb32 = build(env, env.folder / "x86", "i686-pc-windows-msvc", "x86", SOURCE)
    check_lines(env, checks, image, pdb, "x64")
    check_lines(env, checks, image32, pdb32, "x86")
    check_symbolizers(env, checks, image, pdb)
    check_hostile(env, checks, image, pdb, arguments)
    # the wrong PDB beside an image, and none
    for name, content in (("wrong", other.read_bytes()), ("missing", None)):
        folder = env.folder / f"beside-{name}"
        folder.mkdir()
        shutil.copy(image, folder)
        if content:
            (folder / "code.pdb").write_bytes(content)
        one_line(checks, Symbols(env, "beside").run(folder / "code.dll", 0x1000), ["expected" if content else "code.pdb"], f"{name} beside the image", codes=(1,))
    aged = bytearray(image.read_bytes())
    struct.pack_into("<I", aged, aged.index(b"RSDS") + 20, identity(image)[1] + 1)
    (pdb.parent / "aged.dll").write_bytes(aged)
    one_line(checks, Symbols(env, "beside").run(pdb.parent / "aged.dll", 0x1000), ["its age is 1, expected 2"], "another age", codes=(1,))
    check_server(env, checks, image, pdb, other)
    check_where(env, checks, image, pdb)


if __name__ == "__main__":
    harness.main(test, __doc__)
