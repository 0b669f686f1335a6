"""Names of addresses: `dump` of the files and `export` of the store print the same lines with names, --no-names prints no names,
and the names are those in the trace's own name events.
"""
import json
import subprocess

import harness
import traces

TRACES = ["clr-kernel-win8-x64", "diagsession-four-files"]


def lines(command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, check=True)
    return done.stdout.splitlines()


def test(env, checks, arguments):
    env.make_certificates(agents=[f"machine-{name}" for name in traces.among(TRACES)])
    collector = env.new_collector().start()
    for name in traces.among(TRACES):
        paths = traces.paths(name, env.build)
        env.replay(paths, collector, agent=f"machine-{name}", spool=env.folder / f"spool-{name}")
        for form in ("jsonl", "text", "csv"):
            dumped = lines([env.agent, "dump", "--format", form, *paths])
            exported = lines([env.collector, "export", "--store", collector.store, "--host", f"machine-{name}", "--format", form])
            different = sum(a != b for a, b in zip(dumped, exported))
            checks.that(len(dumped) == len(exported) and not different, f"{name} as {form}: {different} of {len(dumped)} lines differ")
        bare = lines([env.agent, "dump", "--format", "jsonl", "--no-names", *paths])
        named = lines([env.agent, "dump", "--format", "jsonl", *paths])
        said, found, paths_found, wrong = {}, 0, 0, 0
        for line in bare:
            event = json.loads(line)
            if event["name"] in ("FileIo/Name", "FileIo/FileCreate", "FileIo/FileRundown", "FileIo/FileDelete"):
                said.setdefault(event["fields"]["FileObject"], set()).add(event["fields"].get("FileName", ""))
        for line, plain in zip(named, bare):
            event, before = json.loads(line), json.loads(plain)
            for field, value in event["fields"].items():
                if not isinstance(value, dict) or isinstance(before["fields"][field], dict):
                    wrong += value != before["fields"][field]
                    continue
                wrong += value["value"] != before["fields"][field]
                if field == "FileObject":
                    found += 1
                    ends = {n.rsplit("\\", 1)[-1].lower() for n in said.get(value["value"], ())}
                    wrong += value["name"].rsplit("\\", 1)[-1].lower() not in ends
                elif "name" in value:
                    paths_found += 1
                    wrong += value["value"].rsplit("\\", 1)[-1].lower() != value["name"].rsplit("\\", 1)[-1].lower()
        checks.equal(wrong, 0, f"{name}: values or names that no event has")
        checks.that(found + paths_found > 100, f"{name}: only {found} file objects and {paths_found} paths have names")
        print(f"{name}: {found} file objects and {paths_found} paths have names")
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
