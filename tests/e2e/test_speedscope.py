"""Speedscope, in a real Chromium, opens the files that `etwcollector profile` writes as speedscope, chrome, pprof and folded, and shows the
functions: of the last three it is a reader that the project did not write."""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 6: speedscope opens the profiles. | four forms, in a real Chromium | 2026-11-22
import collections
import functools
import http.server
import json
import subprocess
import threading

import harness
import profile_formats
import test_dashboard
import test_tracegen


FILES = {"speedscope": "profile.json", "chrome": "profile.trace.json", "pprof": "profile.pb.gz", "folded": "profile.folded"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def greatest(text, count):
    """The frames with the greatest self weight."""
    own = collections.Counter()
    for path, weight in profile_formats.speedscope(text).items():
        own[path[-1]] += weight
    return [name for name, _ in own.most_common(count)]


def shown_first(text):
    """Of Chrome's form: frames of the thread that speedscope shows first, which is the first one in the order of its keys as text."""
    file = json.loads(text)
    key = min(f"{sample['pid']}:{sample['tid']}" for sample in file["samples"])
    leaves = collections.Counter(file["stackFrames"][sample["sf"]]["name"] for sample in file["samples"] if f"{sample['pid']}:{sample['tid']}" == key)
    return [name for name, _ in leaves.most_common(3)]


def test(env, checks, _):
    env.make_certificates(["made"])
    collector = env.new_collector().start()
    trace, _ = test_tracegen.generate(env.build, env.folder, "stacks", "--preset", "stacks", "--duration-ms", "300")
    env.replay([trace], collector, agent="made", spool=env.folder / "spool")
    files = {form: subprocess.run([env.collector, "profile", "--store", collector.store, "--weight", "samples", "--format", form], check=True,
                                  capture_output=True).stdout for form in FILES}
    collector.stop()
    packages = test_dashboard.packages(env)
    site = env.folder / "site"
    site.mkdir()
    (site / "speedscope").symlink_to(packages / "node_modules" / "speedscope" / "dist" / "release")
    for form, data in files.items():
        (site / FILES[form]).write_bytes(data)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    world, text = env.folder / "world.json", files["speedscope"].decode()
    for form, file in FILES.items():
        world.write_text(json.dumps({"url": f"{base}/speedscope/index.html#profileURL={base}/{file}", "frames": shown_first(files[form]) if form == "chrome" else greatest(text, 5),
                                     "name": json.loads(text)["name"] if form == "speedscope" else "", "chromium": test_dashboard.browser()}))
        done = subprocess.run(["node", test_dashboard.BROWSER / "speedscope.mjs", world], cwd=packages, capture_output=True, text=True,
                              timeout=180)
        said = done.stdout.splitlines()
        for line in said:
            checks.that(line.startswith("ok "), f"{form}: {line}")
        checks.that(done.returncode == 0 and len(said) >= 5, f"{form}: speedscope.mjs: {done.returncode}, {len(said)} checks, {done.stderr[-500:]}")
    server.shutdown()


if __name__ == "__main__":
    harness.main(test, __doc__)
