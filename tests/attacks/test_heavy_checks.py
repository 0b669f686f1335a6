"""Uploads whose check before their agent's quotas of bytes and batches is what takes long: batches with as many named definitions as they may
have, each of which is hashed and looked up, and a last batch that makes all of it invalid. Four connections of one certificate
send them. The others' latencies stay, and what the checks take is charged to the agent, which gets 429 above its quota of processor time."""
import threading

import world
import harness
import test_bounds
import uploads

CONNECTIONS, BATCHES, NAMES, QUOTA_MS, BURST_S = 4, 100, 4096, 20, 60
REASON = "an upload holds batches of one stream"


def body():
    sources = [test_bounds.encode(test_bounds.message("Source", name=f"{k:x}", frequency=1), "Source") for k in range(NAMES)]
    batch = test_bounds.in_context(b"".join(test_bounds.name_of(s) for s in sources), sources)
    other = world.renumbered(batch, bytes(16), 1)
    return uploads.body([world.renumbered(batch, test_bounds.STREAM, k + 1) for k in range(BATCHES)] + [other])


def post(w, upload):
    """Status and text of the collector's answer."""
    web = world.Web(w.port, "127.0.0.1", world.tls(w.env.certs, "thief"))
    web.request("POST", uploads.UPLOAD_PATH, upload, {"Content-Type": world.UPLOAD_TYPE})
    answer = web.getresponse()
    text = answer.read().decode().strip()
    web.close()
    return answer.status, text


def attack(w, stop, ready):
    upload, answers, begin = body(), [], w.cpu_s()

    def send():
        while not stop.is_set():
            answers.append(post(w, upload))
            ready.set()

    threads = [threading.Thread(target=send) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(set(answers)), len(answers), len(upload), w.cpu_s() - begin


def latencies(env, checks):
    with world.World(env, checks) as w:
        kinds, count, size, used = w.compare(f"{CONNECTIONS} connections, {BATCHES} batches of {NAMES} definitions each", attack) or ([], 0, 0, 0)
        checks.that(len(kinds) == 1 and kinds[0][0] == 400 and REASON in kinds[0][1], f"answers to the attacker: {kinds}, expected 400: {REASON}")
        print(f"{count} uploads of {size} bytes, {used:.2f} s of the collector's processor, victims included", flush=True)


def quota(env, checks):
    with world.World(env, checks, extra=["--quota-processor", f"{QUOTA_MS}ms"], name="quota") as w:
        upload, begin, count, answer = body(), w.cpu_s(), 0, (400, "")
        while answer[0] == 400 and count < 200:
            answer = post(w, upload)
            count += 1
        used, refused = w.cpu_s() - begin, w.metrics()["etwcollector_quota_refused_processor_total"]
        checks.that(answer[0] == 429 and "above its quota of processor" in answer[1], f"the answer to upload {count}: {answer}")
        checks.that(refused > 0 and used > QUOTA_MS / 1000 * BURST_S / 2, f"{refused:.0f} refusals are counted after {used:.2f} s of the processor")
        print(f"429 at upload {count}, after {used:.2f} s of the collector's processor", flush=True)


def test(env, checks, _):
    latencies(env, checks)
    quota(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
