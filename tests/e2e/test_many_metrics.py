"""The metrics of 2,000 machines: one scrape has the sums of each of them, names the ledgers of the 256 streams that sent last, and counts the
rest. Every machine sends a batch of its own, as in test_web_size.py.
"""
import re
import struct
import time

import harness
import test_ledger
import test_tracegen
import test_web_size
import uploads
import web_world

MACHINES, SHOWN_STREAMS = 2000, 256
SCENARIO = "summary: a machine of which only processes are recorded\nbase: office\nsession: {events: [process]}\n"
SCRAPE_S = 10  # on a machine that has other work, too; what was measured is printed


def test(env, checks, arguments):
    env.make_certificates(["first"])
    scenario = env.folder / "small.yaml"
    scenario.write_text(SCENARIO)
    trace, _ = test_tracegen.generate(env.build, env.folder, "small", "--preset", str(scenario), "--duration-ms", "10", "--seed", "5")
    batch = test_web_size.one_batch(env, trace)
    each, target = uploads.Head(batch).event_count, web_world.collector(env)
    begin = time.monotonic()
    copies = (test_web_size.moved(batch, struct.pack(">QQ", 1, i), test_web_size.STEP_NS * i) for i in range(MACHINES))
    test_ledger.upload(env, target, "first", copies, at_once=1, timeout_s=120)
    harness.wait_until(lambda: test_web_size.folded(target) == MACHINES, "the history", 120, lambda: f": {test_web_size.folded(target)} of {MACHINES}")
    print(f"{MACHINES} machines with {each} events each: {time.monotonic() - begin:.1f} s until they were stored and folded", flush=True)
    target.stop()
    test_web_size.rename(target.store)
    target.start()
    web = web_world.Web(target)

    def scrape():
        status, _, text = web.ask("/metrics")
        return text if status == 200 else ""

    harness.wait_until(lambda: scrape().count("\netwcollector_host_stored_events{") == MACHINES, "the sums of all machines", 60, lambda: scrape()[-1000:])
    begin = time.monotonic()
    text = scrape()
    took = time.monotonic() - begin
    for name, value in (("stored_events", each), ("missing_batches", 0), ("alerts", 0)):
        rows = re.findall(rf'^etwcollector_host_{name}\{{host="([^"]+)"\}} (\d+)$', text, re.M)
        checks.equal(rows, [(f"big-{i:05d}", str(value)) for i in range(MACHINES)], f"etwcollector_host_{name}")
    values = dict(re.findall(r"^(\w+) (\d+)$", text, re.M))
    shown = len(set(re.findall(r'^etwagent_\w+\{[^}]*stream="([0-9a-f]+)"', text, re.M)))
    checks.equal([values["etwcollector_hosts_left_out"], values["etwcollector_ledger_streams_left_out"], shown], ["0", str(MACHINES - SHOWN_STREAMS), SHOWN_STREAMS],
                 "machines left out, streams left out, streams shown")
    fleet = web.get("fleet")
    checks.equal((fleet["hosts"], fleet["events"]), (MACHINES, MACHINES * each), "the fleet")
    checks.equal(web.sql("SELECT count(*), min(events), max(events) FROM hosts")["rows"], [[MACHINES, each, each]], "SQL")
    checks.that(took < SCRAPE_S, f"a scrape took {took:.1f} s")
    with open(f"/proc/{target.process.pid}/status", encoding="utf-8") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    print(f"a scrape: {took:.2f} s, {len(text) / 1e6:.2f} MB; the collector's memory at its peak: {peak >> 10} MiB", flush=True)
    target.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
