#!/usr/bin/env python3
"""Fetches the real traces that tests use from the public repositories in tests/traces.tsv: each file at a pinned commit, checked by
SHA-256 before and after it is unpacked. The files are stored in build/real-traces, where tests/traces.py looks for them. An existing
file is not fetched again. No such file is committed; tests/traces.tsv has the licence of each.

    python3 tests/fetch_traces.py            (make traces)

EA_TRACES_URL: another server with the same layout, OWNER/REPOSITORY/COMMIT/PATH.
"""
import argparse
import csv
import hashlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile

import traces

PUBLIC = "https://raw.githubusercontent.com"
MOST_BYTES = 64 << 20  # of a download, and of a file in it
TRIES, TIMEOUT_S = 3, 60


class Wrong(Exception):
    """What was expected, what was found, and where."""


def bounded(stream, what):
    data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Wrong(f"{what} has more than {MOST_BYTES} bytes")
    return data


def download(url, pause_s):
    """The content of a URL. When the server returns an error of its own (5xx) or does not answer, the request is repeated."""
    for attempt in range(1, TRIES + 1):
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                return bounded(answer, url)
        except urllib.error.HTTPError as error:
            if error.code < 500 or attempt == TRIES:
                raise Wrong(f"{url}: the server answered {error.code} {error.reason}") from error
        except OSError as error:
            if attempt == TRIES:
                raise Wrong(f"{url}: {getattr(error, 'reason', error)}, {TRIES} times") from error
        time.sleep(pause_s * attempt)
    raise AssertionError


def checked(data, sha256, what):
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise Wrong(f"{what}: SHA-256 {sha256} was expected, {found} was found")
    return data


def member_of(data, name, url):
    """One file of an archive in memory."""
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if name not in archive.namelist():
                raise Wrong(f"{url} has no file {name}")
            with archive.open(name) as file:
                return bounded(file, f"{name} in {url}")
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        with subprocess.Popen(["bsdtar", "-xOf", file.name, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out = process.stdout.read(MOST_BYTES + 1)
            if len(out) > MOST_BYTES:
                process.kill()
                raise Wrong(f"{name} in {url} has more than {MOST_BYTES} bytes")
            said = process.stderr.read().decode(errors="replace").strip()
        if process.returncode:
            raise Wrong(f"{url} has no file {name}: {said}")
        return out


def write(path, data):
    """The whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=".")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.chmod(part, 0o644)
    os.replace(part, path)


def fetch(rows, folder, base, pause_s=2):
    """Fetches what is missing or differs; the number of files that came."""
    missing = [row for row in rows if not (folder / row["file"]).is_file()
               or hashlib.sha256((folder / row["file"]).read_bytes()).hexdigest() != row["sha256"]]
    sources = {}
    for row in missing:
        sources.setdefault((row["repository"], row["commit"], row["path"]), []).append(row)
    for (repository, commit, path), wanted in sorted(sources.items()):
        url = "/".join((base.rstrip("/"), repository, commit, path))
        data = checked(download(url, pause_s), wanted[0]["sha256 of the download"], url)
        for row in wanted:
            file = data if row["member"] == "-" else member_of(data, row["member"], url)
            write(folder / row["file"], checked(file, row["sha256"], f"{row['file']} from {url}"))
            print(f"{row['file']}: {len(file)} bytes from {repository} ({row['licence']})", flush=True)
    return len(missing)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--table", type=pathlib.Path, default=traces.TABLE, help="the table of files (default: tests/traces.tsv)")
    parser.add_argument("--to", type=pathlib.Path, default=traces.FETCHED, help="folder (default: build/real-traces)")
    parser.add_argument("--pause", type=float, default=2, help="seconds before a second try")
    arguments = parser.parse_args()
    with open(arguments.table, encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    try:
        count = fetch(rows, arguments.to, os.environ.get("EA_TRACES_URL") or PUBLIC, arguments.pause)
    except Wrong as wrong:
        print(f"FAILED: {wrong}", file=sys.stderr)
        return 1
    print(f"{len(rows)} files in {arguments.to}, {count} of them new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
