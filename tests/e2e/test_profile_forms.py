"""Every weight of `etwcollector profile` in every form, over two generated machines at once, alone, in a range, with a difference and of one
process: all forms hold the same stacks, the sums add up, and over HTTP each is the same, byte for byte.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Stacks, profiles and symbols 3: A profile is the same in each form, alone, merged, compared, and over HTTP. | eight weights, seven forms,
#   two generated machines: sums equal to the nanosecond, HTTP equal byte for byte | 2026-11-23
import collections
import http.client
import json
import subprocess
import sys
import urllib.parse

import harness
import profile_formats
import test_profile
import test_tracegen
import web_world

sys.path[:0] = [str(harness.ROOT / "tests" / "judges")]
import judge_activity  # noqa: E402
import naive_activity  # noqa: E402
import world  # noqa: E402

FORMS = {"folded": profile_formats.folded, "json": profile_formats.tree, "speedscope": profile_formats.speedscope, "pprof": profile_formats.pprof,
         "chrome": profile_formats.chrome, "firefox": profile_formats.firefox}
DIFFERENCES = ("folded", "json", "speedscope", "pprof")  # the others have no room for a second range
HOSTS = {"narrow": "wow64", "wide": "stacks"}  # and their presets
TOPS = 200


class Forms:
    """Profiles of the store by the program and over HTTP."""

    def __init__(self, env, checks, collector):
        self.checks, self.port = checks, web_world.Web(collector).port
        self.command = [str(env.collector), "profile", "--store", str(collector.store)]

    def said(self, options):
        words = [word for name, value in options for word in (f"--{name}", str(value))]
        return subprocess.run([*self.command, *words], capture_output=True)

    def web(self, options):
        names = {"diff-from": "other_from", "diff-to": "other_to"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET", "/api/v1/profile?" + urllib.parse.urlencode([(names.get(name, name), value) for name, value in options]))
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body

    def list(self, path, **params):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET", f"/api/v1/{path}?" + urllib.parse.urlencode(params))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer["items"]

    def ask(self, *options):
        """The program's answer, which is also HTTP's."""
        done = self.said(options)
        if done.returncode:
            raise harness.Failure(f"profile {options}: {done.stderr.decode()}")
        status, body = self.web(options)
        self.checks.that((status, body) == (200, done.stdout), f"profile {options}: over HTTP {status}, {len(body)} bytes, by the program {len(done.stdout)}")
        return done.stdout

    def stacks(self, form, *options):
        text = self.ask(*options, ("format", form))
        return FORMS[form](text if form == "pprof" else text.decode())


def rows_of(answer):
    return answer["rows"] if isinstance(answer, dict) else answer


def non_zero(stacks):
    return {path: weight for path, weight in stacks.items() if weight}


def check_tops(checks, weight, reported, folded):
    """Functions and modules, the greatest first, are sums over the stacks."""
    labels = collections.Counter(frame["label"] for frame in reported["frames"])
    own, whole = collections.Counter(), collections.Counter()
    for path, n in folded.items():
        own[path[-1]] += n
        whole.update({label: n for label in set(path[1:])})
    wrong = [(label, row) for row in reported["functions"] for label in [reported["frames"][row["frame"]]["label"]]
             if labels[label] == 1 and (row["self"], row["total"]) != (own[label], whole[label])]
    checks.that(not wrong and reported["functions"], f"{weight}: {len(wrong)} of {len(reported['functions'])} functions have other sums, such as {wrong[:1]}")
    for rows in (reported["functions"], reported["top_modules"]):
        checks.that([row["self"] for row in rows] == sorted((row["self"] for row in rows), reverse=True) and len(rows) <= TOPS, f"{weight}: the greatest first")


def check_weight(checks, forms, weight, cut):
    chosen = ("weight", weight)
    folded = forms.stacks("folded", chosen)
    checks.that(len(folded) > 20, f"{weight}: hardly a stack: {len(folded)}")
    for form in FORMS:
        try:
            checks.that(forms.stacks(form, chosen) == folded, f"{weight}: {form} and folded hold other stacks")
        except (profile_formats.Wrong, KeyError, ValueError) as wrong:
            checks.that(False, f"{weight}: {form}: {wrong!r}")
    reported = json.loads(forms.ask(chosen, ("format", "json")))
    checks.equal(reported["total"], sum(folded.values()), f"{weight}: the total")
    checks.equal((reported["from"], reported["to"]), (None, None), f"{weight}: ends that were not given")
    check_tops(checks, weight, reported, folded)
    top = forms.ask(chosen, ("format", "top")).decode()
    first = reported["functions"][0]
    shown = f"{first['self'] / 1e6:.3f}" if reported["unit"] == "nanoseconds" else str(first["self"])  # what is counted is a whole number
    checks.equal(top.splitlines()[1].split(None, 2)[::2], [shown, reported["frames"][first["frame"]]["label"]], f"{weight}: what is on top")
    apart = [forms.stacks("folded", chosen, ("host", host)) for host in HOSTS]
    checks.that(apart[0] + apart[1] == folded, f"{weight}: two machines apart and at once")
    early, late = forms.stacks("folded", chosen, ("to", cut)), forms.stacks("folded", chosen, ("from", cut))
    checks.equal(early + late, folded, f"{weight}: before and after {cut}")
    check_difference(checks, forms, weight, cut, early, late)
    return reported


def check_difference(checks, forms, weight, cut, early, late):
    difference = [("weight", weight), ("from", cut), ("diff-to", cut)]
    minus = collections.Counter(late)
    minus.subtract(early)
    text = {form: forms.ask(*difference, ("format", form)) for form in DIFFERENCES}
    checks.equal(+profile_formats.folded(text["folded"].decode(), 2), late, f"{weight}: a difference's own range, folded")
    columns = collections.Counter()
    for line in text["folded"].decode().splitlines():
        path, other, _ = line.rsplit(" ", 2)
        columns[tuple(path.split(";"))] += int(other)
    checks.equal(+columns, early, f"{weight}: a difference's other range, folded")
    reported = json.loads(text["json"])
    given = [reported["from"] is None, reported["to"] is None, reported["other"]["from"] is None, reported["other"]["to"] is None]
    checks.equal(given, [False, True, True, False], f"{weight}: a difference's ends that were not given")
    checks.equal((profile_formats.tree(text["json"].decode(), 3), profile_formats.tree(text["json"].decode(), 5)), (late, early), f"{weight}: a difference as JSON")
    checks.equal([profile_formats.speedscope(text["speedscope"].decode(), which) for which in (0, 1)], [late, early], f"{weight}: a difference as speedscope")
    checks.equal(non_zero(profile_formats.pprof(text["pprof"])), non_zero(minus), f"{weight}: a difference as pprof")
    for form in sorted(set(FORMS) - set(DIFFERENCES)):
        options = [*difference, ("format", form)]
        done, (status, body) = forms.said(options), forms.web(options)
        checks.that(done.returncode == 2 and done.stderr and not done.stdout and status == 400 and b"difference" in body,
                    f"{weight}: a difference as {form}: {done.returncode} {done.stderr}, {status} {body[:200]}")


def check_processes(checks, forms, rows, reported):
    """One process at a time: together they are the machine."""
    pids = sorted({row["pid"] for row in rows if row["type"] == "process"})
    parts = collections.Counter()
    for pid in pids:
        parts += forms.stacks("folded", ("weight", "samples"), ("host", "narrow"), ("pid", pid))
    checks.equal(parts, forms.stacks("folded", ("weight", "samples"), ("host", "narrow")), f"samples of {len(pids)} processes, each by itself")
    both = forms.stacks("folded", ("weight", "samples"), ("host", "narrow"), ("pid", pids[0]), ("pid", pids[-1]))
    each = [forms.stacks("folded", ("weight", "samples"), ("host", "narrow"), ("pid", pid)) for pid in (pids[0], pids[-1])]
    checks.equal(both, each[0] + each[1], "two processes at once")


def check_counters(checks, forms, reported, names):
    """The list of counters names what a profile's weight takes, with as many samples as the profile has."""
    def asked(**params):
        return {row["counter"]: (row["samples"], row["hosts"]) for row in forms.list("counters", **params)}
    apart = [asked(host=host) for host in HOSTS]
    checks.equal({name: n for name, (n, _) in asked().items()}, {name: reported[f"pmc:{name}"]["events"] for name in names}, "counters that are sampled")
    checks.equal({name: (sum(part[name][0] for part in apart if name in part), sum(name in part for part in apart)) for name in names}, asked(), "counters of each machine")
    checks.equal(asked(to="2000-01-01T00:00:00Z"), {}, "counters of a time without samples")


def check_times(env, checks, forms, traces):
    """Chrome's and Firefox's forms have each sample at its time, in its thread of its process."""
    want, begun = collections.Counter(), set()
    for host, trace in traces.items():
        records = world.dumped(env.agent, trace)
        machine = world.fold(records)
        whose, on = naive_activity.Whose(machine), "" if len(traces) == 1 else f" on {host}"
        for record in records:
            if record["name"] == "PerfInfo/SampleProf":
                tid = record["fields"]["ThreadId"]
                instance, pid = whose.thread(tid, record)
                image = "Idle" if pid == 0 else judge_activity.image(type("Host", (), {"state": machine}), instance) or "?"
                want[f"{image} ({pid}){on}", f"thread {tid}", record["units"]] += 1
                begun.add(record["units"])
    chosen = [("weight", "samples"), *(("host", host) for host in traces)]
    file, got = json.loads(forms.ask(*chosen, ("format", "chrome"))), collections.Counter()
    processes = {event["pid"]: event["args"]["name"] for event in file["traceEvents"] if event["name"] == "process_name"}
    threads = {event["tid"]: (processes[event["pid"]], event["args"]["name"]) for event in file["traceEvents"] if event["name"] == "thread_name"}
    for sample in file["samples"]:
        got[(*threads[sample["tid"]], min(begun) + round(sample["ts"] * 10))] += sample["weight"]
    checks.that(got == want, f"chrome: samples at other places: {list((got - want).items())[:3]}, {list((want - got).items())[:3]}")
    file, got = json.loads(forms.ask(*chosen, ("format", "firefox"))), collections.Counter()
    for thread in file["threads"]:
        for time, weight in zip(thread["samples"]["time"], thread["samples"]["weight"]):
            got[thread["processName"], thread["name"], min(begun) + round(time * 10000)] += weight
    checks.that(got == want, f"firefox: samples at other places: {list((got - want).items())[:3]}, {list((want - got).items())[:3]}")
    epoch = round(file["meta"]["startTime"] * 10000)
    checks.that(abs(epoch - min(begun)) <= 10, f"firefox: the beginning is {epoch}, not {min(begun)}")


def test(env, checks, arguments):
    env.make_certificates(HOSTS)
    collector = env.new_collector(extra=["--web", "127.0.0.1:0"]).start()
    rows, made = {}, {}
    for host, preset in HOSTS.items():
        trace, truth = test_tracegen.generate(env.build, env.folder, host, "--preset", preset, "--duration-ms", "2000" if arguments.soak else "400")
        env.replay([trace], collector, agent=host, spool=env.folder / f"{host}-spool", extra=["--batch-events", "3000"])
        rows[host], made[host] = test_tracegen.rows(truth), trace
    forms = Forms(env, checks, collector)
    machine = next(row for row in rows["narrow"] if row["type"] == "machine")
    cut = test_profile.rfc3339((machine["start_utc_ns"] + machine["end_utc_ns"]) // 2)
    sources = json.loads(env.run([env.collector, "query", "--store", collector.store, "--format", "json", "SELECT DISTINCT source, source_name FROM counter_samples"]).stdout)
    names = sorted({str(row["source_name"] or row["source"]) for row in rows_of(sources)})
    checks.that(names, "no counter is sampled")
    reported = {weight: check_weight(checks, forms, weight, cut) for weight in ("cpu", "samples", *(f"pmc:{name}" for name in names), "ready", "wait", "disk", "faults")}
    nothing = json.loads(forms.ask(("weight", "pmc:CashMisses"), ("format", "json")))
    checks.that(nothing["events"] == 0 and nothing["notes"].startswith("no sample of the counter CashMisses is stored in this range; there are such of the sources ") and
                {int(n) for n in nothing["notes"].rsplit(" sources ", 1)[1].split(",")} == {row["source"] for row in rows_of(sources)}, f"a counter without samples: {nothing['notes']}")
    check_times(env, checks, forms, {"narrow": made["narrow"]})
    check_times(env, checks, forms, made)
    check_processes(checks, forms, rows["narrow"], reported)
    check_counters(checks, forms, reported, names)
    print(f"{len(reported)} weights, {len(FORMS) + 1} forms: {', '.join(reported)}")
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
