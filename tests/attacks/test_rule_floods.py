"""One certificate sends events that Sigma rules judge, more of them and dearer ones than the collector can judge as they come: starts of processes with long
command lines, on which an expression runs, and loads of many images into one process, of which a rule asks for the path of the program. Another agent's uploads
and another reader's questions have their latencies; another agent's detection comes within LATE_S of what it takes without the attack (or LATE_PROCESSOR_S of the collector's processor time); the processor time is
charged to the attacker.

usage: test_rule_floods.py --build DIR [--soak] [--keep]
"""
import os
import time

import world
import harness
import kernel_records as kernel
import receiver
import test_detections
import test_rules_test as one
import test_single_records as single
import uploads

PROCESSES, COMMAND_CHARACTERS, IMAGES = 1500, 3000, 2500
LATE_S, LATE_PROCESSOR_S = 10, 6  # the second one where the machine is busy with other work
DETECTED_MAX_S = 120
TURNS = 4  # so many times the trace takes the rules longer than one turn


def heavy_trace():
    line = "ab" * (COMMAND_CHARACTERS // 2)
    records = [one.process(1000 + 4 * i, 4, "long.exe", f"long.exe {i} {line}", 1000 + i) for i in range(PROCESSES)]
    records += [one.process(300, 4, "big.exe", "big.exe", 4000)]
    records += [kernel.image(300, one.BASE + 0x10000 * i, 0x1000, f"x\\{i}.dll", 4001 + i) for i in range(IMAGES)]
    return single.trace(records)


def heavy_batches(env):
    """The trace's batches, as an agent makes them."""
    trace = env.folder / "heavy.etl"
    trace.write_bytes(heavy_trace())
    with receiver.Receiver(env.certs, keep_uploads=1000) as fake:
        env.run(env.replay_command([trace], fake, spool=env.folder / "heavy", extra=["--batch-events", "500"]), timeout=120)
        found = {uploads.Head(batch).number: batch for body in fake.uploads for batch in uploads.batches(body)}
    return [found[number] for number in sorted(found)]


def post(web, heavy):
    """Uploads all batches of the trace, as a stream of its own: the status of the answer."""
    stream = os.urandom(16)
    body = uploads.body([world.renumbered(batch, stream, number) for number, batch in enumerate(heavy, 1)])
    web.request("POST", uploads.UPLOAD_PATH, body, {"Content-Type": world.UPLOAD_TYPE})
    answer = web.getresponse()
    answer.read()
    return answer.status


def attack(heavy):
    def flood(w, stop, ready):
        answers = {}
        web = world.Web(w.port, "127.0.0.1", world.tls(w.env.certs, "thief"))
        while not stop.is_set():
            status = post(web, heavy)
            answers[status] = answers.get(status, 0) + 1
            if sum(answers.values()) > 3:
                ready.set()
        web.close()
        return answers
    return flood


def rules(folder):
    folder.mkdir()
    test_detections.write_rule(folder, "shell.yml", "shell", "process_creation", {"s": {"Image|endswith": "shell.exe"}}, "s", id="shell")
    test_detections.write_rule(folder, "long.yml", "long", "process_creation", {"s": {"CommandLine|re": "(a|b|ab)*c.*(d|e)+f"}}, "s", id="long")
    test_detections.write_rule(folder, "load.yml", "load", "image_load", {"s": {"Image|endswith": "\\none.exe", "ImageLoaded|endswith": ".dll"}}, "s", id="load")
    return folder


def detected_after(w, number):
    """From the end of an upload of the agent "watched" until its detection is listed: seconds, and those of the collector's processor time."""
    def count():
        try:
            return len(test_detections.listed(w.collector, "--host", "watched")["detections"])
        except harness.Failure as failure:  # its first batch has not come
            if "nothing is stored of host watched" not in str(failure):
                raise
            return 0

    trace = w.env.folder / f"watched{number}.etl"
    trace.write_bytes(single.trace([one.process(500 + 4 * number, 4, "shell.exe", f"shell.exe {number}", 1000)]))
    before = count()
    w.env.replay([trace], w.collector, agent="watched", spool=w.env.folder / f"watched{number}")
    begin, used = time.monotonic(), w.cpu_s()
    harness.wait_until(lambda: count() > before, "the detection of another agent", DETECTED_MAX_S, w.log)
    return time.monotonic() - begin, w.cpu_s() - used


def processor_of(w, name):
    """Seconds of processor time that the quota has of an agent: written every 10 s."""
    def used():
        return [row["used"] for row in w.collector.ask_json("quota")["uses"] if (row["name"], row["resource"]) == (name, "processor")]
    harness.wait_until(used, "the attacker's processor time", 30)
    return sum(used()) / 1e9


def charged(env, checks, heavy):
    """One upload is within the quota of processor time; what the rules take for it is not: the rest of it waits, and the next upload is refused."""
    with world.World(env, checks, extra=["--rules", env.folder / "rules", "--quota-processor", "2ms"], agents=("thief", "watched"), name="quota") as w:
        web = world.Web(w.port, "127.0.0.1", world.tls(env.certs, "thief"))
        checks.equal(post(web, TURNS * heavy), 200, "the first upload")
        harness.wait_until(lambda: w.metrics()["etwcollector_rules_waited_total"] > 0, "batches that wait for the quota", DETECTED_MAX_S, w.log)
        checks.equal(post(web, heavy), 429, "the next upload")
        web.close()
        detected_after(w, 1)


def test(env, checks, _):
    env.make_certificates(["test-machine", "victim", "thief", "watched"])
    heavy = heavy_batches(env)
    with world.World(env, checks, extra=["--rules", rules(env.folder / "rules")], agents=("thief", "watched")) as w:
        quiet, _ = detected_after(w, 2)
        answers = w.compare("events that rules judge", attack(heavy))
        checks.that(answers and set(answers) <= {200, 429}, f"answers to the attacker: {answers}")
        attacked, used = detected_after(w, 3)  # while its batches are judged
        metrics = w.metrics()
        print(f"detection after {quiet:.1f} s quiet, {attacked:.1f} s attacked, in which the collector had {used:.1f} s of a processor; the attacker's processor time: {processor_of(w, 'thief'):.1f} s; {answers}; "
              f"{metrics['etwcollector_rules_events_total']:.0f} events judged", flush=True)
        checks.that(attacked < quiet + LATE_S or used < LATE_PROCESSOR_S, f"another agent's detection took {attacked:.1f} s and {used:.1f} s of a processor, "
                    f"{quiet:.1f} s without the attack")
        checks.equal(metrics["etwcollector_rules_skipped_total"], 0, "batches that are skipped")
    charged(env, checks, heavy)


if __name__ == "__main__":
    harness.main(test, __doc__)
