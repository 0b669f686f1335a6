"""Values that are set in the registry, in SQL: the data as Sysmon writes it, the key under the short name of its root. Events of
Microsoft-Windows-Kernel-Registry that the test encodes, of 64 and 32 bit, with the data of the value and without; an event without the data has none.
"""
import json

import harness
import registry_records as registry
import test_single_records as single

SQL = """SELECT registry_path(KeyName) AS key, ValueName AS name, registry_data(Type, DataSize, CapturedData) AS data,
    registry_data(PreviousDataType, PreviousDataSize, PreviousData) AS before FROM "Kernel-Registry/5" ORDER BY time"""


def test(env, checks, arguments):
    env.make_certificates(["desk"])
    collector = env.new_collector().start()
    trace = env.folder / "registry.etl"
    trace.write_bytes(single.trace(registry.records()))
    env.replay([trace], collector, agent="desk", spool=env.folder / "spool")
    rows = json.loads(env.run([env.collector, "query", "--store", collector.store, "--format", "json", SQL]).stdout)["rows"]
    want = [(key, name, shown if captured or not data else None, "DWORD (0x00000007)" if captured else None)
            for captured in (True, False) for _ in range(2) for _, key, name, _, data, shown in registry.VALUES]
    checks.equal([tuple(row[column] for column in ("key", "name", "data", "before")) for row in rows], want, "values that were set")
    classes = json.loads(env.run([env.collector, "query", "--store", collector.store, "--format", "json",
                                  "SELECT id, min(name) AS name, count(*) AS events, sum(decoded <> 'whole') AS other FROM events WHERE "
                                  f"provider = '{registry.PROVIDER}' GROUP BY id ORDER BY id"]).stdout)["rows"]
    checks.equal([(row["id"], row["events"], row["other"]) for row in classes], [(1, 1, 0), (3, 1, 0), (5, len(want), 0), (6, 1, 0)], "events, and those not decoded whole")
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
