"""A thousand machines for a minute (ten minutes with --soak) against one collector, from one process: every event of every
machine is acknowledged and stored, every ledger balances, and what the collector knows of ten machines picked at random equals
their truth. Memory of both sides is bounded and printed.
"""
import json
import random
import resource
import time

import harness
import test_truth

MACHINES = 1000
RATE = 50          # events a second of each machine
SHARE = 0.5        # of the rate, at the least, with --soak; what a slower machine reaches in the short form is printed
MACHINE_BYTES = 4 << 20


def raise_file_limit(wanted):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise harness.Failure(f"{wanted} open files are needed, the limit is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def cut(rows, last_raw):
    """The truth as it was when the machine's last event was played."""
    kept = []
    for row in rows:
        if row["begin_raw"] is not None and row["begin_raw"] > last_raw:
            continue
        if row["end_raw"] is not None and row["end_raw"] > last_raw:
            row = {**row, "end_raw": None, "end_utc_ns": None}
        kept.append(row)
    return kept


def check_machine(env, checks, collector, fleet, machine, rng):
    host, last_raw = machine["host"], machine["last_raw"]
    with open(fleet / "truth" / f"{host}.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    processes = cut([row for row in rows if row["type"] == "process"], last_raw)
    modules = cut([row for row in rows if row["type"] == "module"], last_raw)
    head = next(row for row in rows if row["type"] == "machine")
    last_ns = head["start_utc_ns"] + (last_raw - head["start_raw"]) * 10**9 // head["frequency"]

    reported = collector.ask_json("ps", "--all", "--host", host)["processes"]
    # stored times have seven digits
    got = sorted((p["pid"], test_truth.to_ns(p["begin"]) or 0, test_truth.to_ns(p["end"]) or 0, p["ppid"], p["name"],
                  p["command_line"], p["sid"], p["session"]) for p in reported)
    true = sorted((p["pid"], p["begin_utc_ns"] or 0, p["end_utc_ns"] or 0, p["parent_pid"], p["image"], p["command_line"],
                   p["sid"], p["session_id"]) for p in processes)
    checks.equal(len(got), len(true), f"{host}: number of processes")
    for ours, expected in zip(got, true):
        if not checks.that(ours == expected, f"{host}: a process is {ours}, the truth is {expected}"):
            break
    # The event with the names of an image's symbols follows the image's event. For the last images it may come after the last event.
    settled = last_ns - 10**6
    for _ in range(5):
        ns = rng.randrange((head["start_utc_ns"] + settled) // 2, settled) // 100 * 100
        pid = rng.choice([p["pid"] for p in processes if test_truth.is_alive(p, ns)])
        mine = [m for m in modules if m["pid"] == pid and test_truth.is_alive(m, ns)]
        answer = env.run([env.collector, "modules", "--store", collector.store, "--host", host, "--at", test_truth.to_text(ns), "--pid",
                          pid, "--json"], check=False)
        listed = json.loads(answer.stdout)["modules"] if answer.returncode == 0 else []
        checks.equal(sorted((int(str(m["base"]), 0), m["size"], m["path"]) for m in listed),
                     sorted((int(m["base"], 0), m["size"], m["path"]) for m in mine), f"{host}: modules of {pid} at {test_truth.to_text(ns)}")


def check_ledger(checks, collector, machines):
    listed = json.loads(collector.ask("ledger", "--wait", "120s", "--json"))
    checks.equal(listed["behind"], 0, "batches that the collector's state lacks")
    streams = {stream["host"]: stream for stream in listed["streams"]}
    checks.equal(len(streams), len(listed["streams"]), "one stream a host")
    checks.equal(sorted(streams), sorted(machine["host"] for machine in machines), "hosts")
    for machine in machines:
        stream = streams.get(machine["host"], {})
        counters = {counter["name"]: counter["value"] for counter in stream.get("counters", []) if not counter["family"]}
        good = stream.get("stored_events") == machine["events"] == counters.get("events_delivered") and \
            stream["stream"] == machine["stream"] and not stream["missing_batches"] and not stream["damaged_batches"] and \
            not stream["losses"] and not stream["alerts"] and stream["equations"] and all(e["holds"] for e in stream["equations"])
        checks.that(good, f"{machine['host']}: {machine}; the ledger says {json.dumps(stream)[:1500]}")


def test(env, checks, arguments):
    seconds = 600 if arguments.soak else 60
    raise_file_limit(16000)
    env.make_certificates(agents=[])
    collector = env.new_collector().start()
    fleet = env.folder / "fleet"
    seed = random.SystemRandom().randrange(1, 1 << 40)
    done = env.run([env.build / "tests" / "tracegen" / "tracegen", "fleet", MACHINES, "--collector", collector.url, "--ca-dir", env.certs,
                    "--dir", fleet, "--rate", RATE, "--batch-events", 2 * RATE, "--seconds", seconds, "--trace-seconds", 25 if arguments.soak else 2,
                    "--seed", seed, "--json"], check=False, timeout=seconds + 600)
    if done.returncode:
        raise harness.Failure(f"the fleet (--seed {seed}) ended with {done.returncode}: {done.stdout} {done.stderr[-3000:]}")
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    said = json.loads(done.stdout)
    with open(fleet / "fleet.jsonl", encoding="utf-8") as file:
        machines = [json.loads(line) for line in file]
    print(f"seed {seed}: {said}; {memory / MACHINES / 2**20:.2f} MiB a machine in the fleet's process")
    checks.equal((said["machines"], said["complete"], len(machines)), (MACHINES, MACHINES, MACHINES), "complete machines")
    checks.equal(sum(machine["events"] for machine in machines), said["events"], "events")
    checks.equal(len({machine["stream"] for machine in machines}), MACHINES, "streams")
    full = MACHINES * RATE * seconds
    checks.that(min(machine["events"] for machine in machines) > 0, "machines without an event")
    checks.that(not arguments.soak or said["events"] >= SHARE * full, f"{said['events']} events, at the rate it would be {full}")
    checks.that(said["events"] <= 1.1 * MACHINES * RATE * (said["play_seconds"] + 2), f"{said['events']} events: more than the rate allows")
    checks.that(said["play_seconds"] >= seconds, f"it played {said['play_seconds']} s")
    checks.that(memory < MACHINES * MACHINE_BYTES, f"the fleet's process took {memory} bytes")

    begun = time.monotonic()
    check_ledger(checks, collector, machines)
    rng = random.Random(seed)
    for machine in rng.sample(machines, 10):
        check_machine(env, checks, collector, fleet, machine, rng)
    print(f"the ledger of all and the state of ten: {time.monotonic() - begun:.1f} s")
    with open(f"/proc/{collector.process.pid}/status", encoding="utf-8") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    print(f"the collector's peak: {peak / 1024:.0f} MiB")
    checks.that(peak < 1 << 20, f"the collector took {peak} KiB")
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
