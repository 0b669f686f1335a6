"""The fault equipment is tested itself, without the programs under test: the forwarder against a plain echo, the failing disk
against Python's own file calls, the false collector and the load client against each other.

    python3 tests/e2e/check_equipment.py --build BUILD
"""
import argparse
import hashlib
import json
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import disk
import packets
import proxy
import receiver
import uploads

BUILD = None


class Echo:
    """Answers with what it gets; remembers how the last connection ended."""

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.got, self.ended = bytearray(), threading.Event()
        self.how = None
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def _run(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            self.got.clear()
            self.ended.clear()
            try:
                while data := connection.recv(1 << 16):
                    self.got += data
                    connection.sendall(data)
                self.how = "eof"
            except OSError:
                self.how = "reset"
            connection.close()
            self.ended.set()

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Forwarder(unittest.TestCase):
    def talk(self, plan, size=1000, timeout=5.0):
        """Sends size bytes and reads them back: (what came back, how it ended, seconds, the echo, the forwarder)."""
        data = random.Random(size).randbytes(size)
        with Echo() as echo, proxy.Proxy(echo.port, lambda number: plan) as between:
            start = time.monotonic()
            try:
                client = socket.create_connection(("127.0.0.1", between.port), timeout=timeout)
            except ConnectionResetError:  # refused so soon that connect() itself saw it
                return data, b"", "reset", time.monotonic() - start, echo, between
            back, how = bytearray(), "whole"
            sender = threading.Thread(target=self.send, args=(client, data))
            sender.start()
            try:
                while len(back) < size:
                    part = client.recv(1 << 16)
                    if not part:
                        how = "eof"
                        break
                    back += part
            except ConnectionResetError:
                how = "reset"
            except TimeoutError:
                how = "silence"
            seconds = time.monotonic() - start
            client.close()
            sender.join()
            echo.ended.wait(0.3)
            return data, bytes(back), how, seconds, echo, between

    @staticmethod
    def send(client, data):
        try:
            client.sendall(data)
        except OSError:
            pass

    def test_passes_everything(self):
        data, back, how, _, _, between = self.talk(proxy.Plan(), 20_000_000, 20)
        self.assertEqual((how, back), ("whole", data))
        self.assertFalse(between.fired)

    def test_delay(self):
        data, back, how, seconds, _, _ = self.talk(proxy.Plan(proxy.Fault(delay_s=0.2), proxy.Fault(delay_s=0.1)))
        self.assertEqual((how, back), ("whole", data))
        self.assertGreaterEqual(seconds, 0.3)

    def test_bandwidth(self):
        data, back, how, seconds, _, _ = self.talk(proxy.Plan(proxy.Fault(bytes_per_s=100_000)), 50_000)
        self.assertEqual((how, back), ("whole", data))
        self.assertTrue(0.4 <= seconds < 3, seconds)

    def test_drip(self):
        data, back, how, seconds, _, _ = self.talk(proxy.Plan(down=proxy.Fault(drip=(10, 0.005))), 500)
        self.assertEqual((how, back), ("whole", data))
        self.assertGreaterEqual(seconds, 0.15)

    def test_cut(self):
        data, _, how, _, echo, between = self.talk(proxy.Plan(proxy.Fault(cut_at=500)))
        self.assertEqual((how, bytes(echo.got)), ("eof", data[:500]))
        self.assertEqual(between.fired["cut"], 1)

    def test_reset(self):
        data, back, how, _, _, between = self.talk(proxy.Plan(down=proxy.Fault(reset_at=500)))
        self.assertEqual(how, "reset")
        self.assertEqual(back, data[:len(back)])
        self.assertEqual(between.fired["reset"], 1)

    def test_truncate(self):
        data, back, how, _, echo, _ = self.talk(proxy.Plan(proxy.Fault(truncate_at=500)))
        self.assertEqual((how, back, echo.how), ("eof", data[:500], "eof"))

    def test_swallow(self):
        data, back, how, _, echo, between = self.talk(proxy.Plan(proxy.Fault(swallow_at=500)), timeout=0.5)
        self.assertEqual((how, back, between.fired["swallow"]), ("silence", data[:500], 1))

    def test_corrupt(self):
        data, back, how, _, _, _ = self.talk(proxy.Plan(down=proxy.Fault(corrupt_at=500)))
        self.assertEqual(how, "whole")
        self.assertEqual([at for at in range(1000) if data[at] != back[at]], [500])

    def test_hold_outlives_its_sender(self):
        with Echo() as echo, proxy.Proxy(echo.port, lambda number: proxy.Plan(proxy.Fault(hold_at=3, hold_s=0.3))) as between:
            client = socket.create_connection(("127.0.0.1", between.port))
            client.sendall(b"abcdef")
            self.assertEqual(client.recv(100), b"abc")
            client.close()
            self.assertFalse(echo.ended.wait(0.1))
            self.assertTrue(echo.ended.wait(2))
            self.assertEqual(bytes(echo.got), b"abcdef")

    def test_refuse(self):
        data, back, how, _, echo, between = self.talk(proxy.Plan(refuse=True), timeout=1)
        self.assertIn(how, ("reset", "eof"))
        self.assertEqual((back, echo.got), (b"", b""))
        with Echo() as echo, proxy.Proxy(echo.port) as between:
            between.refuse()
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", between.port))
            between.listen()
            client = socket.create_connection(("127.0.0.1", between.port), timeout=2)
            client.sendall(b"x")
            self.assertEqual(client.recv(1), b"x")
            between.reset_all()
            with self.assertRaises(ConnectionResetError):
                client.recv(1)
            client.close()

    def test_deaf(self):
        _, back, how, _, echo, _ = self.talk(proxy.Plan(deaf=True), timeout=0.3)
        self.assertEqual((how, back, echo.got), ("silence", b"", b""))

    def test_random_plans_repeat(self):
        first, again, other = (proxy.random_plans(seed, 10_000) for seed in (1, 1, 2))
        self.assertEqual([first(n) for n in range(50)], [again(n) for n in range(50)])
        self.assertNotEqual([first(n) for n in range(50)], [other(n) for n in range(50)])

    def test_random_plans_with_many_connections(self):
        """Whatever happens to a connection, what comes back is a beginning of what was sent, but for one bit."""
        with Echo() as echo, proxy.Proxy(echo.port, proxy.random_plans(3, 2000, longest_s=0.05)) as between:
            data = random.Random(5).randbytes(4000)
            for _ in range(60):
                try:
                    client = socket.create_connection(("127.0.0.1", between.port), timeout=2)
                    client.sendall(data)
                    client.shutdown(socket.SHUT_WR)
                    back = b"".join(iter(lambda: client.recv(1 << 16), b""))
                    self.assertLessEqual(sum(x != y for x, y in zip(data, back)), 2)
                except OSError:
                    pass
                client.close()
            self.assertGreater(len(between.fired), 4, between.fired)


class Packets(unittest.TestCase):
    SERVER = """
import hashlib, socket, sys
connection = socket.create_server((sys.argv[1], 5000)).accept()[0]
sha = hashlib.sha256()
while data := connection.recv(1 << 16):
    sha.update(data)
connection.sendall(sha.digest())
"""

    def talk(self, weather, size):
        """Sends size bytes over a line: whether they came whole, and what happened to the packets."""
        data = random.Random(size).randbytes(size)
        with packets.Line(weather, seed=1) as line:
            code = ("import socket, sys, time\n"
                    "for _ in range(100):\n"
                    "    try:\n"
                    "        server = socket.create_connection((sys.argv[1], 5000), timeout=20)\n"
                    "        break\n"
                    "    except OSError:\n"
                    "        time.sleep(0.05)\n"
                    "server.sendall(sys.stdin.buffer.read())\n"
                    "server.shutdown(socket.SHUT_WR)\n"
                    "sys.stdout.buffer.write(server.recv(32, socket.MSG_WAITALL))\n")
            server = subprocess.Popen([*line.left.prefix, sys.executable, "-c", self.SERVER, line.left.address])
            client = subprocess.run([*line.right.prefix, sys.executable, "-c", code, line.left.address], input=data,
                                    stdout=subprocess.PIPE, timeout=60)
            server.wait(timeout=10)
            return client.stdout == hashlib.sha256(data).digest(), line.passed

    def test_line(self):
        if not packets.may():
            self.skipTest("this process may not make network namespaces")
        whole, passed = self.talk(packets.Weather(), 1_000_000)
        self.assertTrue(whole)
        self.assertEqual(set(passed), {"passed"})
        whole, passed = self.talk(packets.Weather(loss=0.03, doubled=0.03, damaged=0.03, delay_s=0.002, jitter_s=0.004), 500_000)
        self.assertTrue(whole)
        self.assertTrue(all(passed[kind] > 3 for kind in ("lost", "doubled", "damaged")), passed)


class Disk(unittest.TestCase):
    PRELUDE = """
import os, sys
folder = sys.argv[1]
fd = os.open(folder + "/a", os.O_RDWR | os.O_CREAT)
def attempt(call, *arguments):
    try:
        print(call(*arguments))
    except OSError as error:
        print("error", error.errno)
"""

    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="equipment-")).resolve()
        self.folder = self.top / "disk"
        self.folder.mkdir()

    def tearDown(self):
        shutil.rmtree(self.top)

    def python(self, calls, rules="", folder=None, **options):
        """Runs calls under the preload; the lines that it prints, how it ended, the faults."""
        faults = disk.Faults(BUILD, self.folder, rules, **options)
        code = self.PRELUDE + "\n".join(f"attempt({call})" for call in calls)
        done = subprocess.run([sys.executable, "-c", code, str(folder or self.folder)], env=faults.environment(), text=True,
                              stdout=subprocess.PIPE, timeout=60)
        return done.stdout.split("\n")[:-1], done.returncode, faults

    def test_sync(self):
        lines, _, faults = self.python(["os.fsync, fd", "os.fsync, fd", "os.fdatasync, fd", "os.fsync, fd"], "sync:EIO@2-3")
        self.assertEqual(lines, ["None", "error 5", "error 5", "None"])
        self.assertEqual(faults.happened(), {"sync EIO": 2})

    def test_full(self):
        lines, _, _ = self.python(["os.pwrite, fd, b'x' * 100, 0"] * 3 + ["os.write, fd, b'x'", "os.truncate, fd, 0"],
                                  "write:ENOSPC@2-;truncate:EIO@1-")
        self.assertEqual(lines, ["100", "error 28", "error 28", "error 28", "error 5"])

    def test_space_returns(self):
        lines, _, _ = self.python(["os.write, fd, b'x'", "os.open, os.environ['EA_FAULT_UNTIL'], os.O_CREAT",
                                   "os.write, fd, b'x'"], "write:ENOSPC@1-")
        self.assertEqual((lines[0], lines[2]), ("error 28", "1"))

    def test_faults_begin(self):
        lines, _, _ = self.python(["os.write, fd, b'x'", "os.open, os.environ['EA_FAULT_FROM'], os.O_CREAT",
                                   "os.write, fd, b'x'", "os.write, fd, b'x'"], "write:ENOSPC@1", begin=False)
        self.assertEqual((lines[0], *lines[2:]), ("1", "error 28", "1"))

    def test_short_and_its_seed(self):
        calls = ["os.write, fd, b'x' * 1000"] * 20
        first, again, other = (self.python(calls, "write:short%50", seed=seed)[0] for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertTrue(3 < sum(line != "1000" for line in first) < 18, first)

    def test_vectors(self):
        lines, _, _ = self.python(["os.writev, fd, [b'x' * 10, b'y' * 10]", "os.pwritev, fd, [b'x' * 10, b'y'], 0"],
                                  "write:short@2")
        self.assertEqual(lines[0], "20")
        self.assertLess(int(lines[1]), 11)

    def test_kill_leaves_a_torn_write(self):
        _, code, _ = self.python(["os.write, fd, b'x' * 1000"] * 3, "write:kill@2")
        self.assertEqual(code, -9)
        self.assertTrue(1000 <= (self.folder / "a").stat().st_size < 2000)

    def test_create_and_rename(self):
        lines, _, _ = self.python(["os.open, folder + '/new', os.O_CREAT", "os.rename, folder + '/a', folder + '/b'"],
                                  "create:ENOSPC@2;rename:EIO@1")
        self.assertEqual(lines, ["error 28", "error 5"])

    def test_other_files_are_left_alone(self):
        (self.top / "elsewhere").mkdir()
        rules = "sync:EIO@1-;write:EIO@1-;create:EIO@1-"
        self.assertEqual(self.python(["os.fsync, fd", "os.write, fd, b'x'"], rules, folder=self.top / "elsewhere")[0],
                         ["None", "1"])
        self.assertEqual(self.python(["os.fsync, fd"], rules, files="*.seg")[0], ["None"])

    def test_bad_rules_are_refused(self):
        self.assertEqual(self.python([], "write:wrong@1", files="*")[1], 125)
        self.assertEqual(self.python([], "write:EIO@0", files="*")[1], 125)

    def test_power_cut(self):
        file = self.folder / "a"
        file.write_bytes(b"0123456789")
        calls = ["os.pwrite, fd, b'AB', 2", "os.fsync, fd", "os.pwrite, fd, b'CD', 4", "os.pwrite, fd, b'EFG', 9",
                 "os.ftruncate, fd, 3", "os.pwrite, fd, b'Z', 20"]
        faults = self.python(calls, undo=True)[2]
        self.assertEqual(file.read_bytes(), b"01A" + b"\0" * 17 + b"Z")
        self.assertEqual(faults.power_cut(), 4)
        self.assertEqual(file.read_bytes(), b"01AB456789")
        # a renamed file is the same file; the writes of a deleted file are not undone
        calls = ["os.pwrite, fd, b'XY', 0", "os.rename, folder + '/a', folder + '/b'",
                 "os.unlink, folder + '/b'"]
        faults = self.python(calls[:2], undo=True)[2]
        self.assertEqual(faults.power_cut(), 1)
        self.assertEqual((self.folder / "b").read_bytes(), b"01AB456789")
        faults = self.python(calls, undo=True)[2]
        self.assertEqual(faults.power_cut(), 0)

    def test_small_file_system(self):
        if not disk.may_mount(self.top):
            self.skipTest("this process may not mount")
        with disk.Small(self.folder, 1) as small:
            hog = small.fill()
            with self.assertRaises(OSError):
                (self.folder / "x").write_bytes(b"x" * 5000)
            self.assertLessEqual(hog.stat().st_size, 1 << 20)
            small.grow(2)
            (self.folder / "y").write_bytes(b"x" * 5000)


def certificates(folder):
    """What `etwcollector ca` makes, by openssl: ca, server."""
    def openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, cwd=folder, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=60)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-days", 2, "-subj", "/CN=ca")
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", 2,
            "-extfile", "names", "-out", "server.crt")


class Connections(unittest.TestCase):
    """The false collector and the load client."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="equipment-")).resolve()
        certificates(self.folder)
        batch = self.folder / "batch"
        batch.write_bytes(b"\x08\x01" + uploads._bytes(2, b"s" * 16) + uploads._number(3, 300) + uploads._bytes(10, b"d" * 900))
        self.batch = batch

    def tearDown(self):
        shutil.rmtree(self.folder)

    def start(self, port, count):
        self.client = subprocess.Popen(
            [BUILD / "tests" / "e2e" / "connections", "--port", str(port), "--ca", self.folder / "ca.crt", "--ca-key",
             self.folder / "ca.key", "--count", str(count), "--batch", self.batch], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end)

    def end(self):
        if self.client.poll() is None:
            self.client.kill()
        self.client.wait()
        self.client.stdin.close()
        self.client.stdout.close()

    def do(self, command):
        self.client.stdin.write(command + "\n")
        self.client.stdin.flush()
        return json.loads(self.client.stdout.readline())

    def test_load(self):
        count = 40
        with receiver.Receiver(self.folder, keep_uploads=count) as fake:
            self.start(fake.port, count)
            self.assertEqual(self.do("connect 30")["up"], count)
            sent = self.do("send 0.5")
            self.assertEqual((sent["acknowledged"], sent["failed"]), (count, 0), sent)
            heads = [uploads.Head(uploads.batches(body)[0]) for body in fake.uploads]
            self.assertEqual({head.number for head in heads}, {1})
            self.assertEqual(len({head.stream for head in heads}), count)
            self.assertTrue(all(len(body) == len(fake.uploads[0]) for body in fake.uploads))
            # late answers are seen as late
            fake.behave = lambda exchange: (exchange.read_body(), exchange.wait(0.1), exchange.acknowledge(exchange.heads()))
            sent = self.do("send 0.5")
            self.assertEqual(sent["acknowledged"], count, sent)
            self.assertTrue(100 <= sent["p50_ms"] < 1000, sent)
            # batches without an acknowledgement are not counted as acknowledged
            for behave in (lambda exchange: (exchange.read_body(), exchange.answer(503, b"busy")),
                           lambda exchange: (exchange.read_body(), exchange.answer(200, b"\xff\xff")),
                           lambda exchange: (exchange.read_body(), exchange.answer(200, uploads.ack(b"x" * 16, [(1, 9)]))),
                           lambda exchange: (exchange.read_body(), exchange.answer(
                               200, uploads.ack(exchange.heads()[0].stream, [(1, 1)])))):
                fake.behave = behave
                sent = self.do("send 0.2")
                self.assertEqual((sent["acknowledged"], sent["refused"]), (0, count), sent)
            fake.behave = lambda exchange: setattr(exchange, "keep_open", False)
            sent = self.do("send 0.2")
            self.assertEqual((sent["acknowledged"], sent["failed"], sent["up"]), (0, count, 0), sent)
            # a restart, seen as a reset; the sessions are taken up again
            fake.behave = receiver.honest
            self.assertEqual(self.do("connect 30")["resumed"], count)
            fake.stop()
            self.assertEqual(self.do("down 10")["up"], 0)
            self.assertEqual(self.do("connect 0.5")["up"], 0)
            self.assertEqual((fake.failures, fake.resumed), ([], count))
            self.client.stdin.close()
            self.assertEqual(self.client.wait(timeout=10), 0)

    def test_no_certificate_no_entry(self):
        with receiver.Receiver(self.folder) as fake:
            done = subprocess.run(["openssl", "s_client", "-connect", f"localhost:{fake.port}", "-CAfile",
                                   self.folder / "ca.crt"], input="GET / HTTP/1.1\r\n\r\n", text=True, timeout=20,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(fake.requests, 0, done.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", required=True, type=pathlib.Path)
    arguments, rest = parser.parse_known_args()
    BUILD = arguments.build.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
