"""The guides as tests: each command of a page is run as the page has it, in one shell for the page, and prints what the page says.

    $ command          a command; it goes on in the next line after a backslash, or until its quotes are closed
    ...                a line that stands for any lines; within a line, for any text

Both outputs of a command are compared. A page uses the ports of the package; the test replaces each with a free one.
"""
import concurrent.futures
import os
import pathlib
import random
import re
import socket
import subprocess
import threading
import time

import harness
import kernel_records
import test_rules_test
import test_single_records as single

GUIDES = harness.ROOT / "docs" / "guides"
PAGES = ("metrics-of-many.md", "disk-full.md", "dotnet.md", "hunting.md", "waits.md", "flight-recorder.md")  # the longest first
PORTS = ("8443", "8444", "8453")
FREE_PORTS = iter(random.sample(range(20000, 32768), 1000))  # below those that connections get: a page's fleet has 300
MOST_SECONDS = 150  # of one command; some wait for 60 s at the most
PROGRAMS = ("collector/app", "service/app", "tests/tracegen")


def steps(page):
    """[(command, the lines that follow it)] of a page; lines without a `$` before them are read by people alone."""
    found, inside = [], False
    for line in page.splitlines():
        if not line.startswith("    "):
            inside = inside and not line
            continue
        text = line[4:].rstrip()
        if text.startswith("$ "):
            found.append(([text[2:]], []))
            inside = True
        elif not inside:
            continue
        elif unfinished(found[-1][0]):
            found[-1][0].append(text)
        else:
            found[-1][1].append(text)
    return [("\n".join(command), [line for line in lines if line]) for command, lines in found]


def unfinished(command):
    text = "\n".join(command)
    return text.endswith("\\") or text.count('"') % 2 or text.count("'") % 2


def pattern(lines):
    """The lines as a regular expression."""
    return "".join(r"(?:.*\n)*?" if line == "..." else ".*?".join(map(re.escape, line.split("..."))) + r"\n" for line in lines)


class Shell:
    """One shell for the commands of a page."""

    def __init__(self, build, folder):
        folder.mkdir()
        programs = ":".join(str((pathlib.Path(build) / part).resolve()) for part in PROGRAMS)
        self.process = subprocess.Popen(["bash", "--norc"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="surrogateescape",
                                        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})

    def run(self, command):
        """(exit code, what it printed)"""
        end = "end of the command"
        watch = threading.Timer(MOST_SECONDS, self.process.kill)
        watch.start()
        self.process.stdin.write(f"{command}\nprintf '\\n{end} %s\\n' $?\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.startswith(end):
                watch.cancel()
                return int(line.split()[-1]), "".join(f"{text.rstrip()}\n" for text in lines if text.strip())
            lines.append(line)
        watch.cancel()
        raise harness.Failure(f"the shell ended, or was ended after {MOST_SECONDS} s: {command}\n{''.join(lines)}")

    def close(self):
        """Ends what the page started in the background."""
        self.process.stdin.write("trap - EXIT; jobs -p | xargs -r kill 2>/dev/null; wait; exit\n")
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def free_ports(page):
    """{port of the page: a free one}"""
    return {port: next(str(free) for free in FREE_PORTS if is_free(free)) for port in PORTS if port in page}


def is_free(port):
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def walk(build, folder, name):
    """[(command, lines of the page, exit code, what was printed)] of a page."""
    page = (GUIDES / name).read_text(encoding="utf-8")
    ports, shell, took = free_ports(page), Shell(build, folder), []
    prepare(name, folder)
    try:
        if os.geteuid() == 0:
            shell.run("sudo() { \"$@\"; }")
        for command, lines in steps(page):
            code, printed = shell.run(re.sub(r"\b(8443|8444|8453)\b", lambda m: ports[m[0]], command))
            for ours, theirs in ports.items():
                printed = re.sub(rf"\b{theirs}\b", ours, printed)
            took.append((command, lines, code, printed))
    finally:
        shell.close()
    return took


def prepare(name, folder):
    """What a page has from elsewhere: traces of five machines whose agents record images' facts."""
    if name != "hunting.md":
        return
    system = "Windows\\System32\\"
    common = [(f"{system}ntdll.dll", "aa" * 32), (f"{system}kernel32.dll", "bb" * 32), ("Program Files\\Office\\winword.exe", "ee" * 32)]
    for number in range(1, 6):
        # the same file has another name on the fourth machine, and its disk another number
        rows = common + ([("Users\\ana\\AppData\\Local\\Temp\\updater.dll", "cd" * 32)] if number == 3 else []) + \
            ([(f"{system}version.dll", "99" * 32)] if number != 4 else [(f"{system}ver.dll", "99" * 32)])
        records = [test_rules_test.process(100, 4, "winword.exe", "winword.exe", 1000)]
        for index, (path, digest) in enumerate(rows):
            base = 0x7FF800000000 + index * 0x100000
            records += [kernel_records.image(100, base, 0x1000, path, 1100 + index),
                        test_rules_test.facts(100, base, path, 1100 + index, path.rsplit("\\", 1)[-1], "Vendor", sha256=digest)]
        trace = single.trace(records)
        for coding in ("utf-16-le", "utf-8") if number == 4 else ():
            trace = trace.replace("HarddiskVolume3".encode(coding), "HarddiskVolume5".encode(coding))
        (folder / f"pc-{number}.etl").write_bytes(trace)


def mounts():
    """Whether this process may mount a file system, as disk-full.md does."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0


def check_page(env, checks, name):
    begin, took = time.monotonic(), walk(env.build, env.folder / name.removesuffix(".md"), name)
    checks.that(len(took) >= 4, f"{name}: {len(took)} commands")
    for command, lines, code, printed in took:
        checks.that(code == 0, f"{name}: {command}\nended with {code}: {printed[-1000:]}")
        checks.that(not lines or re.fullmatch(pattern(lines), printed), f"{name}: {command}\nthe page: {lines}\nprinted: {printed[:3000]}")
    return f"{name} {time.monotonic() - begin:.1f} s"


def check_sizes(env, checks):
    """The script of sizing.md measures; small batches take several times as much."""
    done = env.run(["python3", harness.ROOT / "tests" / "bench" / "batch_sizes.py", "--build", env.build, "--sizes", "20,5000", "--duration-ms", 500], check=False)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if re.match(r"\| [0-9]", line)]
    checks.that(done.returncode == 0 and [row[0] for row in rows] == ["20", "5,000"] and float(rows[0][3]) > 4 * float(rows[1][3]), f"batch_sizes.py: {done.stdout}{done.stderr}")
    return "sizes"


def check_reader(checks):
    """The reader of pages finds commands, and a wrong line is wrong."""
    page = "Text.\n\n    $ echo one \\\n        two\n    one two\n    $ x \"a\n      b\"\n    ...\n    last ... line\n\n    not a step\n\nText\n\n    alone\n"
    checks.equal(steps(page), [("echo one \\\n    two", ["one two"]), ('x "a\n  b"', ["...", "last ... line", "not a step"])], "steps of a page")
    for text, good in (("last 1 line\n", True), ("a\nb\nlast 12 line\n", True), ("last line\n", False), ("last 1 line\nmore\n", False)):
        checks.equal(bool(re.fullmatch(pattern(["...", "last ... line"]), text)), good, f"{text!r}")


def test(env, checks, arguments):
    check_reader(checks)
    pages = [name for name in PAGES if name != "disk-full.md" or mounts()]
    if len(pages) < len(PAGES):
        checks.skipped += 1
        print("disk-full.md is left out: this process may not mount", flush=True)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:  # some wait most of their time
        took = pool.map(lambda name: check_page(env, checks, name), pages)
        sizes = pool.submit(check_sizes, env, checks)
        print(", ".join([*took, sizes.result()]), flush=True)


if __name__ == "__main__":
    harness.main(test, __doc__)
