"""Where the tests find the real traces. They are no part of the source tree: EA_TRACES names their folder, or it lies
beside the source at ../shared/traces. Without it every test that needs one fails and says so.

As a module: names(), paths(name, build), inventory(name), files(name). Run by itself it unpacks everything into BUILD/traces:
    python3 tests/traces.py --build BUILD
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent


class Missing(SystemExit):
    """The folder of traces, or one of them, is not there. Uncaught it ends the test: no test may look green without them."""

    def __init__(self, message):
        super().__init__(f"FAILED: {message}")


def folder():
    """The folder of traces, as it is kept (some files compressed)."""
    path = pathlib.Path(os.environ.get("EA_TRACES") or SOURCE.parent / "shared" / "traces")
    if not (path / "inventory.jsonl").is_file():
        raise Missing(f"the real traces are missing: expected {path}/inventory.jsonl; set EA_TRACES to their folder")
    return path


def inventories():
    """What an independent parser counted: {"folder/file.etl": its object}."""
    with open(folder() / "inventory.jsonl", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    return {row["file"]: row for row in rows}


def names():
    """The traces, each a folder with one file or several that belong together."""
    return sorted({file.split("/")[0] for file in inventories()})


def files(name):
    """File names of one trace, in byte order; the order is their number in a merge."""
    found = sorted(file.split("/", 1)[1] for file in inventories() if file.split("/")[0] == name)
    if not found:
        raise Missing(f"no trace is called {name}; there are {', '.join(names())}")
    return found


def paths(name, build):
    """Paths of the .etl files of one trace, unpacked below BUILD/traces when they are kept compressed."""
    return [unpacked(name, file, pathlib.Path(build)) for file in files(name)]


def document(name, file, build):
    """Path of another file of a trace's folder (a baseline, a manifest), unpacked."""
    return unpacked(name, file, pathlib.Path(build))


def unpacked(name, file, build):
    kept = folder() / name / file
    target = build / "traces" / name / file
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    packed = kept.with_name(kept.name + ".zst")
    if not kept.is_file() and not packed.is_file():
        raise Missing(f"{kept} is not there, nor with .zst behind it")
    # several tests may unpack at once: each into its own file, the rename is atomic
    handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{file}.")
    os.close(handle)
    if kept.is_file():
        shutil.copyfile(kept, part)
    else:
        subprocess.run(["zstd", "-q", "-d", "-f", "--long=24", str(packed), "-o", part], check=True)
    os.chmod(part, 0o644)
    os.replace(part, target)
    return target


def merged(rows):
    """Sums the numbers and the tables of numbers of several files' rows; everything else is the first one's."""
    total = dict(rows[0])
    for row in rows[1:]:
        for key in ("size", "buffers", "events", "events_lost", "buffers_lost", "n_bad"):
            total[key] = total.get(key, 0) + row.get(key, 0)
        for key in ("headers", "kernel_groups", "classic", "providers", "ext", "evflags", "manifest_events", "tl_names"):
            table = dict(total.get(key, {}))
            for label, count in row.get(key, {}).items():
                table[label] = table.get(label, 0) + count
            total[key] = table
        kernel = {label: list(value) for label, value in total.get("kernel", {}).items()}
        for label, value in row.get("kernel", {}).items():
            if label in kernel:
                kernel[label][0] += value[0]
            else:
                kernel[label] = list(value)
        total["kernel"] = kernel
    return total


def inventory(name):
    """The independent counts of one trace, summed over its files."""
    table = inventories()
    return merged([table[f"{name}/{file}"] for file in files(name)])


def event_count(name):
    """How many events the independent parser counted in a trace, all its files together."""
    return inventory(name)["events"]


def main():
    parser = argparse.ArgumentParser(description="Unpacks the real traces into BUILD/traces.")
    parser.add_argument("--build", required=True, help="build folder")
    arguments = parser.parse_args()
    for name in names():
        paths(name, arguments.build)
    print(f"{len(names())} traces in {pathlib.Path(arguments.build) / 'traces'}")


if __name__ == "__main__":
    main()
