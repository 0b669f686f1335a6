"""Mandatory label, elevation and logon session of processes, which events of Kernel-Process and of Security-Auditing have: in SQL, in the API's columns,
in `ps` and in Sigma's fields. The records of a made machine have reused process numbers, facts before and after the process's own record, and facts of
processes that were never seen; tests/judges/naive_state.py says what each process must have.
"""
# sanitizers: asan-ubsan
import json
import random
import struct

import harness
import naive_state

import kernel_records as kernel
import test_single_records as single
from process_records import created, started, text

MS, SECOND = 10_000, 10_000_000
LEVELS = {0: "Untrusted", 4096: "Low", 8192: "Medium", 8448: "Medium", 12288: "High", 16384: "System", 20480: "System"}


def classic(opcode, pid, parent, program, clock):
    """Process/Start (1), End (2) or DCStart (3), version 4."""
    return single.system_record(3, opcode, 4, struct.pack("<QIIIiQIQQ", 0xFFFFA00000001080 + pid * 4096, pid, parent, 1, 0, 0x1000, 0, 1, 0) +
                                kernel.sid_bytes("S-1-5-18") + program.encode() + b"\0" + text(program) + bytes(4), clock)


def machine(seed):
    """Records of a machine: [(clock, record)]."""
    dice, records, clock, alive = random.Random(seed), [], SECOND, {}
    for pid in (4, 8, 12):  # they are older than the trace
        records.append((clock, classic(3, pid, 4, "old.exe", clock)))
        records.append((clock + MS, started(pid, 4, -3600 * SECOND, clock + MS, 1, 1, 16384, 15)))
        alive[pid] = True
    for _ in range(400):
        clock += dice.choice((MS, 20 * MS, 700 * MS, 3 * SECOND))
        pid, parent = 100 + 4 * dice.randrange(12), dice.choice((4, 8, 12))
        kind, level = dice.randrange(1, 4), dice.choice(sorted(LEVELS))
        if alive.pop(pid, False) and dice.random() < 0.9:  # else its end is lost
            records.append((clock - MS // 2, classic(2, pid, parent, "a.exe", clock - MS // 2)))
        made = clock + MS // 4
        if dice.random() < 0.9:
            at = made + dice.randrange(3 * MS)
            records.append((at, classic(1, pid, parent, "a.exe", at)))
            alive[pid] = True
        if dice.random() < 0.8:
            at = made + dice.choice((dice.randrange(3 * MS), dice.randrange(90 * SECOND)))
            records.append((at, started(pid, dice.choice((parent, parent, parent, 999)), made, at, kind, int(kind == 2), level, version=dice.choice((3, 3, 3, 2)))))
        if dice.random() < 0.5:
            at = made + dice.randrange(2 * SECOND)
            records.append((at, created(pid, 0x3E7, dice.choice((0, 0x10000 + pid)), kind, level, at)))
    return [record for _, record in sorted(records, key=lambda pair: pair[0])]


def wanted(instance):
    """The columns of a naive process."""
    label, logon = instance.get("mandatory_label", "") or None, instance.get("logon_id") or None
    return {"mandatory_label": label, "integrity_level": LEVELS[int(label.rsplit("-", 1)[1])] if label else None,
            "elevation_type": {1: "default", 2: "full", 3: "limited"}.get(instance.get("elevation_type")),
            "elevated": {1: 0, 2: 1}.get(instance.get("elevated")), "logon_id": f"{logon:#x}" if logon else None}


def check_machines(env, checks):
    for seed in range(4):
        trace, host = env.folder / f"{seed}.etl", f"pc-{seed}"
        trace.write_bytes(single.trace(machine(seed)))
        env.run([env.collector, "ingest", "--store", env.folder / "store", "--host", host, trace])
        naive = naive_state.Machine()
        for line in env.run([env.agent, "dump", "--no-names", "--format", "jsonl", trace]).stdout.splitlines():
            naive.feed(json.loads(line))
        processes = [i for i in naive.instances if i.kind == "process"]
        rows = json.loads(env.run([env.collector, "query", "--store", env.folder / "store", "--format", "json", f"SELECT * FROM processes WHERE host = '{host}' ORDER BY instance"]).stdout)["rows"]
        checks.equal(len(rows), len(processes), f"{host}: processes")
        for row, instance in zip(rows, processes):
            want = {"pid": instance.values["pid"], **wanted(instance)}
            if not checks.equal({name: row[name] for name in want}, want, f"{host}: process {row['instance']}"):
                break
        counts = {name: sum(wanted(i)[name] is not None for i in processes) for name in ("integrity_level", "elevated", "logon_id")}
        checks.that(all(50 < count < len(processes) for count in counts.values()), f"{host}: facts of {counts} among {len(processes)}")


def check_known(env, checks):
    """A machine whose processes and matches are known."""
    trace, folder = env.folder / "known.etl", env.folder / "rules"
    trace.write_bytes(single.trace([
        classic(1, 200, 100, "low.exe", 1000), started(200, 100, 999, 1001, 1, 0, 4096),
        created(300, 0x3E7, 0x52A1F, 2, 12288, 2000), classic(1, 300, 100, "high.exe", 2001), started(300, 100, 2000, 2002, 2, 1, 12288),
        classic(1, 400, 100, "plain.exe", 3000),
    ]))
    store = env.folder / "known"
    env.run([env.collector, "ingest", "--store", store, "--host", "pc", trace])
    answer = json.loads(env.run([env.collector, "ps", "--store", store, "--host", "pc", "--at", "end", "--json"]).stdout)
    names = ("name", "mandatory_label", "integrity_level", "elevation_type", "elevated", "logon_id")
    checks.equal([tuple(p[name] for name in names) for p in sorted(answer["processes"], key=lambda p: p["pid"])],
                 [("low.exe", "S-1-16-4096", "Low", "default", False, None), ("high.exe", "S-1-16-12288", "High", "full", True, "0x52a1f"),
                  ("plain.exe", None, None, None, None, None)], "ps")
    folder.mkdir()
    for title, searches in (("high", {"IntegrityLevel": "High"}), ("low", {"IntegrityLevel": ["Low", "S-1-16-4096"]}), ("logon", {"LogonId": "0x52a1f"}),
                            ("none", {"IntegrityLevel": None})):
        (folder / f"{title}.yml").write_text(json.dumps({"title": title, "level": "high", "logsource": {"product": "windows", "category": "process_creation"},
                                                         "detection": {"s": {**searches, "CommandLine|endswith": ".exe"}, "condition": "s"}}))
    matches = json.loads(env.run([env.collector, "rules", "test", "--store", store, "--json", folder]).stdout)["matches"]
    checks.equal(sorted((row["title"], row["fields"]["CommandLine"]) for row in matches),
                 [("high", "high.exe"), ("logon", "high.exe"), ("low", "low.exe"), ("none", "plain.exe")], "rules")


def test(env, checks, arguments):
    check_known(env, checks)
    check_machines(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
