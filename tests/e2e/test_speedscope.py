"""Speedscope, in a real Chromium, opens the file that `etwcollector profile --format speedscope` writes, and shows the functions."""
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


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def greatest(text, count):
    """The frames that most of the weight stands in by themselves."""
    own = collections.Counter()
    for path, weight in profile_formats.speedscope(text).items():
        own[path[-1]] += weight
    return [name for name, _ in own.most_common(count)]


def test(env, checks, _):
    env.make_certificates(["made"])
    collector = env.new_collector().start()
    trace, _ = test_tracegen.generate(env.build, env.folder, "stacks", "--preset", "stacks", "--duration-ms", "300")
    env.replay([trace], collector, agent="made", spool=env.folder / "spool")
    text = env.run([env.collector, "profile", "--store", collector.store, "--weight", "samples", "--format", "speedscope"]).stdout
    collector.stop()
    packages = test_dashboard.packages(env)
    site = env.folder / "site"
    site.mkdir()
    (site / "speedscope").symlink_to(packages / "node_modules" / "speedscope" / "dist" / "release")
    (site / "profile.json").write_text(text)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    world = env.folder / "world.json"
    world.write_text(json.dumps({"url": f"{base}/speedscope/index.html#profileURL={base}/profile.json", "frames": greatest(text, 5),
                                 "name": json.loads(text)["name"], "chromium": test_dashboard.browser()}))
    done = subprocess.run(["node", test_dashboard.BROWSER / "speedscope.mjs", world], cwd=packages, capture_output=True, text=True,
                          timeout=180)
    server.shutdown()
    said = done.stdout.splitlines()
    for line in said:
        checks.that(line.startswith("ok "), line)
    checks.that(done.returncode == 0 and len(said) >= 5, f"speedscope.mjs: {done.returncode}, {len(said)} checks, {done.stderr[-500:]}")


if __name__ == "__main__":
    harness.main(test, __doc__)
