"""Where the tests find traces. Real traces, which Windows wrote, are not in the source tree. Their folder is the first of these that
exists: EA_TRACES, ../shared/traces, build/real-traces (`make traces` fills it from the public repositories in tests/traces.tsv).

Without real traces, traces of the same names are generated from tests/tracegen/stand-ins (build/stand-ins). They are as large and
as varied as most tests need: a test calls paths(name, build) and event_count(name) and works with either. A check that needs
a real trace begins with `if traces.real("what it shows", files...)`. Without the files real() prints SKIPPED lines, which
run_all.py counts and lists. With EA_REQUIRE_TRACES=1 it fails instead. EA_TRACES=none means: run without real traces.
EA_REQUIRE_TRACES=fetched fails for all but files that no public repository has (DERIVED: made from public data for the project).

Run by itself it unpacks or generates all traces:
    python3 tests/traces.py --build BUILD
"""
import argparse
import csv
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

import naive_etl

SOURCE = pathlib.Path(__file__).resolve().parent.parent
TABLE = SOURCE / "tests" / "traces.tsv"
FETCHED = SOURCE / "build" / "real-traces"
SCENARIOS = SOURCE / "tests" / "tracegen" / "stand-ins"
SKIPPED = "SKIPPED, since it needs real traces: "  # how a line of a log begins that run_all.py counts
# The sources that determine the bytes of generated traces; when their content changes, the traces go to another folder.
GENERATOR = ("tests/tracegen", "proto/etl", "proto/event")


class Missing(SystemExit):
    """A file that a test needs does not exist. Uncaught it ends the test as failed."""

    def __init__(self, message):
        super().__init__(f"FAILED: {message}")


@functools.cache
def table():
    """The files of tests/traces.tsv: {"trace/file": its row}."""
    with open(TABLE, encoding="utf-8", newline="") as lines:
        return {row["file"]: row for row in csv.DictReader(lines, delimiter="\t")}


def kept(folder, file):
    """Path of a file in the folder of real traces: plain, or compressed with the suffix .zst; None when the file does not exist."""
    # a file that does not belong to one trace may be in ../reference
    for place in [folder] + [folder.parent / "reference"] * ("/" not in file):
        for path in (place / file, place / (file + ".zst")):
            if path.is_file():
                return path
    return None


@functools.cache
def real_folder():
    """The folder of real traces, or None. An incomplete one is an error: it says what is missing."""
    said = os.environ.get("EA_TRACES")
    beside = SOURCE.parent / "shared" / "traces"
    if said == "none":
        return None
    folder = pathlib.Path(said) if said else beside if beside.is_dir() else FETCHED if FETCHED.is_dir() else None
    if folder is not None:
        missing = [file for file in table() if file.endswith(".etl") and not kept(folder, file)]
        if missing:
            raise Missing(f"{folder} lacks {len(missing)} of the real traces in tests/traces.tsv, {missing[0]} among them: run `make traces`, "
                          "or set EA_TRACES to a folder that has them all, or to none")
    return folder


def required(files):
    """Whether a test of these files may not be skipped."""
    word = os.environ.get("EA_REQUIRE_TRACES", "")
    if word not in ("", "0", "1", "fetched"):
        raise Missing(f"EA_REQUIRE_TRACES is {word}; expected 0, 1 or fetched")
    return word == "1" or (word == "fetched" and all(file in table() for file in files))


def real(what, *files):
    """True when the real traces are here, and these other files of their folder. Otherwise says that `what` is skipped, and returns False;
    fails where a skip is no pass."""
    folder = real_folder()
    missing = [file for file in files if not folder or not kept(folder, file)]
    if folder and not missing:
        return True
    if required(files):
        raise Missing(f"EA_REQUIRE_TRACES is set, and there is no {missing[0] if missing else 'folder of real traces'}, which this needs: {what}")
    print(SKIPPED + what, flush=True)
    return False


def names():
    """The traces, each a folder with one file or several that belong together."""
    if real_folder():
        return sorted({file.split("/")[0] for file in table() if file.endswith(".etl")})
    return sorted(path.stem for path in SCENARIOS.glob("*.yaml"))


def among(wanted):
    """Those of the named traces that exist, real or generated, in their order."""
    return [name for name in wanted if name in names()]


def files(name):
    """File names of one trace, in byte order; the order is their number in a merge."""
    if name not in names():
        raise Missing(f"no trace is called {name}; there are {', '.join(names())}")
    if not real_folder():
        return ["trace.etl"]
    return sorted(file.split("/", 1)[1] for file in table() if file.startswith(name + "/") and file.endswith(".etl"))


def paths(name, build):
    """Paths of the .etl files of one trace: real ones unpacked below BUILD/traces, or a generated one."""
    found = files(name)
    if not real_folder():
        return [stand_ins(build) / name / file for file in found]
    return [unpacked(f"{name}/{file}", pathlib.Path(build)) for file in found]


def document(name, build):
    """Path of another file of the folder of real traces (a baseline, a manifest), unpacked: "http-server-win7/evtx.xml". Only where
    real() said that it is there."""
    return unpacked(name, pathlib.Path(build))


def unpacked(file, build):
    folder = real_folder()
    source = kept(folder, file) if folder else None
    if not source:
        raise Missing(f"{file} is not in the folder of real traces ({folder})")
    target = build / "traces" / file
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # several tests may unpack at once: each into its own file, the rename is atomic
    handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    if source.suffix == ".zst" and not file.endswith(".zst"):
        subprocess.run(["zstd", "-q", "-d", "-f", "--long=24", str(source), "-o", part], check=True)
    else:
        shutil.copyfile(source, part)
    os.chmod(part, 0o644)
    os.replace(part, target)
    return target


@functools.cache
def stamp():
    digest = hashlib.sha256()
    for folder in GENERATOR:
        for path in sorted((SOURCE / folder).rglob("*")):
            if path.is_file():
                digest.update(path.relative_to(SOURCE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def generator(build):
    """A tracegen that runs here: of this build folder, else of any other."""
    for folder in [pathlib.Path(build)] * (build is not None) + sorted((SOURCE / "build").glob("*")):
        program = folder / "tests" / "tracegen" / "tracegen"
        if program.is_file():
            return program
    raise Missing("there is no build/*/tests/tracegen/tracegen to generate traces with; build first: `make`")


def stand_ins(build=None):
    """The folder of generated traces, which it makes when it is missing."""
    folder = SOURCE / "build" / "stand-ins" / stamp()
    if folder.is_dir():
        return folder
    program = generator(build)
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = pathlib.Path(tempfile.mkdtemp(dir=folder.parent, prefix="."))
    for scenario in sorted(SCENARIOS.glob("*.yaml")):
        (part / scenario.stem).mkdir()
        packed = ["--compress"] if "compressed buffers" in scenario.read_text(encoding="utf-8").split("\n", 1)[0] else []
        subprocess.run([program, "make", "--preset", scenario, *packed, "--out", part / scenario.stem / "trace.etl"], check=True,
                       stdout=subprocess.DEVNULL)
    try:
        os.chmod(part, 0o755)
        part.rename(folder)
    except OSError:  # another test was faster
        shutil.rmtree(part)
    return folder


@functools.cache
def event_count(name):
    """How many events an independent parser counted in a trace, all its files together."""
    if real_folder():
        return sum(int(table()[f"{name}/{file}"]["events"]) for file in files(name))
    return sum(naive_etl.parse(path)["events"] for path in paths(name, None))


def main():
    parser = argparse.ArgumentParser(description="Unpacks the real traces into BUILD/traces, or generates traces where there are none.")
    parser.add_argument("--build", required=True, help="build folder")
    arguments = parser.parse_args()
    if not real_folder():  # of a run that had real ones
        shutil.rmtree(pathlib.Path(arguments.build) / "traces", ignore_errors=True)
    for name in names():
        paths(name, arguments.build)
    print(f"{len(names())} {'real' if real_folder() else 'generated'} traces")


if __name__ == "__main__":
    main()
