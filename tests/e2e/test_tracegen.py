"""What tracegen writes is what an independent parser reads, and the same seed gives the same bytes.

# sanitizers: yes
"""
import argparse
import collections
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import harness
import traces

# (group, opcode) as the independent parser labels them -> our class names
LABELS = {"Process.Start": "Process/Start", "Process.End": "Process/End", "Process.DCStart": "Process/DCStart",
          "Process.DCEnd": "Process/DCEnd", "Process.Terminate": "Process/Terminate", "Thread.Start": "Thread/Start",
          "Thread.End": "Thread/End", "Thread.DCStart": "Thread/DCStart", "Thread.DCEnd": "Thread/DCEnd",
          "Image.Load": "Image/Load", "Image.Unload": "Image/UnLoad", "Image.DCStart": "Image/DCStart",
          "Image.DCEnd": "Image/DCEnd", "PerfInfo.SampledProfile": "PerfInfo/SampleProf",
          "StackWalk.Stack": "StackWalk/Stack", "KTC.ImageID/0 v2": "ImageID/Info", "KTC.ImageID/36 v2": "ImageID/DbgID_RSDS"}


def generate(build, folder, name, *arguments):
    """Paths of a new trace and its truth."""
    trace, truth = folder / f"{name}.etl", folder / f"{name}.jsonl"
    subprocess.run([build / "tests" / "tracegen" / "tracegen", "make", "--out", trace, "--truth", truth, *arguments],
                   check=True, stdout=subprocess.DEVNULL)
    return trace, truth


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def rows(truth):
    with open(truth, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def independent(trace):
    """What the parser that the project did not write says of a trace."""
    tool = traces.folder().parent / "tools" / "etlinv.py"
    if not tool.is_file():
        raise traces.Missing(f"the independent parser is missing: expected {tool}")
    done = subprocess.run([sys.executable, tool, trace], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def check_counts(checks, name, trace, truth):
    seen, told = independent(trace), rows(truth)
    checks.equal(seen["warnings"], [], f"{name}: warnings of the independent parser")
    checks.equal(seen["n_bad"], 0, f"{name}: bad records")
    totals = next(row for row in told if row["type"] == "totals")
    checks.equal(seen["events"], totals["events"], f"{name}: events")
    checks.equal((seen["events_lost"], seen["buffers_lost"]), (totals["events_lost"], totals["buffers_lost"]), f"{name}: lost")
    counts = {row["name"]: row["count"] for row in told if row["type"] == "class"}
    counted = {LABELS[label]: n for label, (n, _) in seen["kernel"].items() if label != "EventTrace.Header"}
    counted.update({LABELS[label]: n for label, n in seen["classic"].items()})
    checks.equal(counted, counts, f"{name}: events of each class")


def check_truth(checks, name, truth):
    """The truth agrees with itself, and holds what it is there to test: reused ids and addresses, lives of all kinds."""
    told = rows(truth)
    counts = {row["name"]: row["count"] for row in told if row["type"] == "class"}
    for kind, start, end, first, last in (("process", "Process/Start", "Process/End", "Process/DCStart", "Process/DCEnd"),
                                          ("thread", "Thread/Start", "Thread/End", "Thread/DCStart", "Thread/DCEnd"),
                                          ("module", "Image/Load", "Image/UnLoad", "Image/DCStart", "Image/DCEnd")):
        mine = [row for row in told if row["type"] == kind]
        checks.equal(sum(row["begin_raw"] is not None for row in mine), counts[start], f"{name}: {kind} begun")
        checks.equal(sum(row["end_raw"] is not None for row in mine), counts[end], f"{name}: {kind} ended")
        checks.equal(sum(row["begin_raw"] is None for row in mine), counts[first], f"{name}: {kind} there at the start")
        checks.equal(sum(row["end_raw"] is None for row in mine), counts[last], f"{name}: {kind} there at the end")
        checks.that(all((row["begin_raw"] or 0) < (row["end_raw"] or sys.maxsize) for row in mine), f"{name}: a {kind} ends first")
    ids = collections.Counter(row["pid"] for row in told if row["type"] == "process")
    ids.update(row["tid"] for row in told if row["type"] == "thread")
    checks.that(max(n for key, n in ids.items() if key) > 2, f"{name}: no id is used again")
    at = collections.defaultdict(set)
    for row in told:
        if row["type"] == "module":
            at[row["pid"], row["base"]].add(row["path"])
    checks.that(max(len(paths) for paths in at.values()) > 1, f"{name}: no address is used by two modules in turn")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--soak", action="store_true")
    arguments = parser.parse_args()
    build, checks = pathlib.Path(arguments.build).resolve(), harness.Checks()
    with tempfile.TemporaryDirectory(prefix="etwagent-test-") as temporary:
        folder = pathlib.Path(temporary)
        for seed in range(1, 30 if arguments.soak else 4):
            for options in ([], ["--compress"]):
                name = f"seed {seed}{' compressed' if options else ''}"
                trace, truth = generate(build, folder, f"{seed}{len(options)}", "--seed", str(seed), *options)
                check_counts(checks, name, trace, truth)
                check_truth(checks, name, truth)
        again, _ = generate(build, folder, "again", "--seed", "1")
        checks.equal(digest(again), digest(folder / "10.etl"), "the same seed once more")
        checks.that(digest(folder / "20.etl") != digest(folder / "10.etl"), "another seed gave the same trace")
        checks.equal((folder / "10.jsonl").read_text(), (folder / "11.jsonl").read_text(), "truth with and without compression")
        # another compiler's build beside this one, when there is one (dev is gcc, the sanitizers are clang)
        for other in ("dev", "asan-ubsan", "tsan"):
            other = build.parent / other
            if other != build and (other / "tests" / "tracegen" / "tracegen").is_file():
                twin, _ = generate(other, folder, other.name, "--seed", "1")
                checks.equal(digest(twin), digest(again), f"the same seed under {other.name}")
    sys.exit(checks.finish())


if __name__ == "__main__":
    main()
