"""Managed methods: `etwcollector where` names code that a .NET runtime made at run time, which no module covers.

Against a fold of the method events that is written here, on clr-kernel-win8-x64: for methods of each process, an address inside, at the
method's first and last byte, at the end of the trace and before the method was there.
"""
import json

import harness
import traces

NAME = "clr-kernel-win8-x64"
EVENTS = ("Method/LoadVerbose", "Method/UnloadVerbose", "Method/DCStartVerbose", "Method/DCStopVerbose")


def methods(env):
    """The methods of the trace."""
    text = env.run([env.agent, "dump", "--format", "jsonl", "--no-names", *(x for n in EVENTS for x in ("--class", n)),
                    *traces.paths(NAME, env.build)]).stdout
    return fold(map(json.loads, text.splitlines()), "time")


def fold(events, time):
    """[(pid, start, size, begin or None, end or None, name)] of method events, in their order. time: what they call their time."""
    found, last = [], {}
    for event in events:
        f, runtime = event["fields"], event["provider"].startswith("e13c0d23")
        start, size = int(f["MethodStartAddress"], 16), f["MethodSize"]
        load, unload = runtime and event["id"] == 143, runtime and event["id"] == 144
        key = event["pid"], start
        if not size:
            continue
        before = last.get(key)
        if before and before["end"] is None:
            if not load and not unload:
                continue
            before["end"] = event[time]
        if unload and before:
            continue
        last[key] = {"pid": event["pid"], "start": start, "size": size, "begin": event[time] if load else before["end"] if before else None,
                     "end": event[time] if unload else None, "name": ".".join(filter(None, (f["MethodNamespace"], f["MethodName"])))}
        found.append(last[key])
    return found


def test(env, checks, arguments):
    expected = methods(env)
    env.make_certificates(("net",))
    collector = env.new_collector().start()
    env.replay(traces.paths(NAME, env.build), collector, agent="net")
    collector.stop()
    modules = {}
    asked = named = 0
    by_pid = {}
    for m in expected:
        by_pid.setdefault(m["pid"], []).append(m)
    checks.that(len(expected) > 1000, f"{len(expected)} methods in the trace")

    def where(pid, address, at="end"):
        done = env.run([env.collector, "where", "--store", collector.store, "--host", "net", "--json", "--at", at, "--pid", str(pid), hex(address)],
                       check=False)
        return json.loads(done.stdout)

    for pid, known in sorted(by_pid.items()):
        for m in known[::max(1, len(known) // 6)]:
            if m["end"] is not None:
                continue
            for address in (m["start"], m["start"] + m["size"] // 2, m["start"] + m["size"] - 1):
                asked += 1
                got = where(pid, address)
                if got["module"]:
                    modules[pid] = modules.get(pid, 0) + 1  # code that was compiled ahead of time is in its image
                    continue
                named += 1
                checks.equal((got["name"], int(got["offset"], 16)), (m["name"], address - m["start"]), f"process {pid}, {address:#x}")
            if m["begin"] is not None and not got["module"]:
                others = [o for o in known if o["begin"] is None and o["start"] <= m["start"] < o["start"] + o["size"]]
                early = where(pid, m["start"], "start")
                checks.that(others or early["name"] != m["name"], f"process {pid}: {m['name']} before it was there: {early}")
    checks.that(named >= 10, f"only {named} of {asked} addresses were named by methods")
    print(f"{len(expected)} methods; {named} of {asked} addresses are of methods, {sum(modules.values())} of modules")
    done = env.run([env.collector, "where", "--store", collector.store, "--host", "net", "--at", "end", "--pid", str(pid), "0x10"], check=False)
    checks.that(done.returncode == 1 and "0x10 is in no module" in done.stderr, f"an address in no module: {done.returncode} {done.stderr}")


if __name__ == "__main__":
    harness.main(test, __doc__)
