"""The dashboard's page of programs in a real Chromium: the tables of results of an agent's programs, the rows of one, and its chart over time have what
SQL has; axe-core finds nothing.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Query language 11
import collections
import json
import subprocess

import harness
import test_dashboard
import test_tracegen
import test_watch_config
import web_world

PROGRAMS = {
    "switches": "Thread/CSwitch { @[execname, cpu] = count(); }\ntick:500ms { print(@); clear(@); }",
    "few": "Thread/CSwitch { @[execname, NewThreadId] = sum(NewThreadPriority); @avg[cpu] = avg(NewThreadWaitTime); }",
}


def test(env, checks, _):
    env.make_certificates(["ships"])
    collector = env.new_collector(extra=["--web", "127.0.0.1:0"]).start()
    trace, _ = test_tracegen.generate(env.build, env.folder, "office", "--preset", "office", "--duration-ms", "2000")
    watch = [{"name": name, "program": program, "keys": 10 if name == "few" else 65536, "events": "aggregate"} for name, program in PROGRAMS.items()]
    test_watch_config.ship(env, checks, collector, "ships", [{"name": "file", "files": [str(trace)], "watch": watch}])
    ask = lambda sql: test_watch_config.ask(collector, sql)  # noqa: E731
    tables = {r["name"]: r["n"] for r in ask("SELECT name, count(*) AS n FROM events WHERE provider_name = 'etwagent-watch' GROUP BY 1 ORDER BY 1")}
    rows = [{"time": r["time"], **json.loads(r["fields"])} for r in ask("SELECT time, fields FROM events WHERE name = 'watch_switches'")]
    newest = max(r["time"] for r in rows)
    greatest = collections.defaultdict(int)
    for row in rows:
        key = f"{row['execname']}, {row['cpu']}"
        greatest[key] = max(greatest[key], row["count"])
    ordered = sorted(greatest.items(), key=lambda item: -item[1])
    least = ordered[5][1]  # lines of equal values stand for each other
    checks.that(len({r["time"] for r in rows}) == 4 and len(ordered) > 12, f"ticks and keys: {len(rows)} rows")
    web = web_world.Web(collector)
    world = env.folder / "world.json"
    world.write_text(json.dumps({
        "url": web.address + "/", "chromium": test_dashboard.browser(), "tables": tables, "table": "watch_switches", "others": "watch_few",
        "newest": [["ships", r["execname"], str(r["cpu"]), str(r["count"])] for r in rows if r["time"] == newest],
        "lines": [key for key, value in ordered if value >= least][:6], "value": ordered[0][1]}))
    done = subprocess.run(["node", test_dashboard.BROWSER / "programs.mjs", world], cwd=test_dashboard.packages(env), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=300)
    for line in done.stdout.splitlines():
        word, _, what = line.partition(" ")
        if word in ("ok", "FAILED"):
            checks.that(word == "ok", what)
        else:
            print(line)
    checks.equal(done.returncode, 0, "the browser's script")
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
