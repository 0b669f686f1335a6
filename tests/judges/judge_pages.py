"""Judges of the dashboard: what a browser shows on its pages, cell by cell, against the naive rows, written as the pages write them."""
import collections
import decimal
import json
import re
import subprocess
import urllib.parse

import judge_activity
import judge_events
import judge_profile
import judge_state
import judge_store
import naive_activity
import naive_store
import test_dashboard
from judge_state import rows
from naive_state import FOREVER, format_time, parse_time

SCRIPT = test_dashboard.BROWSER / "read.mjs"


# ---- as the pages write ----

def rounded(value, to="0.1"):
    """As JavaScript's toFixed: the number itself, half up."""
    return str(decimal.Decimal(value).quantize(decimal.Decimal(to), decimal.ROUND_HALF_UP))


def count(n):
    n, i = float(n), 0
    while abs(n) >= (1000 if i else 10000) and i < 5:
        n, i = n / 1000, i + 1
    return rounded(n) + " " + ["", "k", "M", "G", "T", "P"][i] if i else f"{n:g}"


def size(n):
    return count(n) + ("B" if n >= 10000 else " B")


def moment(text):
    return text[:10] + " " + text[11:23] if text else ""


def shown(value):
    return "" if value is None else str(value)


# ---- the pages ----

def link(world, **state):
    return world.web.address + "/?" + urllib.parse.urlencode(state)


def read(world, pages):
    """{name: what read.mjs found}"""
    folder, asked = test_dashboard.packages(world.env), world.env.folder / f"{world.name}-pages.json"
    asked.write_text(json.dumps({"chromium": test_dashboard.browser(), "pages": [{"name": name, **page} for name, page in pages.items()]}), encoding="utf-8")
    done = subprocess.run(["node", SCRIPT, asked], cwd=folder, capture_output=True, text=True, timeout=600, check=True, stdin=subprocess.DEVNULL)
    return json.loads(done.stdout)


def table(page, label):
    return [tuple(row) for row in page["tables"].get(label, {"rows": []})["rows"]]


def columns(page, label, *names):
    """Rows of some columns of a table, by their titles."""
    found = page["tables"].get(label, {"head": [], "rows": []})
    head = [title.rstrip(" ▾▴") for title in found["head"]]
    return [tuple(row[head.index(name)] for name in names) for row in found["rows"]]


def chosen_process(host):
    """The process that has the most to show: connections, registry keys, children."""
    weight = collections.Counter()
    for record, i in judge_events.connections(host):
        weight[i and i.number] += 5
    for i in host.state.instances:
        weight[i.owner and i.owner.number] += i.kind == "process"
    weight.pop(None, None)
    best = max(weight, key=lambda number: (weight[number], -number))
    return next(i for i in host.state.instances if i.number == best)


def judge_pages(world):
    """Fleet, Host, Process, Ledger, Security, Events and Queries."""
    many = world.name == "all"
    name = "made-ipv6" if many and "made-ipv6" in world.hosts else next(iter(world.hosts))
    host = world.hosts[name]
    stream = next(iter(host.streams))
    at = host.span[0]
    process = chosen_process(host)
    wrong = next((other for other in ("holed", "made-losses") if other in world.hosts), name)
    klass = max((n, text) for text, n in collections.Counter(record["name"] for record in host.records).items() if text and n * len(host.streams) <= 100)[1]
    sql = f"SELECT name, count FROM events_by('name') WHERE host = '{name}' ORDER BY count DESC, name"
    profiled = next((other for other in ("made-reused", *world.hosts) if other in world.hosts and judge_activity.whole(world.hosts[other])
                     and judge_profile.sampled(world.hosts[other])[0]), None)
    pages = {"home": {"url": link(world, page="home", by="host")}, "fleet": {"url": link(world, page="fleet", group="agent_version")}, "host": {"url": link(world, page="host", host=name, at=format_time(at))},
             "process": {"url": link(world, page="process", host=name, stream=stream, instance=process.number)},
             "ledger": {"url": link(world, page="ledger", host=wrong)}, "gaps": {"url": link(world, page="host", host=wrong)},
             "events": {"url": link(world, page="events", host=name, field="cpu", **{"class": klass})},
             "queries": {"url": link(world, page="queries", sql=sql), "press": "Ask"},
             **{f"security {tab}": {"url": link(world, page="security", tab=tab, host=name)} for tab in ("starts", "places", "rare", "connections", "autostart")}}
    pages.update(usage_links(world))
    if profiled:
        pages["profile"] = {"url": link(world, page="profile", host=profiled, weight="samples")}
        pages["sandwich"] = {"url": link(world, page="profile", host=profiled, weight="samples", function=busiest_caller(world.hosts[profiled]))}
    pages["named"] = {"url": link(world, page="queries", query="top-processes-by-cpu", host=name)}
    rated = next((other for other in world.hosts if profiled and judge_profile.counters_of(world.hosts[other]) >= set(RATIO)), None)
    if rated:
        pages["ratio"] = {"url": link(world, page="profile", host=rated, diff=1, weight=f"pmc:{RATIO[0]}", other_weight=f"pmc:{RATIO[1]}")}
    pages.update({query: {"url": link(world, page="counters", tab=tab)} for tab, query in IPC_TABS.items()})
    found = read(world, pages)
    counter_pages(world, found)
    home_page(world, found["home"])
    usage_pages(world, found)
    fleet_page(world, found["fleet"])
    host_page(world, found["host"], host, at)
    process_page(world, found["process"], host, stream, process)
    ledger_page(world, found["ledger"], wrong)
    gap_note(world, found["gaps"], wrong)
    security_pages(world, found, host)
    if profiled:
        profile_page(world, found["profile"], world.hosts[profiled])
        sandwich(world, found["sandwich"], world.hosts[profiled])
    if rated:
        ratio_table(world, found["ratio"], world.hosts[rated])
    named_query(world, found["named"], host)
    want = [(name, moment(record["time"]), str(record["cpu"])) for record in host.records if record["name"] == klass] * len(host.streams)
    world.same("panel Events: Events", name, columns(found["events"], "Events", "host", "time", "cpu"), want)
    world.same("panel Events: Events over time", name, [sum(found["events"]["bars"])], [len(want)])
    cpus = collections.Counter(record["cpu"] for record in host.records if record["name"] == klass)
    shown_cpus = sorted(cpus.items(), key=lambda item: (-item[1], item[0]))[:10]
    world.same("panel FieldList: Most frequent values", name, columns(found["events"], "Most frequent values", "Value", "Events"), [(str(cpu), str(n * len(host.streams))) for cpu, n in shown_cpus])
    names = collections.Counter(record["name"] for record in host.records)
    want = sorted(((klass, str(n * len(host.streams))) for klass, n in names.items()), key=lambda row: (-int(row[1]), row[0]))
    world.same("panel Sql: Answer", name, table(found["queries"], "Answer"), want, ordered=True)
    world.same("panel Sql: SQL", name, ["SQL" in found["queries"]["headings"]], [True])


def top_processes(world, page):
    """The ten processes of all machines that used the most; of equal ones any may be the last."""
    for panel, table_name, write in (("Processor", "cpu_usage", count), ("Disk", "disk_usage", size), ("Network", "network_usage", size)):
        all_rows = []
        for name, host in world.hosts.items():
            used = naive_activity.usage(host.records, naive_activity.Whose(host.state), judge_activity.clock_of(host).ns, *judge_activity.EVER, 0)[table_name]
            words = ["samples"] if table_name == "cpu_usage" else [word for word in judge_activity.USED[table_name] if word.endswith("_bytes")]
            for key, row in used.items():
                if key[1]:
                    pid = "unknown" if key[1] == naive_activity.ANY else key[1]
                    all_rows += [(sum(row[word] for word in words), judge_activity.image(host, key[0]) or f"pid {pid}", name)] * len(host.streams)
        all_rows.sort(key=lambda row: -row[0])
        least = all_rows[9][0] if len(all_rows) > 10 else -1
        sure, maybe = (collections.Counter((image, name, write(n)) for n, image, name in all_rows if (n > least) == is_sure) for is_sure in (True, False))
        got = table(page, panel)
        world.same(f"panel TopProcesses: {panel}", "all", [len(got)], [min(10, len(all_rows))])
        world.same(f"panel TopProcesses: {panel}", "all", (collections.Counter(got) - maybe).elements(), sure.elements())


def home_page(world, page):
    listed = judge_store.machines(world)
    world.same("panel Tiles: tiles", "all", [tile for tile in page["tiles"] if not tile.endswith(("silent", "incidents"))], fleet_tiles(world))
    loads = judge_store.loads(world)
    for title, at in (("Events", 2), ("Stored bytes", 3)):
        world.same(f"panel LoadCharts: {title}", "all", [int(page["charts"][title])], [sum(row[at] for row in loads)])
    top_processes(world, page)
    versions = collections.Counter(row["agent_version"] or "(unknown)" for row in listed)
    world.same("panel Home: Versions", "all", columns(page, "Versions", "Agent", "Machines"), [(version, str(n)) for version, n in versions.items()])
    world.same("panel Home: Newest gaps", "all", columns(page, "Newest gaps", "From", "Machine"), [(moment(row["begin"]), row["host"]) for row in world.web.get("gaps", limit=10)["items"]])


def duration(ns):
    for unit, name, to in ((1e9, "s", "0.01"), (1e6, "ms", "0.1")):
        if ns >= unit:
            return f"{rounded(ns / unit, to)} {name}"
    return rounded(ns / 1e3) + " µs"


def busiest(world, query):
    """The process with the most of a query."""
    return next(iter(world.web.get(f"queries/{query}", limit=1)["items"]), None)


def usage_links(world):
    ran, read = busiest(world, "process-times"), busiest(world, "top-processes-by-disk")
    pages = {"waits": {"url": link(world, page="waits", host=ran["host"])}, "waits of one": {"url": link(world, page="waits", host=ran["host"], pid=ran["pid"])}} if ran else {}
    return {**pages, **({"disk": {"url": link(world, page="disk", host=read["host"])}} if read else {})}


def usage_pages(world, found):
    """Each table has the rows of its query, which has a judge of its own; the charts have the sums of the records."""
    def listed(query, **params):
        return world.web.get(f"queries/{query}", limit=100, **params)["items"]

    def who(row):
        return (row["image_name"] or f"pid {'unknown' if row['pid'] is None else row['pid']}", shown(row["pid"]), row["host"])

    ran, read = busiest(world, "process-times"), busiest(world, "top-processes-by-disk")
    if ran:
        host, one = {"host": ran["host"]}, {"host": ran["host"], "pid": ran["pid"]}

        def times(row):
            return (*map(duration, (row["running_ns"], row["ready_ns"], row["waiting_ns"])), count(row["switches"]), duration(row["unfinished_ns"]))

        world.same("panel Waits: Processes", ran["host"], table(found["waits"], "Processes"), [(*who(row), count(row["threads"]), *times(row)) for row in listed("process-times", **host)], ordered=True)
        page = found["waits of one"]
        world.same("panel Waits: Threads", ran["host"], table(page, "Threads"), [(*who(row), shown(row["tid"]), *times(row)) for row in listed("thread-times", **one)], ordered=True)
        world.same("panel Waits: What they waited for", ran["host"], table(page, "What they waited for"),
                   [(*who(row), shown(row["tid"]), shown(row["reason_name"]), count(row["count"]), *map(duration, (row["ns"], row["max_ns"], row["unfinished_ns"]))) for row in listed("thread-waits", **one)], ordered=True)
        world.same("panel Waits: Who ended their waits", ran["host"], table(page, "Who ended their waits"),
                   [(*who(row), shown(row["tid"]), row["waker_image"] or f"pid {'unknown' if row['waker_pid'] is None else row['waker_pid']}", shown(row["waker_tid"]), count(row["count"]), duration(row["waited_ns"]))
                    for row in listed("thread-wakes", **one)], ordered=True)
    if read:
        disk_page(world, found["disk"], world.hosts[read["host"]], who)


def mean(ns, n):
    return duration((2 * ns + n) // (2 * n) if n else 0)


def disk_page(world, page, host, who):
    processes = world.web.get("queries/top-processes-by-disk", limit=100, host=host.name)["items"]
    world.same("panel Disk: Processes", host.name, table(page, "Processes"), [(*who(row), count(row["reads"]), count(row["writes"]), size(row["bytes"]), duration(row["ns"]),
                                                                               mean(row["ns"], row["reads"] + row["writes"]), duration(row["max_ns"])) for row in processes], ordered=True)
    files = world.web.get("queries/disk-files", limit=100, host=host.name)["items"]
    world.same("panel Disk: Files", host.name, table(page, "Files"), [(shown(row["file"]) or "(unknown)", row["operation"], row["host"], shown(row["disk"]), count(row["count"]), size(row["bytes"]), duration(row["ns"]),
                                                                      mean(row["ns"], row["count"]), duration(row["max_ns"])) for row in files], ordered=True)
    row = next(row for row in judge_store.machines(world) if row["host"] == host.name)
    begin, end = (parse_time(row[name]) / 10000 for name in ("begin", "end"))  # ms
    width = max(1, int((end - begin) / 60 + 0.5)) * 10**6
    used = naive_activity.usage(host.records, naive_activity.Whose(host.state), judge_activity.clock_of(host).ns, *judge_activity.EVER, width)["disk_usage"]
    buckets = collections.defaultdict(collections.Counter)
    for (_, _, bucket), sums in used.items():
        buckets[bucket].update(requests=sums["reads"] + sums["writes"], bytes=sums["read_bytes"] + sums["written_bytes"], ns=sums["ns"])
        buckets[bucket]["max_ns"] = max(buckets[bucket]["max_ns"], sums["max_ns"])
    runs = len(host.streams)
    for panel, total in (("Requests", sum(b["requests"] for b in buckets.values()) * runs), ("Bytes", sum(b["bytes"] for b in buckets.values()) * runs),
                         ("How long requests took", sum(b["max_ns"] + (2 * b["ns"] + b["requests"]) // (2 * b["requests"]) for b in buckets.values()))):
        world.same(f"panel DiskCharts: {panel}", host.name, [int(page["charts"][panel])], [total])


def fleet_tiles(world):
    listed = [{**row, **judge_store.troubles(world, row["host"])} for row in judge_store.machines(world)]
    total = {key: sum(row[key] for row in listed) for key in ("events", "bytes", "alerts", "missing_batches", "lost_events")}
    return [f"{len(listed)} machines", f"{count(total['events'])} events", f"{size(total['bytes'])} stored", f"{total['alerts']} alerts", f"{total['missing_batches']} batches missing",
            f"{count(total['lost_events'])} events lost at least"]


def fleet_page(world, page):
    listed = [{**row, **judge_store.troubles(world, row["host"])} for row in judge_store.machines(world)]
    world.same("panel Fleet: tiles", "all", [tile for tile in page["tiles"] if not tile.endswith(("silent", "incidents"))], fleet_tiles(world))
    want = [(row["host"], count(row["events"]), size(row["bytes"]), str(row["streams"]), str(row["gap_periods"]), moment(row["received_last"])) for row in listed]
    world.same("panel Fleet: Machines", "all", columns(page, "Machines", "Machine", "Events", "Stored", "Runs", "Gaps", "Last heard"), want)
    groups = collections.defaultdict(list)
    for row in listed:
        groups[row["agent_version"]].append(row)
    want = [(group, str(len(found)), str(sum(row["alerts"] for row in found)), str(sum(row["missing_batches"] for row in found)), count(sum(row["events"] for row in found)),
             size(sum(row["bytes"] for row in found))) for group, found in groups.items()]
    world.same("panel Fleet: Groups", "all", columns(page, "Groups", "Group", "Machines", "Alerts", "Batches missing", "Events", "Stored"), want)


def host_page(world, page, host, at):
    row = next(row for row in judge_store.machines(world) if row["host"] == host.name)
    want = {"Events": count(row["events"]), "Stored": size(row["bytes"]), "Events from": moment(row["begin"]), "to": moment(row["end"]), "Last heard": moment(row["received_last"]),
            "Runs": str(row["streams"])}
    world.same("panel Host: facts", host.name, {name: page["facts"].get(name) for name in want}, want)
    ends = {stream: FOREVER for stream in host.streams}
    alive = [(i, r) for i, r in rows(host, "process") if i.begin <= at < min(i.end, ends[r["stream"]])]
    want = [(r["image_name"] or f"pid {r['pid']}", str(r["pid"]), moment(r["begin"])[11:] if r["begin_cause"] == "start" else "", r["command_line"]) for _, r in alive]
    if len(host.streams) == 1:
        world.same("panel Host: Process tree at", host.name, table(page, "Process tree"), want)
        heading = next(text for text in page["headings"] if text.startswith("Process tree at"))
        world.same("panel Host: Process tree at", host.name, [heading.rsplit("Z")[0].split()[-2:]], [[str(len(alive)), "processes"]])
    whose, clock = naive_activity.Whose(host.state), judge_activity.clock_of(host)
    used = naive_activity.usage(host.records, whose, clock.ns, *judge_activity.EVER, 0)
    for title, (tables, sums) in {"Processor: samples": judge_activity.ROUTES["cpu"], "Disks: bytes read and written": judge_activity.ROUTES["disk"],
                                  "Files: bytes asked for, those that the cache answered too": judge_activity.ROUTES["files"],
                                  "Network: bytes over TCP and UDP": judge_activity.ROUTES["network"]}.items():
        total = sum(sum(values[word] for word in sums) for key, values in used[tables].items() if tables != "cpu_usage" or key[1]) * len(host.streams)
        world.same(f"panel Host: {title}", host.name, [int(page["charts"][title] or 0)], [total])


def process_page(world, page, host, stream, i):
    row = judge_state.process_row(i, host)
    want = {"Process id": str(row["pid"]), "Command line": row["command_line"], "Began": moment(row["begin"]) + ("" if row["begin_cause"] == "start" else " or before")}
    if row["sid"]:
        want["User"] = f"{row['account']} ({row['sid']})" if row["account"] else row["sid"]
    if i.owner:
        want["Parent"] = f"{i.owner.get('name', '')} {i.owner.key}"
    world.same("panel Process: facts", host.name, {name: page["facts"].get(name) for name in want if want[name]}, {name: text for name, text in want.items() if text})
    mine = {kind: [(o, r) for o, r in rows(host, kind) if o.owner is i and r["stream"] == stream] for kind in ("process", "thread", "module")}
    world.same("panel Process: Children", host.name, columns(page, "Children", "Process", "Id", "Command line", "Ended"),
               [(r["image_name"], str(r["pid"]), r["command_line"], moment(r["end"])) for _, r in mine["process"]])
    world.same("panel Process: Threads", host.name, columns(page, "Threads", "Id", "Began", "Ended", "Start address"),
               [(str(r["tid"]), moment(r["begin"]), moment(r["end"]), r["win32_start_address"]) for _, r in mine["thread"]])
    world.same("panel Process: Modules", host.name, columns(page, "Modules", "Loaded", "Base", "Size", "Path", "Unloaded"),
               [(moment(r["begin"]), r["base"], size(r["size_bytes"]), r["path"], moment(r["end"])) for _, r in mine["module"]])
    lived = [record for record in host.records if record["pid"] == i.key and judge_events.lived(i, record)]
    files = collections.Counter(record["fields"]["OpenPath"] for record in lived if record["name"] == "FileIo/Create")
    got = columns(page, "Files", "Opened", "Path")
    want = sorted(((-n, path) for path, n in files.items()))[:500]
    world.same("panel Process: Files", host.name, got, [(str(-n), path) for n, path in want])
    keys = [(moment(record["time"]), record["name"][9:], shown(judge_events.called(host, record)), record["fields"]["KeyName"], judge_events.status(record)[1])
            for record in lived if record["name"] in judge_events.REGISTRY]
    got = columns(page, "Registry", "Time", "What", "Under key", "Key or value", "Result")
    if len(keys) > 500:  # of those at the last moment some are not shown
        keys, got = [row[0] for row in sorted(keys)[:500]], [row[0] for row in got]
    world.same("panel Process: Registry", host.name, got, keys)
    flows = [(moment(record["time"]), record["name"], f"{record['fields']['saddr']} {record['fields']['sport']}", f"{record['fields']['daddr']} {record['fields']['dport']}")
             for record, owner in judge_events.connections(host) if owner is i] * len(host.streams)
    world.same("panel Process: Connections", host.name, columns(page, "Connections", "Time", "Kind", "From", "To"), flows)


def ledger_page(world, page, name):
    alerts, counters = [], {}
    for (host, stream), found in world.stored.items():
        if host == name:
            book = naive_store.Ledger(found)
            alerts += [(kind, str(left), str(right)) for _, kind, left, right in book.wrongs()]
            counters[f"Run {stream}"] = [(naive_store.COUNTERS[number][0].replace("_", " "), str(value)) for (family, number), value in book.values.items() if not family]
    world.same("panel Ledger: Alerts", name, columns(page, "Alerts", "Kind", "Left", "Right"), alerts)
    want = [(hole.cause, str(hole.last - hole.first + 1), str(hole.events)) for hole in world.hosts[name].holes]
    for rows_of_stream in judge_store.losses(world, name).values():
        want += [(cause, "0", f"at least {least}, unknown which" if least else "unknown") for _, _, cause, least, *_ in rows_of_stream]
    world.same("panel Ledger: Gaps", name, columns(page, "Gaps", "Cause", "Batches", "Events"), want)
    ledger_flow(world, page, name)
    for label, want in counters.items():
        world.same("panel Ledger: Counters of", name, columns(page, label, "Counter", "Value"), want)


BESIDE = {"events_redacted", "events_triggered"}  # counters of events that are in no equation


def ledger_flow(world, page, name):
    """Where a machine's events went: the last number of each counter of the equations, and what of the acknowledged events is stored."""
    want, stored, both = {counter: 0 for counter, *_ in naive_store.COUNTERS.values() if counter.startswith("events_") and counter not in BESIDE}, 0, 0
    for (host, _), found in world.stored.items():
        if host == name:
            book = naive_store.Ledger(found)
            values = {naive_store.COUNTERS[number][0]: value for (family, number), value in book.values.items() if not family and number in naive_store.COUNTERS}
            for counter in want:
                want[counter] += values.get(counter, 0)
            stored, both = stored + book.stored, both + min(book.stored, values.get("events_acknowledged", 0))
    rows = columns(page, "Where events went: numbers", "State", "Counter", "Events")
    world.same("panel LedgerFlow: Where events went: numbers", name, [row[1:] for row in rows if row[1]], [(counter, str(value)) for counter, value in want.items()])
    world.same("panel LedgerFlow: Where events went: numbers", name, [(row[0], row[2]) for row in rows if not row[1]],
               [("acknowledged and stored here", str(both)), ("acknowledged, not stored here", str(want["events_acknowledged"] - both)), ("stored here, the acknowledgement is not counted yet", str(stored - both))])
    world.same("panel LedgerFlow: Where events went", name, [page["charts"].get("Where events went")], [str(want["events_delivered"])])


def profile_page(world, page, host):
    """The 50 places and modules with the most samples; of equal ones any may be the last."""
    _, ran, places = judge_profile.sampled(host)
    total = sum(ran.values())
    for panel, title, of in (("Functions", "Function or place", places), ("Modules", "Module", ran)):
        got = columns(page, panel, "Self", "Share", title)
        most = sorted(of.values(), reverse=True)[:50]
        most += [0] * (len(got) - len(most))  # what calls and does not run itself
        world.same(f"panel Profile: {panel}", host.name, [row[0] for row in got], [count(n * len(host.streams)) for n in most], ordered=True)
        mine = [of[name if name in of else name.lower()] for _, _, name in got]
        world.same(f"panel Profile: {panel}", host.name, got, [(count(n * len(host.streams)), rounded(100 * n / total) + " %", row[2]) for n, row in zip(mine, got)])


def busiest_caller(host):
    """The place that the most samples have in the middle of their stack."""
    counts = collections.Counter()
    for _, places, n in judge_profile.stacked(host):
        for place in set(places[1:-1]) - {"?"}:
            counts[place] += n
    return min(counts, key=lambda place: (-counts[place], place))


def sandwich(world, page, host):
    """Who calls a function and whom it calls, at its outermost place in each stack."""
    function, total = busiest_caller(host), 0
    sums = {"Callers": collections.Counter(), "Callees": collections.Counter()}
    for program, places, n in judge_profile.stacked(host):
        if function not in places:
            continue
        at = len(places) - 1 - places[::-1].index(function)
        total += n
        sums["Callers"][places[at + 1] if at + 1 < len(places) else program] += n
        if at:
            sums["Callees"][places[at - 1]] += n
    for panel, want in sums.items():
        world.same(f"panel Sandwich: {panel}", host.name, columns(page, panel, "Time or count", "Share", "Function or place"),
                   [(count(n * len(host.streams)), rounded(100 * n / total) + " %", place) for place, n in want.items()])
    world.same("panel Sandwich: Callers and callees of", host.name, [text for text in page["headings"] if text.startswith("Callers and")], [f"Callers and callees of {function}"])


RATIO = "InstructionRetired", "TotalCycles"


def ratio_table(world, page, host):
    """Both counters by program and place in the code, the 100 with the greatest sums; of equal ones any may be the last."""
    sums = collections.defaultdict(lambda: [0, 0])
    for program, place, counter, events in judge_profile.counted_places(host):
        if counter in RATIO:
            sums[program, place][RATIO.index(counter)] += events * len(host.streams)
    ordered = sorted(((key, row) for key, row in sums.items() if any(row)), key=lambda item: -sum(item[1]))
    least = sum(ordered[99][1]) if len(ordered) > 99 else 0
    written = {at: collections.Counter((*key, count(row[0]), count(row[1]), rounded(row[0] / row[1], "0.001") if row[1] else "") for key, row in ordered if (sum(row) > least) == at)
               for at in (True, False)}
    got = table(page, "Ratio by program and function")
    world.same("panel Profile: Ratio by program and function", host.name, [len(got)], [min(100, len(ordered))])
    world.same("panel Profile: Ratio by program and function", host.name, (collections.Counter(got) - written[False]).elements(), written[True].elements())


IPC_TABS = {"machines": "ipc-by-machine", "programs": "ipc-by-program", "functions": "ipc-by-function"}


def counter_pages(world, found):
    """Instructions per cycle by machine, program and function, the 100 with the most cycles; of equal ones any may be the last."""
    for query, sums in judge_profile.rates(world).items():
        title = f"Instructions per cycle by {query.rpartition('-')[2]}"
        rows = [(judge_profile.rate(row)[1] or 0, tuple(text or "" for text in key), judge_profile.rate(row)) for key, row in sums.items()]
        least = sorted((row[0] for row in rows), reverse=True)[99] if len(rows) > 100 and query != "ipc-by-machine" else -1
        sure, maybe = (collections.Counter((*key, "" if rate[0] is None else count(rate[0]), "" if rate[1] is None else count(rate[1]), "" if rate[2] is None else rounded(rate[2], "0.001"))
                                           for cycles, key, rate in rows if (cycles > least) == is_sure) for is_sure in (True, False))
        got = table(found[query], title)
        got = [tuple(cell.lower() for cell in row[:2]) + row[2:] for row in got] if query == "ipc-by-function" else got
        world.same(f"panel Counters: {title}", "all", [len(got)], [min(100, len(rows))])
        world.same(f"panel Counters: {title}", "all", (collections.Counter(got) - maybe).elements(), sure.elements())


def named_query(world, page, host):
    """The processes with the most samples, as the page of queries shows a named one."""
    used = naive_activity.usage(host.records, naive_activity.Whose(host.state), judge_activity.clock_of(host).ns, *judge_activity.EVER, 0)["cpu_usage"]
    want = [(host.name, stream, shown(key[0]), str(key[1]), judge_activity.image(host, key[0]), str(row["samples"]))
            for stream in host.streams for key, row in used.items() if key[1]]
    world.same("panel Queries: {chosen.text}", host.name, columns(page, "Processes with the most samples of the processor", "host", "stream", "instance", "pid", "image_name", "samples"),
               want)


LOST = {"source_events_lost": "events that Windows says it lost", "source_buffers_lost": "buffers that Windows says it lost"}


def gap_note(world, page, name):
    """Below the timeline of a machine: how many periods are shaded, when the first three were, and what was lost."""
    periods, lost = [], []
    for hole in world.hosts[name].holes:
        periods.append(world.hosts[name].around(hole))
    for rows_of_stream in judge_store.losses(world, name).values():
        for _, kind, cause, least, counted, records, begin, end in rows_of_stream:
            if kind == "recorded" or not records:
                periods.append((begin, end))
            if kind == "counted":
                in_periods = f", in {records} period{'s' * (records != 1)} from its records" if records else ""
                lost.append(f"Lost: {counted} {LOST[cause]}{in_periods} (events: {f'at least {least}, unknown which' if least else 'unknown'}).")
    periods.sort(key=lambda period: period[0])
    note = next((text for text in page["notes"] if "Arrow keys" in text), "")
    what = f"{name}, as the host page has them"
    world.same("panel Ledger: Gaps", what, sorted(re.findall(r"Lost: .*?\)\.", note)), sorted(lost))
    want = f"{len(periods)} gap{'s' * (len(periods) != 1)}, shaded: " + ", ".join(f"{a[11:23]} to {b[11:23] if b else 'an unknown time'}" for a, b in periods[:3]) if periods else ""
    world.same("panel Ledger: Gaps", what, [(re.findall(r"^.*?(?=\. )", note) or [""])[0] if "shaded" in note else ""], [want])


def security_pages(world, found, host):
    name = host.name
    starts = [(moment(r["begin"]), name, r["image_name"], str(r["pid"]), r["parent_image_name"] or "", r["command_line"], shown(r["account"] or r["sid"])) for i, r in rows(host, "process") if i.known_by == "start"]
    world.same("panel Security: Process starts", name, table(found["security starts"], "Process starts"), sorted(starts, reverse=True)[:100])
    unusual = [(moment(r["begin"]), name, str(r["pid"]), r["path"]) for i, r in rows(host, "module") if any(part in r["path"].lower() for part in judge_state.UNUSUAL)]
    world.same("panel Security: Unusual places", name, table(found["security places"], "Unusual places"), sorted(unusual, reverse=True)[:100])
    flows = [(moment(record["time"]), name, i.get("name", "") if i else "", record["name"], f"{record['fields']['saddr']} {record['fields']['sport']}",
              f"{record['fields']['daddr']} {record['fields']['dport']}") for record, i in judge_events.connections(host)] * len(host.streams)
    world.same("panel Security: Connections", name, table(found["security connections"], "Connections"), sorted(flows)[:100])
    own = {judge_state.file_of(r["path"]) for _, r in rows(host, "module")}
    loads = {path: str(count) for path, sha256, hosts, count, *_ in judge_state.by_file(world) if hosts <= 1 and not sha256 and judge_state.file_of(path) in own}
    got = table(found["security rare"], "Rare modules")
    world.same("panel Security: Rare modules", name, [len(got)], [min(100, len(loads))])
    world.same("panel Security: Rare modules", name, [row[1:5] for row in got], [("1", name, loads.get(row[4]), row[4]) for row in got])
    sets = [(moment(record["time"]), name) for record in judge_events.autostarts(host)] * len(host.streams)
    world.same("panel Security: Autostart keys", name, [row[:2] for row in table(found["security autostart"], "Autostart keys")], sorted(sets, reverse=True)[:100])
