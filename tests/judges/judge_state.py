"""Judges of answers about processes, threads and modules, out of naive_state."""
import collections
import functools
import re

import naive_accounts
import naive_state
from naive_state import FOREVER, format_time, parse_time

LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
KEYS = ["host", "stream", "instance"]


def shown(units):
    return None if units == FOREVER else format_time(units)


def life(i):
    return {"instance": i.number, "begin": format_time(i.begin), "end": shown(i.end), "seen": format_time(i.seen), "begin_cause": i.known_by,
            "end_cause": i.ended_by}


def owner(i):
    return i.owner.number if i.owner else None


def address(value):
    return f"{value:#x}"


@functools.cache
def said_of(host):
    return naive_accounts.said(host.records)


def integrity(label):
    """The name of a mandatory label."""
    found = re.fullmatch(r"S-1-16-(\d+)", label)
    return next(name for least, name in ((16384, "System"), (12288, "High"), (8192, "Medium"), (4096, "Low"), (0, "Untrusted")) if int(found[1]) >= least) if found else None


def process_row(i, host):
    return {**life(i), "pid": i.values["pid"], "parent_pid": i.get("ppid"), "parent_instance": owner(i),
            "parent_image_name": i.owner.get("name", "") if i.owner else None, "parent_command_line": i.owner.get("command_line", "") if i.owner else None,
            "session_id": None if i.get("session") == 0xFFFFFFFF else i.get("session"), "image_name": i.get("name", ""),
            "command_line": i.get("command_line", ""), "sid": i.get("sid") or None, "account": naive_accounts.name_of(i.get("sid"), said_of(host)), "package": i.get("package", ""), "application": i.get("application", ""),
            "mandatory_label": i.get("mandatory_label", "") or None, "integrity_level": integrity(i.get("mandatory_label", "")),
            "elevation_type": {1: "default", 2: "full", 3: "limited"}.get(i.get("elevation_type")), "elevated": {1: 0, 2: 1}.get(i.get("elevated")),
            "logon_id": address(i.get("logon_id")) if i.get("logon_id") else None,
            "exit_status": f"{i.get('exit_status') & 0xFFFFFFFF:#x}" if i.ended_by == "end" else None, "flags": f"{i.get('flags'):#x}",
            "unique_key": address(i.get("unique_key")), "directory_table_base": address(i.get("directory_table_base"))}


def thread_row(i, _):
    return {**life(i), "tid": i.values["tid"], "pid": i.values["pid"], "process_instance": owner(i), "cpu": i.get("cpu") if i.values["tid"] == 0 else None,
            "name": i.get("name", ""), **{name: address(i.get(name)) for name in ("stack_base", "start_address", "win32_start_address", "teb")}}


def module_row(i, _):
    pdb = i.get("pdb", None) or (None, 0, "")
    return {**life(i), "pid": i.values["pid"], "process_instance": owner(i), "base": address(i.values["base"]), "size_bytes": i.get("size"), "path": i.get("path", ""),
            "default_base": address(i.get("default_base")), "checksum": f"{i.get('checksum'):#x}", "timestamp": i.get("timestamp"), "pdb_guid": pdb[0], "pdb_age": pdb[1],
            "pdb_path": pdb[2], "original_name": i.get("original_name", ""), "file_bytes": i.get("file_bytes") or None,
            **{name: i.get(name, "") for name in ("sha256", "file_version", "company", "product", "description", "md5", "sha1", "imphash")},
            "kind": i.get("kind", "image")}


ROWS = {"process": process_row, "thread": thread_row, "module": module_row}


@functools.cache
def rows(host, kind):
    """All instances of a kind as rows of its table, for each run of the machine's agent. Many judges read them; none changes them."""
    made = [(i, ROWS[kind](i, host)) for i in host.state.instances if i.kind == kind]
    return [(i, {"host": host.name, "stream": stream, **row}) for stream in host.streams for i, row in made]


def everywhere(world, kind):
    return [pair for host in world.hosts.values() for pair in rows(host, kind)]


def picked(row, names):
    return tuple((name, row[name]) for name in names)


INSTANCE_OF = {"processes": {"process_key": "instance", "parent_key": "parent_instance"}, "threads": {"thread_key": "instance", "process_key": "process_instance"},
               "modules": {"process_key": "process_instance"}}  # which column a key stands for, with host and stream


def judge_instances(world):
    """The tables processes, threads and modules. A key is any number, one for each instance of all hosts: it is replaced by what it stands for."""
    keys = {}
    for table, key in (("processes", "process_key"), ("threads", "thread_key")):
        for row in world.sql(f"SELECT {key}, host, stream, instance FROM {table}"):
            world.same(f"table {table}", row["host"], [keys.setdefault(row[key], (row["host"], row["stream"], row["instance"]))],
                       [(row["host"], row["stream"], row["instance"])])
    for table, kind in (("processes", "process"), ("threads", "thread"), ("modules", "module")):
        for name, host in world.hosts.items():
            got = [{**row, **{key: keys.get(row[key]) if row[key] is not None else None for key in INSTANCE_OF[table]}}
                   for row in world.sql(f"SELECT * FROM {table} WHERE host = '{name}'")]
            want = [{**row, **{key: (name, row["stream"], row[of]) if row[of] else None for key, of in INSTANCE_OF[table].items()}} for _, row in rows(host, kind)]
            world.same(f"table {table}", name, (tuple(sorted(row.items(), key=str)) for row in got), (tuple(sorted(row.items(), key=str)) for row in want))


# ---- the API ----

PROCESS = ["host", "stream", "instance", "begin", "end", "begin_cause", "end_cause", "pid", "parent_pid", "parent_instance", "parent_image_name",
           "parent_command_line", "session_id", "image_name",
           "command_line", "sid", "account", "package", "mandatory_label", "integrity_level", "elevation_type", "elevated", "logon_id", "exit_status"]
MODULE = ["stream", "instance", "begin", "end", "pid", "process_instance", "base", "size_bytes", "path", "original_name", "file_bytes", "sha256",
          "file_version", "company", "product", "description", "md5", "sha1", "imphash", "kind"]
THREAD = ["stream", "instance", "begin", "end", "tid", "name", "win32_start_address"]


def overlaps(i, begin, end):
    """Whether it lived at some time of a range; on no end of the range anything happened (Host.span)."""
    return i.begin <= end and i.end > begin


def ns(units):
    """A time for a parameter."""
    return units * 100 + 50


def contains(row, part, *names):
    return any(part.lower() in row[name].lower() for name in names)


def project(pairs, names):
    return [picked(row, names) for _, row in pairs]


def listed(items, names):
    return [tuple((name, item[name]) for name in names) for item in items]


EXACT = {"made-reused", "made-ipv6", "made-losses"}  # machines whose clock counts units of 100 ns, so that a time of a record can be asked for


def judge_lists(world):
    """Lists of processes, threads and modules of one machine, of one process, and of all."""
    path = "/api/v1/hosts/{host}/processes"
    for name, host in world.hosts.items():
        begin, end = host.span
        processes, threads, modules = (rows(host, kind) for kind in ("process", "thread", "module"))
        world.same(f"route {path}", name, listed(world.get(f"hosts/{name}/processes", limit=10000), PROCESS), project(processes, PROCESS))
        alive = [(i, row) for i, row in processes if overlaps(i, begin, end)]
        world.same(f"route {path}", name, listed(world.get(f"hosts/{name}/processes", from_=ns(begin), to=ns(end)), PROCESS), project(alive, PROCESS))
        if name in EXACT:  # a range has what begins at its end, and not what ended at its begin
            began = max((i.begin for i, _ in processes if i.known_by == "start"), default=end)
            ended = max((i.end for i, _ in processes if i.end < began), default=begin)
            alive = [(i, row) for i, row in processes if overlaps(i, ended, began)]
            world.same(f"route {path}", name, listed(world.get(f"hosts/{name}/processes", from_=ended * 100, to=began * 100, limit=10000), PROCESS), project(alive, PROCESS))
        at = [(i, row) for i, row in processes if overlaps(i, begin, begin) and contains(row, "e", "image_name", "command_line")]
        world.same(f"route {path}", name, listed(world.get(f"hosts/{name}/processes", at=ns(begin), q="e"), PROCESS), project(at, PROCESS))
        for i, row in chosen(processes):
            base = f"hosts/{name}/processes/{row['stream']}/{row['instance']}"
            mine = {kind: [(o, r) for o, r in found if o.owner is i and r["stream"] == row["stream"]] for kind, found in
                    (("children", processes), ("threads", threads), ("modules", modules))}
            world.same(f"route {path}/{{stream}}/{{instance}}", name, listed([world.get(base)], PROCESS), [picked(row, PROCESS)])
            for kind, names in (("children", PROCESS), ("threads", THREAD), ("modules", MODULE)):
                world.same(f"route {path}/{{stream}}/{{instance}}/{kind}", name, listed(world.get(f"{base}/{kind}", limit=10000), names), project(mine[kind], names))
    everything = [pair for host in world.hosts.values() for pair in rows(host, "process")]
    world.same("route /api/v1/processes", "all", listed(world.get("processes", limit=10000), PROCESS), project(everything, PROCESS))
    some = [pair for pair in everything if contains(pair[1], "svc", "image_name", "command_line")]
    world.same("route /api/v1/processes", "some", listed(world.get("processes", q="svc"), PROCESS), project(some, PROCESS))


def chosen(processes):
    """A few processes of a machine: those that began and ended, that have the most to list, and of each number that came again all."""
    counts = collections.Counter(i.key for i, _ in processes)
    again = [pair for pair in processes if counts[pair[0].key] > 1][:6]
    started = [pair for pair in processes if pair[0].known_by == "start"][:2]
    ended = [pair for pair in processes if pair[0].end != FOREVER][:2]
    return list({row["stream"] + str(row["instance"]): (i, row) for i, row in [*processes[:2], *started, *ended, *again]}.values())


def folded(path):
    """A path in lower case, as SQLite's NOCASE compares: letters of ASCII alone."""
    return path.translate(LOWER)


def by_path(world, keep=lambda i: True, hosts=None):
    """path -> (machines, loads, the first machine by name, first and last beginning, largest size). The case of a path's letters does not matter; the first
    spelling by its characters is the path's."""
    found = collections.defaultdict(list)
    for host in hosts or world.hosts.values():
        for i, row in rows(host, "module"):
            if keep(i):
                found[folded(row["path"])].append(row)
    return {min(row["path"] for row in loads): (len({row["host"] for row in loads}), len(loads), min(row["host"] for row in loads), min(row["begin"] for row in loads),
                   max(row["begin"] for row in loads), max(row["size_bytes"] for row in loads)) for loads in found.values()}


def file_of(path):
    """The path without its volume, as machines and starts of a machine number volumes differently."""
    path = re.sub(r"^\\\\[?]\\|^\\[?][?]\\", "", path)
    path = re.sub(r"^\\Device\\HarddiskVolume\d+(?=\\)|^[A-Za-z]:(?=\\)", "", path, flags=re.I)
    return re.sub(r"^\\SystemRoot(?=\\)", r"\\Windows", path, flags=re.I).lower()


def by_file(world):
    """The files of all modules: [(the first path, SHA-256 or None, machines, loads, the first machine, first beginning)]. A path of which some modules have
    a hash and others have none is a file of its own, with all its modules."""
    hashed, named = collections.defaultdict(list), collections.defaultdict(list)
    for host in world.hosts.values():
        for _, row in rows(host, "module"):
            if row["path"]:
                named[file_of(row["path"])].append(row)
                if row["sha256"]:
                    hashed[row["sha256"]].append(row)
    unhashed = [(None, loads) for loads in named.values() if not all(row["sha256"] for row in loads)]
    return [(min(row["path"] for row in loads), sha256, len({row["host"] for row in loads}), len(loads), min(row["host"] for row in loads),
             min(row["begin"] for row in loads)) for sha256, loads in [*hashed.items(), *unhashed]]


UNUSUAL = ["\\temp\\", "\\users\\", "\\programdata\\", "\\downloads\\", "\\$recycle.bin\\", "\\windows\\tasks\\"]


def judge_modules(world):
    """Modules by path over all machines, and the named queries about modules and starts of processes."""
    paths, files = by_path(world), by_file(world)
    got = [(row["path"], row["hosts"], row["loads"], row["first"], row["last"], row["size_bytes"]) for row in world.get("modules", limit=10000)]
    world.same("route /api/v1/modules", "all", got, [(path, hosts, loads, first, last, size) for path, (hosts, loads, _, first, last, size) in paths.items()])
    begin, end = next(iter(world.hosts.values())).span
    ranged = by_path(world, lambda i: overlaps(i, begin, end))
    got = [(row["path"], row["hosts"], row["loads"]) for row in world.get("modules", from_=ns(begin), to=ns(end), q=".dll", limit=10000)]
    world.same("route /api/v1/modules", "range", got, [(path, hosts, loads) for path, (hosts, loads, *_) in ranged.items() if ".dll" in path.lower()])
    got = [(row["path"], row["sha256"], row["hosts"], row["loads"]) for row in world.get("queries/widespread-modules", hosts=1, limit=10000)]
    world.same("query widespread-modules", "all", got, [(path, sha256, hosts, loads) for path, sha256, hosts, loads, *_ in files if hosts > 1])
    got = [(row["path"], row["sha256"], row["hosts"], row["host"], row["loads"], row["first"]) for row in world.get("queries/rare-modules", hosts=1, limit=10000)]
    world.same("query rare-modules", "all", got, [(path, sha256, hosts, host, loads, first) for path, sha256, hosts, loads, host, first in files if hosts <= 1])
    for one in world.hosts:  # of one machine alone
        mine = by_path(world, hosts=[world.hosts[one]])
        if mine:
            got = [(row["path"], row["hosts"], row["loads"]) for row in world.get("modules", host=one, limit=10000)]
            world.same("route /api/v1/modules", one, got, [(path, hosts, loads) for path, (hosts, loads, *_) in mine.items()])
            modules = [row for _, row in rows(world.hosts[one], "module") if row["path"]]  # how rare they are is said of all machines
            own = {(row["sha256"] or None, None if row["sha256"] else file_of(row["path"])) for row in modules}
            theirs = [row for row in files if (row[1], None if row[1] else file_of(row[0])) in own]
            for most in (1, 2):
                got = [(row["path"], row["hosts"], row["host"], row["loads"]) for row in world.get("queries/rare-modules", hosts=most, host=one, limit=10000)]
                world.same("query rare-modules", one, got, [(path, hosts, one, loads) for path, _, hosts, loads, *_ in theirs if hosts <= most])
                got = [(row["path"], row["hosts"], row["loads"]) for row in world.get("queries/widespread-modules", hosts=most, host=one, limit=10000)]
                world.same("query widespread-modules", one, got, [(path, hosts, loads) for path, _, hosts, loads, *_ in theirs if hosts > most])
            firsts = sorted(row[5] for row in theirs)
            half = parse_time(firsts[len(firsts) // 2])
            got = [(row["path"], row["hosts"], row["host"]) for row in world.get("queries/new-binaries", host=one, since=half * 100, limit=10000)]
            world.same("query new-binaries", one, got, [(path, hosts, one) for path, _, hosts, _, _, first in theirs if parse_time(first) >= half])
    moment = naive_state.format_time(begin)
    got = [(row["path"], row["hosts"], row["host"], row["first"]) for row in world.get("queries/new-binaries", since=ns(begin), limit=10000)]
    world.same("query new-binaries", "all", got, [(path, hosts, host, first) for path, _, hosts, _, host, first in files if first > moment])
    names = ["host", "stream", "begin", "pid", "path"]
    for name, host in world.hosts.items():
        begin, end = host.span
        for params, low, high in (({}, 0, FOREVER), ({"from_": ns(begin), "to": ns(end)}, begin, end)):
            unusual = [(*picked(row, names), ("instance", row["process_instance"])) for i, row in rows(host, "module")
                       if low <= i.begin <= high and any(part in row["path"].lower() for part in UNUSUAL)]
            got = listed(world.get("queries/modules-from-unusual-places", host=name, limit=10000, **params), [*names, "instance"])
            world.same("query modules-from-unusual-places", name, got, unusual)
            starts = [picked(row, PROCESS) for i, row in rows(host, "process") if i.known_by == "start" and low <= i.begin <= high]
            world.same("query process-starts", name, listed(world.get("queries/process-starts", host=name, limit=10000, **params), PROCESS), starts)
            got = listed(world.get("queries/process-starts", host=name, parent="E", limit=10000, **params), PROCESS)
            world.same("query process-starts", name, got, [row for row in starts if "e" in (dict(row)["parent_image_name"] or "").lower()])
