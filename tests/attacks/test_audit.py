"""The audit log against attempts to remove lines of it. 80 MiB of refused requests by a client without a token remove no line of a granted
request. "audit verify" finds and names each manual change of the files.

usage: test_audit.py --build DIR [--soak] [--keep]
"""
import json
import os
import pathlib
import re
import shutil
import socket
import threading
import time

import world
import harness

PATH_BYTES = 12 << 10  # of a request's path: the head has at most 16 KiB
FLOOD_BYTES = 80 << 20
PATHS = b"/api/v1/hosts/" + b"x" * PATH_BYTES


def flood(w, stop, ready):
    """Requests that are refused, over a few connections of a few addresses; how many bytes of paths were sent."""
    request = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % PATHS
    sent, address = 0, 0
    ready.set()
    deadline = time.monotonic() + 60
    while sent < FLOOD_BYTES and time.monotonic() < deadline:
        address += 1
        try:
            with world.secure(w.reader.context, world.connect(w.web_port, f"127.70.{address >> 8}.{address & 255}", 10)) as connection:
                for _ in range(100):
                    connection.sendall(request)
                    sent += len(PATHS)
                    if not connection.recv(65536):
                        break
        except (OSError, socket.timeout):
            pass
    return sent


def lines(store, name):
    files = [store / f"{name}.{i}" for i in (4, 3, 2, 1)] + [store / name]
    return [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]


def check_flood(env, checks):
    with world.World(env, checks, tokens=True, extra=["--max-connections", "4096"]) as w:
        store = w.collector.store
        w.measure()
        asking = world.Web(w.web_port, "127.0.0.1", w.reader.context)
        for number in range(20):  # the changes of check_changes need 16 lines, however slow the machine was
            w.reader.request(asking, number)
        asking.close()
        before = lines(store, "audit.jsonl")
        checks.that(len(before) > 16 and any(e.get("note") == "token added" for e in before), f"{len(before)} lines before")
        begin, size = time.monotonic(), 0
        sent = flood(w, world.processes.Event(), world.processes.Event())
        took = time.monotonic() - begin
        checks.that(sent >= FLOOD_BYTES, f"{sent >> 20} MiB of refused requests in {took:.0f} s, expected {FLOOD_BYTES >> 20}")
        after = lines(store, "audit.jsonl")
        checks.equal(after[:len(before)], before, "lines of what was granted, after the flood")
        refused = lines(store, "audit-refused.jsonl")
        size = sum(file.stat().st_size for file in store.glob("audit-refused.jsonl*"))
        checks.that(refused and size < 4 << 20, f"{len(refused)} lines of refusals have {size} bytes")
        metrics = w.metrics()
        held, limited = metrics["etwcollector_audit_held_total"], metrics["etwcollector_web_limited_total"]
        checks.that(held > 1000 and metrics["etwcollector_audit_unwritten_total"] == 0, f"{held} refusals are numbers, {limited} were above a rate")
        print(f"{sent >> 20} MiB of refused requests in {took:.0f} s: {len(refused)} lines, {size >> 10} KiB; {held:.0f} are numbers, {limited:.0f} not audited", flush=True)
    reported = [e["held"] for e in lines(store, "audit-refused.jsonl") if "held" in e]
    checks.equal(sum(reported), held, "refusals that the audit log has as numbers, when the collector has ended")
    return store


def verify(env, store):
    done = env.run([env.collector, "audit", "verify", "--store", store], check=False)
    return done.returncode, done.stdout + done.stderr


def check_changes(env, checks, sound):
    """Each change of a log, the exit code, and what is named."""
    def edit(number, old, new):
        def change(rows):
            at = next(i for i, row in enumerate(rows) if f'"seq":{number},'.encode() in row)
            if old not in rows[at]:
                raise harness.Failure(f"line {number}: {rows[at][:200]} has no {old}")
            rows[at] = rows[at].replace(old, new, 1)
        return change

    def remove(first, last):
        return lambda rows: rows.__delitem__(slice(first - 1, last))

    def swap(rows):
        rows[4], rows[5] = rows[5], rows[4]

    def cut(rows):
        del rows[-3:]

    def double(rows):
        rows.insert(7, rows[6])

    def forged(rows):
        rows.insert(9, rows[8].replace(b'"seq":9,', b'"seq":10,'))

    last = len(lines(sound, "audit.jsonl"))
    cases = [("a word of a line", edit(6, b'"GET"', b'"PUT"'), ["audit.jsonl, line 6, number 6: the line was changed"]),
             ("the time of a line", edit(6, b'{"time":"2', b'{"time":"1'), ["audit.jsonl, line 6, number 6: the line was changed"]),
             ("the hash that a line names", edit(6, b'"prev":"', b'"prev":"0'), ["number 6: the line was changed"]),
             ("a line's number", edit(6, b'"seq":6,', b'"seq":7,'), ["line 6, number 7: numbers 6 to 6 are missing before it"]),
             ("the first line", edit(1, b"begins", b"beginz"), ["line 1, number 1: the line was changed"]),
             ("the last line", edit(last, b'"status":200', b'"status":201'), [f"number {last}: the line was changed"]),
             ("a line without its beginning", edit(6, b'{"time"', b'{"tyme"'), ["line 6, number 6: the line is damaged"]),
             ("a line less", remove(6, 6), ["line 6, number 7: numbers 6 to 6 are missing before it: lines were removed"]),
             ("many lines less", remove(6, 15), ["numbers 6 to 15 are missing before it: lines were removed"]),
             ("the first lines less", remove(1, 3), ["line 1, number 4: no file begins with such a line: lines were removed from the beginning"]),
             ("the last lines less", cut, [f"number {last - 3}: it is the last one, but number {last} was written: lines were removed from the end"]),
             ("two lines exchanged", swap, ["line 5, number 6: numbers 5 to 5 are missing before it", "line 6, number 5: it follows number 6: lines were reordered or added"]),
             ("a line twice", double, ["line 8, number 7: it follows number 7: lines were reordered or added"]),
             ("a line more", forged, ["it follows number 10: lines were reordered or added"])]
    cases.append(("each line without its beginning", lambda rows: rows.__setitem__(slice(None), [row.replace(b'{"time"', b'{"tyme"') for row in rows]),
                  [f"number 0: it is the last one, but number {last} was written: lines were removed from the end"]))
    # as if a version without hashes had written them
    cases.append(("the first lines without their hashes", lambda rows: rows.__setitem__(slice(0, 5), [b'{"time":"2026-11-27T00:00:00.0000000Z","status":200}\n']),
                  ["line 2, number 6: it follows lines without hashes: lines before it were removed or changed"]))
    checks.equal(verify(env, sound)[0], 0, f"a sound log: {verify(env, sound)[1]}")
    folder = env.folder / "changed"
    for what, change, expected in cases:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for file in sound.glob("audit*"):
            shutil.copy(file, folder)
        rows = (folder / "audit.jsonl").read_bytes().splitlines(keepends=True)
        change(rows)
        (folder / "audit.jsonl").write_bytes(b"".join(rows))
        code, said = verify(env, folder)
        checks.that(code == 3 and all(e in said for e in expected), f"{what}: exit code {code}, expected {expected} in: {said}")
    shutil.copy(sound / "audit.jsonl", folder)
    (folder / "audit.jsonl.head").unlink()
    code, said = verify(env, folder)
    checks.that(code == 3 and "(.head) is missing" in said, f"no head: {code} {said}")
    checks.equal(verify(env, env.certs)[0], 1, f"no log at all: {verify(env, env.certs)[1]}")


def rotate(env, collector):
    """Requests until the fourth old file was deleted once."""
    collector.start()
    store = collector.store
    token = env.run([env.collector, "token", "add", "--store", store, "--name", "reader"]).stdout.strip()
    port = int(re.search(r"dashboard on https://127\.0\.0\.1:(\d+)/", collector.log()).group(1))
    context = world.tls(env.certs)
    with world.secure(context, world.connect(port)) as connection:
        request = f"GET /icon.svg?{'x' * 1000} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nIf-None-Match: x\r\n\r\n".encode()
        count = 0
        while not (store / "audit.jsonl.4").exists() or count % 40:
            connection.sendall(request)
            connection.recv(1 << 16)
            count += 1
            time.sleep(0.02 if count > 150 else 0)  # the token's own rate
        deleted = json.loads((store / "audit.jsonl.4").read_text().splitlines()[0])["seq"]
        while json.loads((store / "audit.jsonl.4").read_text().splitlines()[0])["seq"] == deleted:
            connection.sendall(request)
            connection.recv(1 << 16)
            time.sleep(0.02)


def check_rotation(env, checks):
    """Lines that rotation deleted are no fault; the same files less one are. A crash in the middle of a line is none, either."""
    collector = env.new_collector("rotated", extra=["--web", "127.0.0.1:0", "--web-tokens", "--audit-size", "64KiB", "--audit-syslog"])
    syslog, text = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), []
    syslog.bind(str(env.folder / "syslog"))

    def listen():
        while line := syslog.recv(1 << 16):
            text.append(line.decode())
    listener = threading.Thread(target=listen)
    listener.start()
    collector.environment = {**os.environ, "LD_PRELOAD": str(env.build / "tests/e2e/syslog_socket.so"), "EA_SYSLOG_SOCKET": str(env.folder / "syslog")}
    try:
        rotate(env, collector)
    finally:
        collector.stop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ends:
            ends.sendto(b"", str(env.folder / "syslog"))
        listener.join()
        syslog.close()
    store = collector.store
    # LOG_AUTHPRIV is 10 << 3, LOG_INFO is 6; the lines of the running collector, those that rotation deleted, too; not the lines with which files begin
    kept = {line for line in (store / "audit.jsonl.4").read_text().splitlines() if "first_kept" not in line}
    checks.that(all(line.startswith("80 6 {") for line in text) and kept and kept <= {line[5:] for line in text}, f"{len(text)} lines in syslog: {text[:2]}")
    first = json.loads((store / "audit.jsonl.4").read_text().splitlines()[0])["seq"]
    checks.that(json.loads(text[0][5:])["seq"] < first, f"syslog lacks lines that rotation deleted, before {first}: {text[0][:200]}")
    code, said = verify(env, store)
    checks.that(code == 0 and f"numbers {first} to " in said and "those before were deleted by rotation" in said, f"a rotated log: {code} {said}")
    for name in ("audit.jsonl.2", "audit.jsonl.4"):
        kept = (store / name).read_bytes()
        (store / name).unlink()
        code, said = verify(env, store)
        checks.that(code == 3 and ("lines were removed from the beginning" if name.endswith("4") else "are missing before it: lines were removed") in said,
                    f"without {name}: {code} {said}")
        (store / name).write_bytes(kept)
    with (store / "audit.jsonl").open("ab") as file:
        file.write(b'{"time":"2026-')
    code, said = verify(env, store)
    checks.that(code == 0 and "ends with 14 bytes of half a line" in said, f"half a line: {code} {said}")
    env.run([env.collector, "token", "revoke", "--store", store, "reader"])
    code, said = verify(env, store)
    checks.that(code == 0 and "half a line" not in said, f"a line after half a line: {code} {said}")
    newest = json.loads((store / "audit.jsonl").read_text().splitlines()[-1])
    checks.equal((newest["token"], newest["note"]), ("reader", "token revoked"), "the line after half a line")


def check_cuts(env, checks):
    """Lines that are removed while the collector runs: the next line states it, and "audit verify" reports it from then on, after a restart, too."""
    for what in ("tail", "last line changed", "file", "file and head", "no request", "head, stopped"):
        collector = env.new_collector(f"cut-{what.replace(' ', '-').replace(',', '')}", extra=["--web", "127.0.0.1:0", "--web-tokens"])
        collector.start()
        store, file = collector.store, collector.store / "audit.jsonl"
        token = env.run([env.collector, "token", "add", "--store", store, "--name", "reader"]).stdout.strip()
        context = world.tls(env.certs)

        def ask(count, authorization=f"Authorization: Bearer {token}\r\n"):
            port = int(re.findall(r"dashboard on https://127\.0\.0\.1:(\d+)/", collector.log())[-1])
            for _ in range(count):
                with world.secure(context, world.connect(port)) as connection:
                    connection.sendall(f"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n{authorization}If-None-Match: x\r\nConnection: close\r\n\r\n".encode())
                    answer = connection.recv(1 << 16)
                    while connection.recv(1 << 16):
                        pass
                    if not answer.startswith(b"HTTP/1.1 "):
                        raise harness.Failure(f"{what}: the answer is {answer[:100]}")

        ask(20)
        rows = file.read_bytes().splitlines(keepends=True)
        count = len(rows)
        checks.that(count > 20 and verify(env, store)[0] == 0, f"{what}: {count} lines before, {verify(env, store)}")
        expected = f"audit.jsonl, line {count - 9}, number {count + 1}: when it was written, lines {count - 9} to {count} were missing: lines were removed from the end"
        fault = f"lines {count - 9} to {count} are missing"
        if what == "tail":
            with file.open("r+b") as out:
                out.truncate(sum(map(len, rows[:-10])))
        elif what == "last line changed":
            file.write_bytes(b"".join(rows[:-1]) + rows[-1].replace(b'"reader"', b'"rea"'))
            expected, fault = f"line {count + 1}, number {count + 1}: when it was written, line {count} had been changed", f"line {count} was changed"
        elif what == "head, stopped":
            collector.stop()
            (store / "audit.jsonl.head").unlink()
            collector.start()
            expected, fault = "when it was written, the file that names the last line's hash (.head) was missing or damaged", ".head is missing or damaged"
        else:
            file.unlink()
            expected, fault = f"audit.jsonl, line 1, number {count + 1}: when it was written, lines 1 to {count} were missing", f"lines 1 to {count} are missing"
            if what == "file and head":
                (store / "audit.jsonl.head").unlink()
        if what == "no request":
            ask(1, authorization="")
            missing = f"audit.jsonl, line 0, number 0: there is no file, but number {count} was written: the file was removed"
            code, said = verify(env, store)
            checks.that(code == 3 and missing in said, f"{what}: {code}, expected {missing} in: {said}")
            (store / "audit-refused.jsonl").unlink(missing_ok=True)
            (store / "audit-refused.jsonl.head").unlink(missing_ok=True)
            code, said = verify(env, store)
            checks.that(code == 3 and missing in said, f"{what}, without refusals: {code}, expected {missing} in: {said}")
        for restart in (False, True):
            if restart:
                collector.stop()
                collector.start()
            ask(1)
            code, said = verify(env, store)
            checks.that(code == 3 and expected in said, f"{what}, restart {restart}: {code}, expected {expected} in: {said}")
        stated = [e["fault"] for e in lines(store, "audit.jsonl") if "fault" in e]
        checks.equal(stated, [fault], f"{what}: faults that lines state")
        collector.stop()


def test(env, checks, _):
    sound = check_flood(env, checks)
    check_changes(env, checks, pathlib.Path(sound))
    check_rotation(env, checks)
    check_cuts(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
