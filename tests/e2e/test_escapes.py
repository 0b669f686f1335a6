"""What an attacker calls a process does no harm where a person reads it: no control character reaches a terminal, from any
command, no line of a CSV begins a formula, JSON stays JSON; and the text itself is still there, escaped.

usage: test_escapes.py --build DIR [--soak] [--keep]
"""
# sanitizers: asan-ubsan
import csv
import io
import json
import os
import re
import subprocess
import tty

import harness
import test_tracegen
import web_world

CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f\x80-\x9f]")
SHOWN = "\\x1b[31m"  # of the command line, as a terminal gets it


def check_text(checks, what, text, needs_line=False):
    found = CONTROLS.search(text)
    around = repr(text[max(0, found.start() - 40):found.start() + 40]) if found else ""
    checks.that(not found, f"{what}: a control character: {around}")
    if needs_line:
        checks.that(SHOWN in text, f"{what}: the hostile command line is not shown as text")


def check_json(checks, what, text, lines=False):
    values = [json.loads(line) for line in text.splitlines()] if lines else [json.loads(text)]
    checks.that(not CONTROLS.search(text), f"{what}: a control character in JSON")

    def has(value):
        if isinstance(value, dict):
            return any(has(v) for v in value.values())
        if isinstance(value, list):
            return any(has(v) for v in value)
        return isinstance(value, str) and web_world.HOSTILE_LINE.strip() in value

    checks.that(has(values), f"{what}: the command line is not there as it was")


def check_csv(checks, what, text):
    rows = list(csv.reader(io.StringIO(text)))
    checks.that(len(rows) > 1 and len({len(row) for row in rows}) == 1, f"{what}: rows of one width")
    for row in rows:
        for cell in row:
            checks.that(not cell[:1] in tuple("=+-@\t\r") or re.fullmatch(r"-?[0-9.eE+-]+", cell), f"{what}: a formula: {cell!r}")
    checks.that(any("calc" in cell for row in rows for cell in row), f"{what}: the hostile command line is not there")


def on_terminal(env, command):
    """What a command writes to a terminal."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    data = b""
    try:
        while part := os.read(ours, 65536):
            data += part
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    if process.wait(60) != 0:
        raise harness.Failure(f"{command}: {process.stderr.read()[:500]}")
    process.stderr.close()
    return data


def check_terminal(env, checks, collector):
    """csv: exact in a pipe; on a terminal without control characters and without characters that change the direction of text."""
    cell = "a\x1b[31m\x07\n\u202eb\u2066\u200f,\u00e9"
    sql = f"SELECT '{cell}' AS \"n\x1b[2J\u202e\""
    command = [env.collector, "query", "--store", collector.store, "--format", "csv", sql]
    piped = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, check=True).stdout.decode()
    checks.equal(piped, f'n\x1b[2J\u202e\n"{cell}"\n', "csv in a pipe")
    shown = on_terminal(env, command).decode()
    checks.equal(shown, "n\\x1b[2J\\xe2\\x80\\xae\n\"a\\x1b[31m\\x07\\x0a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6\\xe2\\x80\\x8f,\u00e9\"\n",
                 "csv on a terminal")
    for form in ("table", "jsonl", "json"):
        text = on_terminal(env, [*command[:-2], form, sql]).decode()
        checks.that(not re.search("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", text), f"{form} on a terminal: {text!r}")


def test(env, checks, _):
    env.make_certificates([web_world.HOSTILE])
    collector = web_world.collector(env)
    office, _ = test_tracegen.generate(env.build, env.folder, "office", "--preset", "office", "--duration-ms", "1500", "--seed", "5")
    trace = web_world.hostile_trace(env, office)
    env.replay([trace], collector, agent=web_world.HOSTILE)
    host = ["--host", web_world.HOSTILE]
    sql = "SELECT host, pid, image_name, command_line FROM processes"
    events = "SELECT name, fields FROM events WHERE name LIKE 'Process/%'"
    check_text(checks, "dump", env.run([env.agent, "dump", trace]).stdout, needs_line=True)
    check_json(checks, "dump --format jsonl", env.run([env.agent, "dump", "--format", "jsonl", trace]).stdout, lines=True)
    check_text(checks, "stats", env.run([env.agent, "stats", trace]).stdout)
    check_text(checks, "ps", collector.ask("ps", *host, "--at", "end"), needs_line=True)
    check_text(checks, "ps --tree", collector.ask("ps", *host, "--at", "end", "--tree"), needs_line=True)
    check_json(checks, "ps --json", collector.ask("ps", *host, "--at", "end", "--json"))
    check_text(checks, "query", collector.ask("query", sql), needs_line=True)
    check_text(checks, "query of events", collector.ask("query", events))
    check_csv(checks, "query --format csv", collector.ask("query", "--format", "csv", sql))
    check_terminal(env, checks, collector)
    check_json(checks, "query --format jsonl", collector.ask("query", "--format", "jsonl", sql), lines=True)
    check_json(checks, "export", collector.ask("export", *host, "--format", "jsonl"), lines=True)
    for command in ("hosts", "ledger", "doctor"):
        check_text(checks, command, collector.ask(command, check=False))
    processes = collector.ask_json("ps", *host, "--at", "end")["processes"]
    mine = next(p for p in processes if "/C calc" in p["command_line"])
    check_text(checks, "modules", collector.ask("modules", *host, "--pid", str(mine["pid"]), "--at", "end", check=False))
    # error messages show hostile arguments as text, too
    evil = "\x1b]0;owned\x07\n\x1b[2J"
    for command in (["ps", "--host", evil], ["hosts", "--host", evil], ["query", evil], ["query", f"SELECT '{evil}'"], ["ps", "--at", evil],
                    ["ledger", "--stream", evil], ["doctor", "--certificate", evil]):
        done = env.run([env.collector, command[0], "--store", collector.store, *command[1:]], check=False)
        check_text(checks, f"{command[0]} with a hostile argument", done.stdout + done.stderr)
    check_text(checks, "the collector's log", collector.log())
    collector.stop()
    print("no control character from any command, no formula in CSV, JSON whole; the text is there")


if __name__ == "__main__":
    harness.main(test, __doc__)
