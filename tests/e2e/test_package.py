#!/usr/bin/env python3
"""The collector's Debian package: its files with their owners and modes, its program, which runs with the options of the
packaged configuration, and its unit, in which systemd (where it is installed) finds no mistake. Also the files that cmake
installs, and config/collector.yaml with every option of its comments.

usage: test_package.py --build DIR"""
import ctypes.util
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request

import harness
import traces
import unit_filter

MOST_EXPOSED = 30  # of 100, as systemd-analyze security counts; 100 is a service without any bounds
FILES = {"./usr/bin/etwcollector": "-rwxr-xr-x", "./lib/systemd/system/etwcollector.service": "-rw-r--r--",
         "./lib/systemd/system/etwcollector-backup.service": "-rw-r--r--", "./lib/systemd/system/etwcollector-backup.timer": "-rw-r--r--",
         "./usr/lib/etwcollector/give-key": "-rwxr-xr-x", "./usr/lib/etwcollector/backup": "-rwxr-xr-x",
         "./etc/etwcollector/collector.yaml": "-rw-r--r--", "./usr/share/man/man1/etwcollector.1.gz": "-rw-r--r--",
         "./usr/share/bash-completion/completions/etwcollector": "-rw-r--r--", "./usr/share/doc/etwcollector/copyright": "-rw-r--r--",
         "./usr/share/doc/etwcollector/etwcollector.cdx.json": "-rw-r--r--"}


def run_configured(env, checks, program, text, moved, what):
    """Starts a collector with a configuration whose places are moved into the test's folder, and ends it."""
    for old, new in moved.items():
        checks.that(old in text, f"{what} lacks {old}")
        text = text.replace(old, str(new))
    config, port = env.folder / "collector.yaml", env.folder / "port"
    config.write_text(text)
    port.unlink(missing_ok=True)
    process = subprocess.Popen([str(program), "run", "--config", str(config), "--port-file", str(port)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        harness.wait_until(lambda: port.exists() and port.read_text().strip() or process.poll() is not None, "the port", 60)
        checks.that(process.poll() is None, f"the program ended at once with {what}")
    finally:
        process.terminate()
        said = process.communicate(timeout=60)[0]
    checks.equal(process.returncode, 0, f"exit code with {what}; the program said {said}")
    return said.decode()


# what is typed, and what bash then offers; the last word is the one at the cursor
COMPLETED = {
    ("etwagent", "sess"): {"sessions", "session"},
    ("etwagent", "session", "st"): {"start", "stop"},
    ("etwagent", "session", "enable", "--"): {"--level", "--any", "--all", "--event-ids", "--pids", "--stacks", "--capture-state", "--help"},
    ("etwagent", "session", "stop", "--j"): {"--json"},
    ("etwagent", "schema", "ch"): {"check"},
    ("etwagent", "schema", "--p"): {"--pointer-size"},
    ("etwagent", "schema", "compile", "--o"): {"--output"},
    ("etwagent", "counters", "--j"): {"--json"},
    ("etwagent", "spool", "drain", "--fr"): {"--from"},
    ("etwcollector", "ca", "is"): {"issue"},
    ("etwcollector", "profile", "--other-h"): {"--other-host"},
}


def check_completions(env, checks):
    """Completions of commands of one word and of two, in bash; fish's lines have their quotes."""
    programs = {"etwagent": env.agent, "etwcollector": env.collector}
    for line, want in COMPLETED.items():
        words = " ".join(f"'{word}'" for word in line)
        script = f'. <("$0" --complete bash); COMP_WORDS=({words}); COMP_CWORD={len(line) - 1}; _{line[0]}; printf "%s\\n" "${{COMPREPLY[@]}}"'
        offered = env.run(["bash", "-c", script, programs[line[0]]]).stdout.split()
        checks.equal((set(offered), len(offered)), (want, len(want)), f"what bash offers after {' '.join(line)}")
    for program, path in programs.items():
        lines = env.run([path, "--complete", "fish"]).stdout.splitlines()
        quoted = re.compile(r"complete -c \w+(?: -n (?:'(?:[^'\\]|\\.)*'|\w+)| -a [\w-]+| -l [\w-]+| -d '(?:[^'\\]|\\.)*'| -r)+")
        checks.equal([line for line in lines if not quoted.fullmatch(line)], [], f"lines of {program} that fish cannot read")


def check_filter(env, checks, unit, program):
    """The unit's system call filter leaves the collector its own sandbox, and all that it calls: the packaged program under that filter."""
    if not shutil.which("systemd-analyze") or not ctypes.util.find_library("seccomp"):
        print("the unit's filter was not tried: expected systemd-analyze and libseccomp")
        return
    lacks = {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"} - unit_filter.allowed(unit.read_text())[0]
    checks.equal(lacks, set(), "calls of the collector's sandbox that the unit refuses")
    env.run([env.collector, "ca", "init", "--dir", env.folder / "unit-ca"])
    env.run([env.collector, "ca", "issue", "--dir", env.folder / "unit-ca", "--server", "--name", "server", "--san", "IP:127.0.0.1", "--san", "DNS:localhost"])
    kept, env.certs = env.certs, env.folder / "unit-ca"
    try:
        collector = env.new_collector("under-the-unit", extra=["--web", "127.0.0.1:0", "--enroll", "127.0.0.1:0", "--ca-dir", env.certs])
        collector.prefix = [sys.executable, harness.ROOT / "tests" / "e2e" / "unit_filter.py", unit]
        program, env.collector = env.collector, program
        try:
            collector.start()
        finally:
            env.collector = program
        token = env.run([env.collector, "ca", "token", "--dir", env.certs, "--name", "agent"]).stdout.strip()
        env.run([env.agent, "enroll", "--collector", collector.enroll_url, "--ca", env.certs / "ca.crt", "--token", token,
                 "--cert", env.certs / "agent.crt", "--key", env.certs / "agent.key"])
        env.run([env.agent, "replay", "--collector", collector.url, "--cert", env.certs / "agent.crt", "--key", env.certs / "agent.key",
                 "--ca", env.certs / "ca.crt", "--spool", env.folder / "unit-spool", *traces.paths("amsi-eventslost", env.build)])
        port = re.search(r"dashboard on http://127\.0\.0\.1:(\d+)/", collector.log()).group(1)
        answer = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/hosts", timeout=30).read())
        checks.equal([item["host"] for item in answer["items"]], ["agent"], "machines in the dashboard of a collector under the unit's filter")
        collector.stop()
    finally:
        env.certs = kept
    plain = env.run([env.collector, "doctor", "--store", collector.store, "--json"], check=False).stdout
    if '"check":"sandbox","verdict":"ok"' in plain.replace(" ", ""):  # this kernel has all of it: so has the collector under the filter
        checks.that("are confined by" not in collector.log() and "can open the CA's key" not in collector.log(),
                    f"what the collector has of its sandbox under the unit's filter: {collector.log()}")


def check_installed(env, checks):
    """cmake --install: programs, their man pages and completions, the files that users start from; the example configuration works."""
    root = env.folder / "installed"
    env.run(["cmake", "--install", env.build, "--prefix", root])
    for program, built in (("etwagent", env.agent), ("etwcollector", env.collector)):
        checks.equal((root / "bin" / program).stat().st_mode & 0o777, 0o755, f"mode of {program}")
        page = (root / "share/man/man1" / f"{program}.1").read_text()
        checks.equal(page, env.run([built, "--man"]).stdout, f"the man page of {program}")
        if shutil.which("man"):
            done = env.run(["man", "--warnings", "-l", root / "share/man/man1" / f"{program}.1"], check=False, env={**os.environ, "LC_ALL": "C.UTF-8", "MANPAGER": "cat"})
            checks.equal((done.returncode, done.stderr), (0, ""), f"what man says of the page of {program}")
        checks.that("complete " in (root / "share/bash-completion/completions" / program).read_text(), f"completion of {program}")
    for name in ("collector.yaml", "etwagent.yaml", "prometheus/etwagent.rules.yml", "grafana/compose.yaml", "grafana/dashboards/ledger.json"):
        source = harness.ROOT / "config" / name
        checks.equal((root / "share/etwagent" / name).read_bytes(), source.read_bytes(), name)
    text = (root / "share/etwagent/collector.yaml").read_text()
    text = re.sub(r"^# ([a-z-]+: \S+)$", r"\1", text, flags=re.M)  # options in comments, too
    for pair in ("crt", "key"):
        shutil.copy(env.certs / f"server.{pair}", env.certs / f"web.{pair}")
    run_configured(env, checks, root / "bin/etwcollector", text, {"/var/lib/etwcollector": env.folder / "example-store", "/etc/etwcollector": env.certs,
                                                                  "0.0.0.0:8443": "127.0.0.1:0", "0.0.0.0:8444": "127.0.0.1:0",
                                                                  "127.0.0.1:8453": "127.0.0.1:0"}, "config/collector.yaml")


def packages_of_dashboard(build):
    """The packages that the dashboard's package names, and those that these need, by the package.json of each."""
    found, left = set(), list(json.loads((harness.ROOT / "collector" / "web" / "ui" / "package.json").read_text())["dependencies"])
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += json.loads((build / "collector" / "web" / "ui" / "node_modules" / name / "package.json").read_text()).get("dependencies", {})
    return found


def check_bill(env, checks, root):
    """The bill of materials names what the program contains and loads, and the package has the licence of all that it contains."""
    documents, program = root / "usr/share/doc/etwcollector", root / "usr/bin/etwcollector"
    bill = json.loads((documents / "etwcollector.cdx.json").read_text())
    checks.equal((bill["bomFormat"], bill["specVersion"]), ("CycloneDX", "1.5"), "the bill's format")
    checks.equal(bill["metadata"]["component"]["hashes"][0]["content"], hashlib.sha256(program.read_bytes()).hexdigest(), "the program's hash in its bill")
    names = {c["name"]: c for c in bill["components"]}
    # computed another way: what the dynamic section asks for, and what the dashboard's bundle was made of
    needed = re.findall(r"Shared library: \[(\S+?)\.so", env.run(["readelf", "-d", program]).stdout)
    owners = {"libc": "libc6", "libssl": "libssl3", "libcrypto": "libssl3", "libsqlite3": "libsqlite3-0", "libzstd": "libzstd1", "libyaml-0": "libyaml-0-2",
              "libexpat": "libexpat1", "libprotobuf-c": "libprotobuf-c1", "libz": "zlib1g", "libm": "libc6",
              "ld-linux-x86-64": "libc6", "ld-linux-aarch64": "libc6"}
    for library in needed:
        owner = owners.get(library) or re.sub(r"_(\w+)-2\.1$", r"-\1-2.1-7", library)  # libevent_core-2.1 is of libevent-core-2.1-7
        checks.that(owner in names, f"the bill lacks the package of {library}, which the program loads: {sorted(names)}")
    contained = {name for name, c in names.items() if c["properties"][0]["value"] == "contained"}
    checks.equal(contained, packages_of_dashboard(env.build), "what the collector contains")
    text = (documents / "copyright").read_text()
    for words in ("Apache License", "It contains preact", "It contains uplot", "It contains @codemirror/view", "Permission is hereby granted"):
        checks.that(words in text, f"the package's licences lack '{words}'")
    # a library that is not in installer/release/components.tsv stops the build of the package
    libraries = env.folder / "libraries"
    libraries.mkdir()
    (libraries / "versions.txt").write_text("unheard-of 1.0\n")
    done = env.run([sys.executable, harness.ROOT / "installer" / "release" / "sbom.py", "agent", "--program", program, "--libraries", libraries,
                    "--version", "1.2.3", "--output", env.folder / "x.json"], check=False)
    checks.that(done.returncode != 0 and "names unheard-of; add it to" in done.stderr, f"a library that is not listed: {done.returncode} {done.stderr}")


def check_reload(env, checks, root):
    """What the unit does at a start and a reload: after a renewal of certificate and key, the collector serves the new ones."""
    unit = (root / "lib/systemd/system/etwcollector.service").read_text()
    config = (root / "etc/etwcollector/collector.yaml").read_text()
    before = [line.split("=", 1)[1] for line in unit.splitlines() if line.startswith(("ExecStartPre=", "ExecReload="))]
    checks.equal((len(before), before[0], before[2]), (3, before[1], "/bin/kill -HUP $MAINPID"), "commands of the unit's start and reload")
    program, key, reference, target = before[0].removeprefix("+").split()
    checks.that(f"\nkey: {target}\n" in config, f"the configuration reads the key where the unit puts it: {target}")
    # another service may get the user's number of one that does not run
    checks.that(f"\nExecStopPost=+/bin/rm -f {target}\n" in unit, "the copy of the key is removed at the stop")
    state, run, source = env.folder / "state-folder", env.folder / "run-key", env.folder / "source.key"
    state.mkdir()
    if os.geteuid() == 0:
        os.chown(state, 65534, 65534)

    def give(folder=run):
        return env.run([root / program.lstrip("/"), source, state, folder / "server.key"], check=False)

    checks.that(give().returncode != 0, "give-key without a key")
    made = {}
    for name in ("first", "second"):
        env.run([env.collector, "ca", "init", "--dir", env.folder / name])
        env.run([env.collector, "ca", "issue", "--dir", env.folder / name, "--server", "--name", "server", "--san", "IP:127.0.0.1"])
        made[name] = env.folder / name / "server"
    shutil.copy(f"{made['first']}.key", source)
    shutil.copy(f"{made['first']}.crt", env.folder / "renewed.crt")
    checks.equal(give().returncode, 0, "give-key")
    status = (run / "server.key").stat()
    checks.equal((status.st_mode & 0o777, status.st_uid, run.stat().st_mode & 0o777), (0o400, state.stat().st_uid, 0o711), "the copy's mode and owner, its folder's mode")
    if os.geteuid() == 0:
        (env.folder / "theirs").mkdir()
        os.chown(env.folder / "theirs", 65534, 65534)
        checks.that(give(env.folder / "theirs").returncode != 0, "give-key into a folder of the service's user, which could hold a link")

    port = env.folder / "reload-port"
    process = subprocess.Popen([str(env.collector), "run", "--store", str(env.folder / "reloaded"), "--listen", "127.0.0.1:0", "--port-file", str(port),
                                "--cert", str(env.folder / "renewed.crt"), "--key", str(run / "server.key"), "--ca", str(env.folder / "first" / "ca.crt")],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def served():
        try:
            return ssl.get_server_certificate(("127.0.0.1", int(port.read_text())))
        except OSError:
            return ""

    try:
        harness.wait_until(lambda: port.exists() and port.read_text().strip(), "the port", 60)
        first, second = (ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(pathlib.Path(f"{made[name]}.crt").read_text().split("-----END")[0] + "-----END CERTIFICATE-----\n"))
                         for name in ("first", "second"))
        checks.equal(served(), first, "the certificate before the renewal")
        shutil.copy(f"{made['second']}.key", source)
        shutil.copy(f"{made['second']}.crt", env.folder / "renewed.crt")
        checks.equal(give().returncode, 0, "give-key at the reload")
        process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: served() == second, "the renewed certificate", 30)
    finally:
        process.terminate()
        process.wait(60)


def check_backups(env, checks, root):
    """The timer's command: as many backups as its number, each read back, and nothing else removed."""
    store, folder = env.folder / "backed-up", env.folder / "backups"
    env.run([env.collector, "ingest", "--store", store, *traces.paths("amsi-eventslost", env.build)])
    folder.mkdir()
    (folder / "a note").write_text("stays")

    def backup(*words):
        return env.run([root / "usr/lib/etwcollector/backup", *words, env.collector], check=False)

    for _ in range(3):
        done = backup(store, folder, "2")
        checks.equal(done.returncode, 0, f"a backup: {done.stderr}")
        checks.that("backed up and read back" in done.stdout, f"a backup is read back: {done.stdout}")
    kept = sorted(path.name for path in folder.iterdir())
    checks.equal((len(kept), kept[-1]), (3, "a note"), f"two backups and the note: {kept}")
    checks.that(backup(env.folder / "no-store", folder, "1").returncode != 0, "a backup of no store")
    checks.equal(sorted(path.name for path in folder.iterdir()), kept, "a failed backup removes none")
    half, rest = env.folder / "half-a-backup", folder / "2026-01-01T000000.000000000Z.part"
    half.write_text('#!/bin/sh\nmkdir -p "$5" && echo half >"$5/index.db"\nexit 1\n')  # as on a full disk
    half.chmod(0o755)
    for _ in range(2):
        checks.equal(env.run([root / "usr/lib/etwcollector/backup", store, folder, "2", half], check=False).returncode, 1, "a backup that fails in the middle")
    checks.equal(sorted(path.name for path in folder.iterdir()), kept, "what failed in the middle does not count as a backup")
    rest.mkdir()
    os.utime(rest, (0, 0))
    checks.equal(backup(store, folder, "2").returncode, 0, "a backup after failures")
    now = sorted(path.name for path in folder.iterdir())
    checks.equal((len(now), now[0], now[-1]), (3, kept[1], "a note"), f"the last good one and the new one are kept, an old rest is not: {now}")
    checks.equal(backup(store, folder, "x").returncode, 2, "a wrong number")
    env.run([env.collector, "restore", "--from", folder / kept[-2], "--store", env.folder / "brought-back"])


def test(env, checks, arguments):
    script = harness.ROOT / "installer" / "debian" / "build-deb.sh"
    package, root = env.folder / "etwcollector.deb", env.folder / "root"
    env.run([script, env.build, "1.2.3", package])
    listed = {words[5]: words for words in (line.split() for line in env.run(["dpkg-deb", "-c", package]).stdout.splitlines())}
    for name, mode in FILES.items():
        checks.equal(listed.get(name, ["missing", "", ""])[:2], [mode, "root/root"], name)
    extra = sorted(name for name, words in listed.items() if words[0][0] != "d" and name not in FILES)
    checks.equal(extra, [], "other files in the package")
    fields = env.run(["dpkg-deb", "-f", package]).stdout
    for words in ("Package: etwcollector", "Version: 1.2.3", "libssl3", "libsqlite3-0", "libevent-", "libcurl4", "librdkafka1"):
        checks.that(words in fields, f"the package's fields lack '{words}':\n{fields}")
    env.run(["dpkg-deb", "-R", package, root])
    for name in ("postinst", "prerm", "postrm"):
        checks.equal(env.run(["sh", "-n", root / "DEBIAN" / name], check=False).returncode, 0, f"syntax of {name}")
        checks.that(os.access(root / "DEBIAN" / name, os.X_OK), f"{name} is not executable")

    check_bill(env, checks, root)
    again = env.folder / "again.deb"
    time.sleep(1.1)  # so that a time of the build would differ
    env.run([script, env.build, "1.2.3", again])
    checks.that(again.read_bytes() == package.read_bytes(), "two packages of the same programs differ")

    # the packaged program, with the packaged configuration's places moved into the test's folder
    env.make_certificates()
    text = (root / "etc/etwcollector/collector.yaml").read_text()
    moved = {"/var/lib/etwcollector": env.folder / "store", "/etc/etwcollector/server.crt": env.certs / "server.crt",
             "/run/etwcollector-key/server.key": env.certs / "server.key", "/etc/etwcollector": env.certs,
             "0.0.0.0:8443": "127.0.0.1:0", "127.0.0.1:8453": "127.0.0.1:0"}
    said = run_configured(env, checks, root / "usr/bin/etwcollector", text, moved, "the packaged configuration")
    checks.that("dashboard on https://127.0.0.1:" in said and (env.folder / "store/audit.lock").exists(), f"the packaged dashboard needs tokens: {said}")
    check_completions(env, checks)
    check_reload(env, checks, root)
    check_backups(env, checks, root)
    check_filter(env, checks, root / "lib/systemd/system/etwcollector.service", root / "usr/bin/etwcollector")
    check_installed(env, checks)

    if shutil.which("systemd-analyze"):
        units = [env.folder / name for name in ("etwcollector.service", "etwcollector-backup.service", "etwcollector-backup.timer")]
        for unit in units:
            text = (root / "lib/systemd/system" / unit.name).read_text()
            unit.write_text(text.replace("/usr/bin/", f"{root}/usr/bin/").replace("/usr/lib/", f"{root}/usr/lib/"))
        done = env.run(["systemd-analyze", "verify", "--man=no", *units], check=False)
        checks.that(done.returncode == 0 and "etwcollector" not in done.stderr, f"systemd-analyze verify: {done.stderr}")
        done = env.run(["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}",
                        root / "lib/systemd/system/etwcollector.service"], check=False)
        checks.equal(done.returncode, 0, f"systemd-analyze security: {done.stdout[-300:]}")


if __name__ == "__main__":
    harness.main(test, __doc__)
