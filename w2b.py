from sub import sub
sub('tests/windows/EMULATOR.md',('| `test_faults.py` state |','| `test_faults.py` at_start |'))
sub('tests/windows/test_knobs.py',('''def unprivileged(''','''def state(env, checks, session, windows, arguments):
    """A provider chooses by the keywords of a request for its state what it logs: it gets those that it was enabled with, or all."""
    paths = traces.paths(TRACE, env.build)
    every = [e for e in said(env, paths) if e["provider"] == RUNTIME]
    one = next(e for e in every if e["keyword"])
    bit = one["keyword"] & -one["keyword"]
    asked = {"all": {}, "one": {"any": hex(bit)}, "other": {"any": hex(1 << 47)}}
    with emulated.Machine(env, session, windows, "state") as machine:
        machine.plays(paths, f"state={RUNTIME} {one['id']}")
        files, _ = record(env, session, machine, [{"name": name, **SMALL, "providers": [ask(capture_state=True, **more)]} for name, more in asked.items()], "out")
        own = sum(e["id"] == one["id"] for e in every)
        found = {name: sum(e["provider"] == RUNTIME and e["id"] == one["id"] for e in said(env, [file])) for name, file in files.items()}
        checks.equal(found, {"all": 2 * own, "one": 2 * own, "other": 0}, "the provider's state beside the trace's own events")


def unprivileged('''),("counters, unprivileged, driver\n","counters, unprivileged, driver, state\n"))
sub('tests/windows/test_faults.py',('''    first = json.loads(env.run([env.agent, "dump", "--format", "raw", "--class", "Runtime/Start", *traces.paths(TRACE, env.build)]).stdout.splitlines()[0])
    checks.that(clocks and min(clocks) < first["clock"], f"the provider's state at the start: {clocks}, in the trace {first['clock']}")
''','''    own = env.run([env.agent, "dump", "--format", "raw", "--class", "Runtime/Start", *traces.paths(TRACE, env.build)]).stdout.splitlines()
    checks.that(own and len(clocks) == 2 * len(own), f"the provider's state, asked for when the consumer runs: {len(clocks)} events, {len(own)} in the trace")
'''))
