#!/usr/bin/env python3
"""A collector that acknowledges every batch, for the Windows job: the collector itself runs on Linux only. It keeps the first uploads, of which
a job on Linux reads which machine the sessions say they are from, and compares that with Windows' own answers.

    acknowledge.py serve CERTS UPLOADS [--port N]       until it is ended; CERTS: a folder as "etwcollector ca" writes it
    acknowledge.py facts UPLOADS MACHINE                MACHINE: pointer_size, processors, build, booted_unix_s by Windows (JSON)"""
import argparse
import json
import pathlib
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import receiver  # noqa: E402
import uploads  # noqa: E402

KEPT_BYTES = 64 << 20
TICKS_TO_1970, TICKS = 116444736000000000, 10**7
BOOT_ROOM_S = 60  # the clock may have been set since


def serve(arguments):
    arguments.uploads.mkdir(parents=True, exist_ok=True)
    lock, kept = threading.Lock(), [0, 0]  # files, bytes

    def behave(exchange):
        exchange.read_body()
        exchange.acknowledge(exchange.heads())
        with lock:
            if kept[1] < KEPT_BYTES:
                (arguments.uploads / f"{kept[0]:05}.upload").write_bytes(exchange.body)
                kept[:] = kept[0] + 1, kept[1] + len(exchange.body)

    with receiver.Receiver(arguments.certs, behave, port=arguments.port) as server:
        print(f"acknowledges at {server.url}", flush=True)
        while not server.failures:
            time.sleep(1)
        print(f"acknowledge.py: {server.failures}", file=sys.stderr)
    return 1


def facts_of(folder):
    """What the batches say of their machines, source by source, each once."""
    import format_notation  # needs libzstd, which Windows has not
    found = []
    for path in sorted(folder.glob("*.upload")):
        for batch in uploads.batches(path.read_bytes()):
            for raw in format_notation.parse(batch, "Batch", raw=("sources", "frames")).sources:
                s = format_notation.parse(raw, "Source")
                fact = {"pointer_size": s.pointer_size, "processors": s.cpu_count, "build": s.os_build,
                        "booted_unix_s": (s.boot_filetime - TICKS_TO_1970) // TICKS}
                found += [fact] * (fact not in found)
    return found


def facts(arguments):
    found, machine = facts_of(arguments.uploads), json.loads(arguments.machine.read_text(encoding="utf-8-sig"))
    wrong = [f"{name} is {fact[name]}, and {machine[name]} by Windows" for fact in found for name in ("pointer_size", "processors", "build") if fact[name] != machine[name]]
    wrong += [f"booted at {fact['booted_unix_s']}, and at {machine['booted_unix_s']} by Windows" for fact in found
              if abs(fact["booted_unix_s"] - machine["booted_unix_s"]) > BOOT_ROOM_S]
    for line in wrong if found else ["no session said anything of its machine"]:
        print(f"DIFFERS: {line}")
    print(f"{len(found)} descriptions of the machine compared with Windows' own")
    return 1 if wrong or not found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for function, words in ((serve, ("certs", "uploads")), (facts, ("uploads", "machine"))):
        command = commands.add_parser(function.__name__)
        for word in words:
            command.add_argument(word, type=pathlib.Path)
        command.set_defaults(run=function)
        if function is serve:
            command.add_argument("--port", type=int, default=8443)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
