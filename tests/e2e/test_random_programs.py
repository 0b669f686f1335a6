"""Random programs of the query language over generated and real traces: `etwagent watch` over the file and `etwcollector watch` over the store give the same
text, and what an evaluation in Python gives (random_programs.py). Twenty programs run together, as they have no name in common. `--soak` has 1,000 of
each trace.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Query language 13: Over a file and over the store a program gives the same, and what an evaluation in Python gives. | 1,000 random programs on each of
#   three generated and three real traces: no difference | 2026-11-28
import harness
import random_programs
import test_tracegen
import test_watch
import test_watch_store
import traces

GENERATED = {"office": 400, "web-server": 100, "stacks": 150}
REAL = {"clr-kernel-win8-x64": "random programs on kernel and .NET events", "tracelogging-win11-20cpu": "random programs on TraceLogging",
        "clr-32bit": "random programs on .NET events of 32 bits"}
TOGETHER, COUNT, SOAK_COUNT = 20, 20, 1000


def check(env, checks, store, name, paths, count):
    events = test_watch.dump(env, paths)
    test_watch_store.ingest(env, store, name, paths)
    programs, divided = list(random_programs.make(name, events, count)), 0
    for begin in range(0, count, TOGETHER):
        some = programs[begin:begin + TOGETHER]
        text = "\n".join(program[1] for program in some)
        done = test_watch.watch(env, text, paths, "--json", "--keys", "1000000", "--memory", "1GiB")
        divided += "divide by zero" in done.stderr
        for sentence in random_programs.wrong(done.stdout, some):
            checks.that(False, f"{name}: {sentence}")
        stored = test_watch_store.in_store(env, store, text, "--json", "--keys", "1000000", "--memory", "1GiB", "--host", name)
        checks.that(stored.stdout == done.stdout, f"{name}, programs {begin} to {begin + len(some)}: the store's answers are the file's")
    checks.that(divided and sum(len(entries) for p in programs for entries in p[2].values()) > 2 * count, f"{name}: programs give something")


def test(env, checks, arguments):
    count = SOAK_COUNT if arguments.soak else COUNT
    store = env.folder / "store"
    for name, ms in GENERATED.items():
        trace, _ = test_tracegen.generate(env.build, env.folder, name, "--preset", name, "--duration-ms", str(ms))
        check(env, checks, store, name, [trace], count)
    for name, what in REAL.items():
        if checks.real(what) and arguments.soak:
            check(env, checks, store, name, traces.paths(name, env.build), count)


if __name__ == "__main__":
    harness.main(test, __doc__)
