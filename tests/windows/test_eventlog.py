#!/usr/bin/env python3
"""Channels of the event log as a source of the shipped .exe under Wine, with an emulator of wevtapi.dll (wevtemul.c): records that the channels
get arrive at a native collector with their fields; a restart, in order or by force, goes on after the last record that was stored; records that a
channel no longer has are counted; a cleared channel is read from its begin; a query selects; a channel that is missing or refused does not stop
the others, and a query that the event log refuses is an error in the status.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
import json
import re
import time

import emulated
import test_faults
import test_ledger

SECURITY, SYSTEM, SYSMON = "Security", "System", "Microsoft-Windows-Sysmon/Operational"
USER = "S-1-5-21-1004336348-1177238915-682003330-512"
PROVIDERS = {SECURITY: ("Microsoft-Windows-Security-Auditing", "{54849625-5478-4994-A5BA-3E3B0328C30D}"),
             SYSTEM: ("Service Control Manager", "{555908d1-a6d7-4695-8e1e-26931d2012f4}"),
             SYSMON: ("Microsoft-Windows-Sysmon", "{5770385f-c22a-43e0-bf4c-06f5698ffbd9}")}


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def fields_of(channel, number):
    return {"Number": str(number), "CommandLine": f'"C:\\Größe & <{channel}>.exe" {number}', "Long": f"{number} " * (3000 if number % 50 == 0 else 3)}


def xml(channel, number, event_id):
    name, guid = PROVIDERS[channel]
    data = "".join(f"<Data Name='{key}'>{escaped(value)}</Data>" for key, value in fields_of(channel, number).items())
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1700000000 + number)) + ".1234567Z"
    return (f"<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System><Provider Name='{name}' Guid='{guid}'/><EventID>{event_id}"
            f"</EventID><Version>2</Version><Level>4</Level><Task>13312</Task><Opcode>0</Opcode><Keywords>0x8020000000000000</Keywords><TimeCreated "
            f"SystemTime='{when}'/><EventRecordID>{number}</EventRecordID><Correlation/><Execution ProcessID='4' ThreadID='{number}'/><Channel>{channel}"
            f"</Channel><Computer>desk-7</Computer><Security UserID='{USER}'/></System><EventData>{data}</EventData></Event>")


class Log:
    """The emulator's channels: files on drive C: of the session."""

    def __init__(self, session):
        self.folder = session.drive / "wevtemul"
        self.folder.mkdir(exist_ok=True)
        for path in self.folder.iterdir():
            path.unlink()

    def path(self, channel, suffix=".log"):
        return self.folder / (channel.replace("/", "_") + suffix)

    def add(self, channel, numbers, event_id=4688):
        with open(self.path(channel), "a", encoding="utf-8") as f:
            f.write("".join(f"{n}\t{xml(channel, n, event_id)}\n" for n in numbers))

    def keep(self, channel, numbers):
        """The channel has only these records."""
        lines = [line for line in self.path(channel).read_text("utf-8").splitlines(True) if int(line.split("\t")[0]) in numbers]
        fresh = self.folder / "fresh"
        fresh.write_text("".join(lines), "utf-8")
        fresh.replace(self.path(channel))

    def calls(self):
        path = self.folder / "calls.txt"
        return path.read_text().splitlines() if path.exists() else []


def stored(env, collector, host):
    lines = env.run([env.collector, "export", "--store", collector.store, "--host", host, "--format", "jsonl"]).stdout.splitlines()
    return [json.loads(line) for line in lines]


def numbers(env, collector, host, channel):
    """Of the stored events of the channel, in the order of their numbers."""
    return sorted(e["fields"]["EventRecordID"] for e in stored(env, collector, host) if e["fields"].get("Channel") == channel)


def positions(machine):
    """{channel: number} of the source that has SYSTEM."""
    for path in machine.spool.glob("eventlog-*.txt"):
        found = {channel: int(number) for number, channel in re.findall(r"^(\d+)\t(.+)$", path.read_text("utf-8"), re.M)}
        if SYSTEM in found:
            return found
    return {}


def start(machine):
    machine.status_file.unlink(missing_ok=True)  # of the run before
    machine.start()


def wait_acknowledged(machine, name, count):
    machine.wait(lambda: machine.sources().get(name, {}).get("events_acknowledged", 0) >= count, f"{count} events of {name}")


def same_events(env, checks, collector, host):
    events = {(e["fields"]["Channel"], e["fields"]["EventRecordID"]): e for e in stored(env, collector, host)}
    for (channel, number), e in events.items():
        name, guid = PROVIDERS[channel]
        got = {key: e["fields"][key] for key in ("Channel", "Provider_Name", "EventID", "Computer", *fields_of(channel, number))}
        checks.equal(got, {"Channel": channel, "Provider_Name": name, "EventID": e["id"], "Computer": "desk-7", **fields_of(channel, number)},
                     f"fields of {channel} {number}")
        checks.equal((e["name"], e["provider"], e["version"], e["level"], e["task"], e["keyword"], e["pid"], e["tid"]),
                     (f"{channel}/{e['id']}", guid.strip("{}").lower(), 2, 4, 13312, "0x8020000000000000", 4, number), f"header of {channel} {number}")
        checks.that(e["time"].startswith(time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1700000000 + number)) + ".1234567"), f"time of {channel} {number}: {e['time']}")
    users = {x["value"] for e in events.values() for x in e.get("extended", []) if x.get("type") == "SID"} if events else set()
    checks.that(not users or users == {USER}, f"users: {users}")
    return events


def test(env, checks, session, windows, arguments):
    host = "logged"
    env.make_certificates([host])
    collector = env.new_collector().start()
    log = Log(session)
    log.add(SECURITY, range(101, 106))
    log.path(SYSTEM).touch()
    with emulated.Machine(env, session, windows, host) as machine:
        sources = [{"name": "logs", "eventlog": [SECURITY, SYSTEM, SYSMON], "priority": "security"},
                   {"name": "logons", "eventlog": SECURITY, "query": "*[System[(EventID=4624 or EventID=4625)]]", "begin": "oldest"},
                   {"name": "wrong", "eventlog": SYSTEM, "query": "*[System[x"}]
        machine.configure(collector, [], sources=sources)

        # records from now on; a query; a missing channel; a wrong query
        start(machine)
        machine.wait(lambda: positions(machine).get(SECURITY) == 105 and positions(machine).get(SYSTEM) == 0, "the first positions")
        log.add(SECURITY, range(106, 111))
        log.add(SYSTEM, range(1, 4), 7036)
        log.add(SECURITY, [111], 4624)
        wait_acknowledged(machine, "logs", 9)
        wait_acknowledged(machine, "logons", 1)
        s = machine.sources()
        checks.equal((s["logs"]["channels"], s["logs"]["source_parts_refused"], s["logs"]["source_records_missing"]), (3, 1, 0), "the status of the source")
        checks.that(f"the event log has no channel {SYSMON}" in machine.log(), "a missing channel is in the log")
        checks.that("refuses the query" in s["wrong"]["error"], f"a wrong query: {s['wrong']}")
        checks.equal((numbers(env, collector, host, SECURITY), numbers(env, collector, host, SYSTEM)), ([*range(106, 112), 111], [1, 2, 3]), "events, of both sources")
        same_events(env, checks, collector, host)
        checks.that(f"subscribe {SECURITY} after 105" in log.calls() and f"subscribe {SYSTEM} after 0" in log.calls(), f"subscriptions: {log.calls()}")

        # killed after its position was saved: nothing twice, nothing missing
        machine.configure(collector, [], sources=sources[:1])
        machine.wait(lambda: positions(machine).get(SECURITY) == 111, "the saved positions")
        machine.kill()
        log.add(SECURITY, range(112, 116))
        start(machine)
        wait_acknowledged(machine, "logs", 4)
        checks.equal(numbers(env, collector, host, SECURITY), [*range(106, 112), 111, *range(112, 116)], "after a kill")

        # killed right after more came: each at least once
        log.add(SECURITY, range(116, 150))
        wait_acknowledged(machine, "logs", 20)
        machine.kill()
        log.add(SECURITY, range(150, 153))  # 150 has fields of 6 KB
        start(machine)
        machine.wait(lambda: positions(machine).get(SECURITY) == 152, "the end of the channel")
        checks.equal(machine.stop(), 0, "exit code")
        checks.equal(sorted(set(numbers(env, collector, host, SECURITY))), list(range(106, 153)), "after a kill at any moment")

        # the channel's oldest records went while the agent did not run
        log.add(SECURITY, range(153, 171))
        log.keep(SECURITY, range(161, 171))
        log.path(SYSMON).touch()
        start(machine)
        wait_acknowledged(machine, "logs", 10)
        checks.equal(machine.sources()["logs"]["source_records_missing"], 8, "records that the channel lost: 153 to 160")
        log.add(SYSMON, [7], 1)
        machine.wait(lambda: positions(machine).get(SYSMON) == 7, "the position of a channel that is new")
        checks.equal(machine.stop(), 0, "exit code")
        gap = [g for s in test_ledger.ledger(collector, host)["streams"] for g in s["gaps"] if g["cause"] == "source_records_missing"]
        checks.equal([(g["kind"], g["counted"], g["at_least"]) for g in gap], [("counted", 8, 8)], f"the gap: {gap}")

        # cleared
        log.keep(SECURITY, ())
        log.add(SECURITY, range(1, 4))
        start(machine)
        machine.wait(lambda: positions(machine).get(SECURITY) == 3, "records after the clear")
        checks.that("it was cleared or replaced" in machine.log(), "the log has it")
        checks.equal(machine.stop(), 0, "exit code")
        checks.equal(sorted(set(numbers(env, collector, host, SECURITY))), [1, 2, 3, *range(106, 153), *range(161, 171)], "all events")
        checks.equal(numbers(env, collector, host, SYSMON), [7], "events of the new channel")

        # refused
        log.path(SECURITY, ".denied").touch()
        start(machine)
        machine.wait(lambda: machine.sources().get("logs", {}).get("source_parts_refused") == 1, "the refused channel")
        log.add(SYSTEM, [4], 7036)
        machine.wait(lambda: positions(machine).get(SYSTEM) == 4, "the other channel")
        checks.equal((machine.stop(), positions(machine)[SECURITY]), (0, 3), "exit code, and the kept position")
        same_events(env, checks, collector, host)
        checks.equal({line for line in log.calls() if line.startswith("end")} - {"end, 0 handles open", "end, 1 handles open", "end, 2 handles open"}, set(), "handles")
        checks.equal(test_faults.ledger_of(collector, host)["source_records_missing"], 8, "the ledger")
    collector.stop()


if __name__ == "__main__":
    emulated.main(test, __doc__)
