"""`make traces` (tests/fetch_traces.py) against a server on loopback with the layout of the public one: plain files, members of a
zip and of a 7z archive. A wrong SHA-256, a missing file, a missing member and a server that fails are refused, with the reason, and leave
nothing. And tests/traces.py's ways of finding traces: what it skips, and what it refuses.
"""
import csv
import hashlib
import http.server
import io
import os
import subprocess
import sys
import threading
import zipfile

import harness
import traces

FETCH = harness.ROOT / "tests" / "fetch_traces.py"
COLUMNS = ["file", "repository", "commit", "path", "member", "sha256 of the download", "sha256", "bytes", "events", "licence"]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves {path: bytes}; counts requests; answers 503 to the first `failing` of them."""

    def __init__(self, files):
        self.files, self.requests, self.failing = files, [], 0
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        fails, self.server.failing = self.server.failing > 0, self.server.failing - 1
        data = self.server.files.get(self.path)
        self.send_response(503 if fails else 404 if data is None else 200)
        self.send_header("Content-Length", "0" if fails or data is None else str(len(data)))
        self.end_headers()
        if data is not None and not fails:
            self.wfile.write(data)

    def log_message(self, *_):
        pass


def archives(folder, content):
    zipped, folder = io.BytesIO(), folder / "seven"
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside/one.etl", content)
    folder.mkdir()
    (folder / "two.etl").write_bytes(content[::-1])
    subprocess.run(["bsdtar", "--format", "7zip", "-cf", "all.7z", "two.etl"], cwd=folder, check=True)
    return zipped.getvalue(), (folder / "all.7z").read_bytes()


def fetching(env, checks):
    content = bytes(range(256)) * 40
    zipped, seven = archives(env.folder, content)
    where = "/owner/name/" + "1" * 40
    files = {f"{where}/plain.etl": content, f"{where}/a/b.zip": zipped, f"{where}/c.7z": seven}
    rows = [dict(zip(COLUMNS, [file, "owner/name", "1" * 40, path, member, sha256(files[f"{where}/{path}"]), sha256(data), len(data), 1, "MIT"]))
            for file, path, member, data in (("plain/trace.etl", "plain.etl", "-", content), ("zip/trace.etl", "a/b.zip", "inside/one.etl", content),
                                             ("seven/trace.etl", "c.7z", "two.etl", content[::-1]))]
    table, number = env.folder / "table.tsv", 0

    def fetch(server, changes=None, to=None):
        """Runs it; changes: {column: value} of the last row."""
        nonlocal number
        number += 1
        with open(table, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, delimiter="\t")
            writer.writeheader()
            writer.writerows(rows if changes is None else [{**rows[-1], **changes}])
        to = to or env.folder / f"fetched-{number}"
        done = env.run([sys.executable, FETCH, "--table", table, "--to", to, "--pause", "0.01"], check=False,
                       env={**os.environ, "EA_TRACES_URL": f"http://127.0.0.1:{server.server_port}/"})
        return done, to

    def refused(done, to, reason, what):
        checks.that(done.returncode == 1 and reason in done.stderr, f"{what}: {done.returncode} {done.stderr!r}; expected {reason!r}")
        checks.equal([path for path in to.rglob("*") if path.is_file()], [], f"{what}: files that are left")

    with Server(files) as server:
        done, to = fetch(server)
        checks.equal((done.returncode, sorted(server.requests)), (0, sorted(files)), f"files asked for; {done.stderr}")
        checks.equal([(to / row["file"]).read_bytes() for row in rows], [content, content, content[::-1]], "files that were fetched")
        done, _ = fetch(server, to=to)
        checks.equal((done.returncode, len(server.requests)), (0, len(files)), "fetched once: nothing is asked for again")
        (to / "plain/trace.etl").write_bytes(b"something else")
        done, _ = fetch(server, to=to)
        checks.equal(((to / "plain/trace.etl").read_bytes(), len(server.requests)), (content, len(files) + 1), "a file that changed is fetched again")
        server.failing = 2
        done, to = fetch(server, {})
        checks.equal((done.returncode, (to / "seven/trace.etl").is_file()), (0, True), f"a server that fails twice: {done.stderr}")
        server.failing = 3
        refused(*fetch(server, {}), "the server answered 503", "a server that fails three times")
        server.failing = 0
        refused(*fetch(server, {"path": "none.7z"}), "the server answered 404", "a path that does not exist")
        refused(*fetch(server, {"sha256 of the download": "0" * 64}), f"c.7z: SHA-256 {'0' * 64} was expected, {sha256(seven)} was found", "a download that differs")
        refused(*fetch(server, {"sha256": "0" * 64}), f"SHA-256 {'0' * 64} was expected, {sha256(content[::-1])} was found", "a member that differs")
        refused(*fetch(server, {"member": "three.etl"}), "has no file three.etl", "a member that a 7z archive lacks")
        refused(*fetch(server, {"path": "a/b.zip", "sha256 of the download": sha256(zipped), "member": "three.etl"}), "has no file three.etl",
                "a member that a zip archive lacks")


def finding(env, checks):
    """What a test gets without real traces, with a folder that has some, and where a skip is no pass."""
    script = ("import sys; sys.path.insert(0, sys.argv[1]); import traces\n"
              "print(traces.real('what it shows', *sys.argv[2:]))")

    def ask(*files, **variables):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("EA_")}
        return env.run([sys.executable, "-c", script, harness.ROOT / "tests", *files], check=False, env={**environment, **variables})

    done = ask(EA_TRACES="none")
    checks.equal((done.returncode, done.stdout.splitlines()), (0, [traces.SKIPPED + "what it shows", "False"]), "without real traces")
    done = ask(EA_TRACES="none", EA_REQUIRE_TRACES="1")
    checks.that(done.returncode == 1 and "there is no folder of real traces, which this needs: what it shows" in done.stderr,
                f"required: {done.returncode} {done.stderr}")
    some = env.folder / "some"
    (some / "clr-32bit").mkdir(parents=True)
    (some / "clr-32bit" / "trace.etl").touch()
    done = ask(EA_TRACES=str(some))
    checks.that(done.returncode == 1 and f"{some} lacks 17 of the real traces" in done.stderr, f"a folder with one trace: {done.returncode} {done.stderr}")
    for row in traces.table().values():
        path = some / row["file"]
        path.parent.mkdir(exist_ok=True)
        path.touch()
    done = ask(EA_TRACES=str(some))
    checks.equal((done.returncode, done.stdout), (0, "True\n"), f"a folder with all: {done.stderr}")
    done = ask("http-server-win7/evtx.xml", EA_TRACES=str(some))
    checks.equal(done.stdout.splitlines(), [traces.SKIPPED + "what it shows", "False"], "a document that the folder lacks")
    done = ask("http-server-win7/evtx.xml", EA_TRACES=str(some), EA_REQUIRE_TRACES="fetched")
    checks.equal((done.returncode, done.stdout.splitlines()[-1:]), (0, ["False"]), "a document that no repository has, where fetched ones are required")
    (some / "ClrEtwAll.man").unlink()
    done = ask("ClrEtwAll.man", EA_TRACES=str(some), EA_REQUIRE_TRACES="fetched")
    checks.that(done.returncode == 1 and "there is no ClrEtwAll.man" in done.stderr, f"a fetched document is required: {done.returncode} {done.stderr}")
    done = ask(EA_TRACES="none", EA_REQUIRE_TRACES="yes")
    checks.that(done.returncode == 1 and "EA_REQUIRE_TRACES is yes; expected 0, 1 or fetched" in done.stderr, f"another word: {done.stderr}")


def accounting(env, checks):
    """run_all.py: skips are counted and listed; a test that is unsteady fails unless the quarantine has it with its cause."""
    script = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import run_all, traces
tally, log = run_all.Tally(), pathlib.Path(sys.argv[2])
tally.quarantine = [{"test": "windows: * under Wine", "cause": "no word", "reason": "Wine"}]
tally.add("one", 1, 0, tally.skips(f"{traces.SKIPPED}B\\nsomething\\n{traces.SKIPPED}A\\n"), 1)
run_all.SOURCE = log.parent
log.write_text("FAILED: it said no word")
print("quarantined", tally.unsteady("windows: trace under Wine", log), tally.unsteady("dev: e2e follow", log), tally.unsteady("windows: trace under Wine", log, "it crashed"))
tally.times = [(float(n), f"test {n}") for n in range(20)]
sys.exit(tally.finish())
"""
    done = env.run([sys.executable, "-c", script, harness.ROOT / "tests", env.folder / "x.log"], check=False)
    said = done.stdout.splitlines()
    checks.equal((done.returncode, said[-4:]), (0, ["skipped: A", "skipped: B", "2 tests of real traces skipped: run `make traces`", "1 passed, 0 failed, 2 skipped"]),
                 f"the end of the table; {done.stderr}")
    checks.that("quarantined True False False" in said, "what the quarantine has by test and cause")
    checks.equal([line.split()[2:] for line in said if line.endswith("s") is False and "  test " in line], [["test", str(n)] for n in range(19, 9, -1)], "the ten slowest")
    checks.that(any(line.startswith("UNSTEADY, which is a failure: dev: e2e follow") for line in said), "an unsteady test is named")


def test(env, checks, arguments):
    fetching(env, checks)
    finding(env, checks)
    accounting(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
