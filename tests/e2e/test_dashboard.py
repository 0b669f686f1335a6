"""The dashboard in a real Chromium: find a process by name, move the cursor and see the tree change, open a flame graph, follow a connection, see a
gap, search events, what a page of numbers shows is what SQL says, all by keys alone once; hostile names stay text; no error on the console, nothing asked of others, no
violation that axe-core finds. Then a planted fleet: from Home to the cause of each problem in at most four clicks. With EA_PICTURES=DIR the
documents' pictures are written there.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 5
import json
import os
import pathlib
import shutil
import subprocess

import harness
import npm_packages
import planted_fleet
import test_web
import web_world
from web_world import HOLED, HOSTILE, MACHINE

BROWSER = pathlib.Path(__file__).resolve().parent / "browser"
PICTURES = ["home", "fleet", "waits", "disk", "host", "host-dark", "process", "security", "gaps", "events", "events-fields", "profile", "ledger"]


def packages(env):
    """A folder with the packages of browser/package-lock.json; kept with the build."""
    return npm_packages.installed(BROWSER, env.build / "browser")


def browser():
    for name in ("chromium", "chromium-browser"):
        if shutil.which(name):
            return shutil.which(name)
    raise harness.Failure("chromium is missing: installer/deps/packages.sh test")


def size_of(path):
    """Width and height of a PNG."""
    head = path.read_bytes()[:24]
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


def walk(env, checks, script, world):
    """Runs a script of browser/, whose lines are checks."""
    done = subprocess.run(["node", BROWSER / script, world], cwd=packages(env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, timeout=900, check=False)
    for line in done.stdout.splitlines():
        word, _, what = line.partition(" ")
        if word in ("ok", "FAILED"):
            checks.that(word == "ok", what)
    checks.equal(done.returncode, 0, f"{script} ends well: {done.stdout[-2000:]}")


def test(env, checks, _):
    env.make_certificates([MACHINE, HOSTILE, HOLED, *(machine for machine, _ in planted_fleet.MACHINES.values())])
    target = web_world.collector(env)
    web = web_world.Web(target)
    web_world.fill(env, target)
    web_world.settled(web)
    test_web.add_detection(target)
    processes = web.get(f"hosts/{MACHINE}/processes", limit=1000)["items"]
    names = [p["image_name"] for p in processes]
    # began in the trace, lives to its end, and is the only one of its name
    started = next(p for p in processes if p["begin_cause"] == "start" and not p["end"] and names.count(p["image_name"]) == 1)
    remote = web.get("connections", host=MACHINE)["items"][0]
    pictures = pathlib.Path(os.environ.get("EA_PICTURES", env.folder / "pictures")).resolve()
    pictures.mkdir(exist_ok=True)
    world = env.folder / "world.json"
    world.write_text(json.dumps({
        "url": web.address + "/", "machine": MACHINE, "hostile": HOSTILE, "holed": HOLED, "hostile_name": web_world.HOSTILE_NAME,
        "process": {"name": started["image_name"], "pid": started["pid"], "begin": started["begin"]},
        "remote": remote["remote"], "detection": test_web.DETECTION, "pictures": str(pictures), "chromium": browser()}))
    walk(env, checks, "dashboard.mjs", world)
    for name in PICTURES:
        path = pictures / f"{name}.png"
        checks.that(path.exists() and size_of(path) == (1280, 800), f"the picture {name}")
    planted_fleet.fill(env, target, web)
    planted = env.folder / "planted.json"
    planted.write_text(planted_fleet.world(web, browser()))
    walk(env, checks, "causes.mjs", planted)
    target.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
