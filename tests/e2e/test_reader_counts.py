#!/usr/bin/env python3
# sanitizers: asan-ubsan
"""The reader against inventory.jsonl: for every real trace, every count and every header field that an independent parser
found. Labels are that parser's own, so its tables (../tools/etlinv.py beside the traces) translate them.

    python3 tests/e2e/test_reader_counts.py --build BUILD
"""
import argparse
import collections
import datetime
import importlib.util
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import traces


def parser_tables():
    """The independent parser as a module, for its tables of names only."""
    path = traces.folder().parent / "tools" / "etlinv.py"
    if not path.is_file():
        raise traces.Missing(f"the independent parser is missing: expected {path}")
    spec = importlib.util.spec_from_file_location("etlinv", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def filetime(value):
    if not value:
        return None
    return (datetime.datetime(1601, 1, 1) + datetime.timedelta(microseconds=value // 10)).isoformat()


def kernel_table(ours, tables):
    """{"5/36 v4": n} as {label: [n, "v4"]}."""
    counts, versions = collections.Counter(), collections.defaultdict(set)
    for key, n in ours.items():
        kind, version = key.split(" v")
        group, opcode = map(int, kind.split("/"))
        label = tables.NAMES.get((group, opcode), f"{tables.GROUP.get(group, group)}/{opcode}")
        counts[label] += n
        versions[label].add(int(version))
    return {label: [n, "v" + ",".join(map(str, sorted(versions[label])))] for label, n in counts.items()}


def group_table(ours, tables):
    counts = collections.Counter()
    for key, n in ours.items():
        group = int(key.split("/")[0])
        counts[tables.GROUP.get(group, f"0x{group:02x}")] += n
    return dict(counts)


def classic_table(ours, tables):
    return {f"{tables.CLASSIC.get(key.split('/')[0], key.split('/')[0])}/{key.split('/')[1]}": n for key, n in ours.items()}


def compare(file, ours, theirs, tables):
    """Every difference, as text."""
    wrong = []

    def same(what, a, b):
        if a != b:
            wrong.append(f"{file}: {what}: the reader says {a!r}, the inventory {b!r}")

    for key in ("events", "size", "os", "build", "cpus", "ptr", "mode", "buffers_written", "buffers", "events_lost",
                "buffers_lost", "mhz", "perf_freq", "clock", "tz_bias"):
        same(key, ours[key], theirs[key])
    same("buffer size", ours["buffer_size"], theirs["lfh_buffer_size"])
    same("start", filetime(ours["start"]), theirs["start"])
    same("end", filetime(ours["end"]), theirs["end"])
    names = [name for name in (ours["session_name"], ours["log_file_name"]) if name]
    same("names", names, theirs["names"][: len(names)] if names else theirs["names"])
    same("compression", {2: "LZNT1", 3: "XPRESS", 4: "XPRESS_HUFF"}.get(ours["compression"]),
         theirs.get("compressed", {}).get("format"))
    same("headers", {tables.HT[int(k)]: n for k, n in ours["headers"].items()}, theirs["headers"])
    same("kernel groups", group_table(ours["kernel"], tables), theirs["kernel_groups"])
    same("kernel events", kernel_table(ours["kernel"], tables), theirs["kernel"])
    same("providers", {tables.PROV.get(k, k): n for k, n in ours["providers"].items()}, theirs["providers"])
    same("number of providers", len(ours["providers"]), theirs["n_providers"])
    same("extended items", {tables.EXT.get(int(k), k): n for k, n in ours["ext"].items()}, theirs["ext"])
    same("event flags", ours["evflags"], theirs["evflags"])
    same("channel 11", ours["channels"].get("11", 0), theirs["channel11"])
    same("PMC", ours["pmc"], theirs["perfinfo_pmc_ext"])
    same("PEBS", ours["pebs"], theirs["perfinfo_pebs"])
    same("WPP messages", ours["messages"], theirs["wpp_messages"])
    # the inventory keeps the 40 commonest
    classic = classic_table(ours["classic"], tables)
    if len(theirs["classic"]) < 40:
        same("classic events", classic, theirs["classic"])
    else:
        same("classic events", {k: classic.get(k) for k in theirs["classic"]}, theirs["classic"])
    seen = sorted(int(c) for c in ours["cpus_seen"])
    if not set(seen) <= set(theirs["cpu_index_seen"]):
        wrong.append(f"{file}: CPUs {seen} are not among {theirs['cpu_index_seen']}")
    for what in ("disorder", "late", "bad_records", "bad_buffers"):
        same(what, ours[what], 0)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    build = pathlib.Path(parser.parse_args().build)
    program = build / "tests" / "unit" / "reader_counts"
    tables = parser_tables()
    wrong, files = [], 0
    for name in traces.names():
        paths = traces.paths(name, build)
        output = subprocess.run([program, *paths], stdout=subprocess.PIPE, check=True, timeout=300).stdout
        rows = [json.loads(line) for line in output.splitlines()]
        for file, row in zip(traces.files(name), rows, strict=True):
            wrong += compare(f"{name}/{file}", row, traces.inventories()[f"{name}/{file}"], tables)
            files += 1
    for line in wrong:
        print(line)
    print(f"{files} files compared\n{files - min(files, len(wrong))} passed, {len(wrong)} failed")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())
