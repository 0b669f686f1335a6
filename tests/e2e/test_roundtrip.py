"""Every trace through batches and back: each record equals the source's bit for bit, in batches of the usual size, of
20 events, and not compressed; and what `clr-kernel-win8-x64` may weigh.

# sanitizers: yes
"""
import argparse
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import traces

SMALL = {"amsi-eventslost", "clr-32bit", "clr-gc-events", "http-server-win7", "kernel-network-provider", "kernel-process-provider",
         "lxcore-tracelogging", "shutdown-win10", "small-32bit-xpress", "tracelogging-primitive-types", "tracelogging-struct"}
FORMS = {"usual": [], "of 20 events": ["--events", "20"], "not compressed": ["--level", "none"]}
# bytes an event, descriptions included: what the format is made for, and what was reached with room to spare
GENERATED = {("clr-kernel-win8-x64", "usual"): 9.1, ("clr-kernel-win8-x64", "of 20 events"): 33.5, ("shutdown-win10", "usual"): 4.4,
             ("shutdown-win10", "of 20 events"): 39.3, ("tracelogging-win11-20cpu", "usual"): 7.4, ("tracelogging-win11-20cpu", "of 20 events"): 27,
             ("kernel-network-provider", "usual"): 9.2, ("kernel-network-provider", "of 20 events"): 22.5, ("http-server-win7", "usual"): 17.7,
             ("http-server-win7", "of 20 events"): 58}
LIMITS = {"clr-kernel-win8-x64": 12.5, "tracelogging-win11-20cpu": 16.0, "diagsession-four-files": 15.5, "shutdown-win10": 13.5}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build folder with the programs")
    parser.add_argument("--soak", action="store_true", help="all traces under sanitizers, too")
    arguments = parser.parse_args()
    build, checks = pathlib.Path(arguments.build).resolve(), harness.Checks()
    program = build / "tests" / "bench" / "batches"
    real = checks.real("roundtrip: bytes an event of four real traces")
    limits = {(name, "usual"): most for name, most in LIMITS.items()} if real else GENERATED
    for name in traces.names():
        paths = traces.paths(name, build)
        for form, options in FORMS.items():
            if "san" in build.name and not arguments.soak and (name not in SMALL or form == "of 20 events"):
                continue
            done = subprocess.run([program, "--check", *options, *paths], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if not checks.equal(done.returncode, 0, f"{name}, batches {form}: {done.stderr.strip()}"):
                continue
            result = json.loads(done.stdout)
            checks.equal(result["events"], traces.event_count(name), f"{name}, batches {form}: events")
            most = limits.get((name, form))
            if most:
                checks.that(result["bytes_per_event"] <= most, f"{name}, batches {form}: {result['bytes_per_event']} bytes an event, {most} are allowed")
                print(f"{name}, batches {form}: {result['bytes_per_event']} bytes an event")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
