"""Names of accounts beside the SIDs of processes: those that are the same on every machine; services, by the hash of a name that is known or that the
machine's events have; and those that the machine's agent has named. The same in `ps`, in SQL, and over HTTP. A name is of its machine alone, and
what an agent says of an account that has its name everywhere, or of a service under another name than the service's, is no name.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 12: A process has its account's name beside its SID. | well-known accounts, services by their names' hash, and names that the agent asked
#   its machine for | 2026-11-27
import json
import pathlib
import struct
import sys

import harness
import kernel_records as kernel
import test_single_records as single
import web_world

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "judges"))
import naive_accounts  # noqa: E402

CONFIG, AGENT = "01853a65-418f-4f36-aefc-dc0f1d2fd235", "7be2d0c4-91a3-4c5f-8e27-3d60b914fa58"
PERSON, OTHER, UNNAMED = (f"S-1-5-21-{n}-2222222222-3333333333-1001" for n in (1, 2, 3))


def service(name, clock):
    """SystemConfig/Services, version 3."""
    texts = "".join(f"{text}\0" for text in (name, "Shown", "svchost.exe", "", ""))
    return single.full_record(CONFIG, 15, 3, struct.pack("<III", 1000, 4, 0) + texts.encode("utf-16le"), clock)


def account(sid, name, clock):
    """Account/Name, as an agent writes it."""
    return single.full_record(AGENT, 2, 0, f"{sid}\0{name}\0".encode(), clock)


def rows(env, collector, sql):
    return json.loads(env.run([env.collector, "query", "--store", collector.store, "--format", "json", sql]).stdout)["rows"]


def test(env, checks, arguments):
    env.make_certificates(["named", "unnamed"])
    collector = env.new_collector(extra=["--web", "127.0.0.1:0"]).start()
    sids = {"S-1-5-18": "NT AUTHORITY\\SYSTEM", naive_accounts.service_sid("TrustedInstaller"): "NT SERVICE\\TrustedInstaller",
            naive_accounts.service_sid("Fancy Sync"): "NT SERVICE\\Fancy Sync", naive_accounts.service_sid("Unseen"): None, PERSON: "SHOP\\Größe", OTHER: "SHOP\\second",
            UNNAMED: None}
    processes = [kernel.process(100 + i, f"p{i}.exe", 1000 + i, sid=sid) for i, sid in enumerate(sids)]
    processes.append(kernel.process(199, "again.exe", 1050, sid="S-1-5-18"))  # asked of once more, after the machine's names were read
    facts = [service("Fancy Sync", 1100), service("Größe", 1101), account(PERSON, "SHOP\\Größe", 1102), account(OTHER, "SHOP\\first", 1103), account(OTHER, "SHOP\\second", 1104)]
    facts += [account(OTHER, "SHOP\\" + "x" * 2000, 1105), account("S-1-5-18", "SHOP\\harmless", 1106)]
    facts += [account(naive_accounts.service_sid(name), "NT SERVICE\\harmless", 1107) for name in ("Unseen", "TrustedInstaller")]
    for host, records in (("named", processes + facts), ("unnamed", processes)):
        trace = env.folder / f"{host}.etl"
        trace.write_bytes(single.trace(records))
        env.replay([trace], collector, agent=host, spool=env.folder / f"{host}-spool")
    web = web_world.Web(collector)
    for host in ("named", "unnamed"):
        want = {sid: name if host == "named" or not sid.startswith("S-1-5-21-") and "Fancy" not in (name or "") else None for sid, name in sids.items()}
        want_pairs = set(want.items())
        got = rows(env, collector, f"SELECT sid, account FROM processes WHERE host = '{host}' AND pid >= 100 ORDER BY pid")
        checks.equal({(row["sid"], row["account"]) for row in got}, want_pairs, f"SQL: {host}")
        got = [row for row in web.get(f"hosts/{host}/processes")["items"] if row["pid"] >= 100]
        checks.equal({(row["sid"], row["account"]) for row in got}, want_pairs, f"HTTP: {host}")
        listed = json.loads(env.run([env.collector, "ps", "--store", collector.store, "--host", host, "--all", "--json"]).stdout)["processes"]
        checks.equal({(p["sid"], p["account"]) for p in listed if p["pid"] >= 100}, want_pairs, f"ps --json: {host}")
        text = env.run([env.collector, "ps", "--store", collector.store, "--host", host, "--all"]).stdout
        checks.that(all((name or sid) in text for sid, name in want.items()), f"ps: {host}: {text}")
    asked = rows(env, collector, f"SELECT account_name('{PERSON}') AS nowhere, account_name('{PERSON}', 'named') AS here, account_name('{PERSON}', 'absent') AS absent")
    checks.equal(asked, [{"nowhere": None, "here": "SHOP\\Größe", "absent": None}], "account_name")
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
