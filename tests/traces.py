"""The real traces beside the project (../shared/traces, or $EA_TRACES): unpacked once into the build folder, never committed.

A missing folder is a failure, said loudly: tests that need real traces must not look green without them.
"""
import fcntl
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]


def folder():
    """Where the traces are; raises when they are missing."""
    path = pathlib.Path(os.environ.get("EA_TRACES") or ROOT.parent / "shared" / "traces")
    if not (path / "inventory.jsonl").is_file():
        raise SystemExit(f"FAILED: the real traces are missing: expected {path}/inventory.jsonl; set EA_TRACES to their folder")
    return path


def names():
    """The traces' names, in order."""
    return sorted(p.name for p in folder().iterdir() if p.is_dir() and any(p.glob("*.etl*")))


def unpack(source, build):
    """One file of the traces, unpacked into BUILD/traces when it is compressed; its path."""
    source = pathlib.Path(source)
    if source.suffix != ".zst":
        return source
    target = pathlib.Path(build).resolve().parent / "traces" / source.parent.name / source.stem
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / ".lock", "w") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            part = target.with_suffix(".part")
            subprocess.run(["zstd", "-q", "-d", "-f", "--long=24", source, "-o", part], check=True)
            part.rename(target)
    return target


def paths(name, build):
    """The .etl files of a trace, unpacked; several when the trace is one session in several files."""
    return [unpack(p, build) for p in sorted((folder() / name).glob("*.etl*"))]


def inventories():
    """What the independent parser says: {"trace/file.etl": object}."""
    rows = [json.loads(line) for line in (folder() / "inventory.jsonl").read_text().splitlines() if line.strip()]
    return {row["file"]: row for row in rows}


def event_count(name):
    """Events in all files of a trace, by the independent parser."""
    return sum(row["events"] for file, row in inventories().items() if file.split("/")[0] == name)
