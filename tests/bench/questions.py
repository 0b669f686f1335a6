#!/usr/bin/env python3
"""Plain SQL over a store, side by side: the 2,097,152 disk reads of tests/bench/scan, asked 23 questions by etwcollector query, and, where its
library (libduckdb.so) is at hand, the same rows by DuckDB, in its own format in memory. Prints the wall time of each answer in ms
(etwcollector: with the start of its processes and the reading of files; the best of --runs), and fails when two answers differ.
DuckDB has one thread.

usage: tests/bench/questions.py --build DIR [--duckdb LIBRARY] [--runs N] [--work DIR]
"""
import argparse
import csv
import ctypes
import io
import math
import pathlib
import subprocess
import sys
import tempfile
import time

COLUMNS = "time + 0 AS time, cpu, pid, tid, DiskNumber, TransferSize, ByteOffset, HighResResponseTime, IssuingThreadId"
# name, SQL over {t}; where DuckDB's dialect differs: its form
QUESTIONS = [
    ("count", "SELECT count(*) FROM {t}"),
    ("filter", "SELECT count(*), sum(TransferSize) FROM {t} WHERE pid = 1040"),
    ("filter range", "SELECT count(*) FROM {t} WHERE TransferSize BETWEEN 4096 AND 8192 AND DiskNumber = 1"),
    ("filter other column", "SELECT count(*) FROM {t} WHERE pid <> 1040 AND DiskNumber <> 2"),
    ("filter or", "SELECT count(*) FROM {t} WHERE pid = 1040 OR DiskNumber = 1"),
    ("filter in", "SELECT count(*) FROM {t} WHERE pid IN (1004, 1008, 1012, 1040)"),
    ("sum", "SELECT sum(TransferSize), min(TransferSize), max(TransferSize), avg(TransferSize) FROM {t}"),
    ("by few", "SELECT DiskNumber, count(*), sum(TransferSize) FROM {t} GROUP BY 1 ORDER BY 1"),
    ("by process", "SELECT pid, count(*), sum(TransferSize) FROM {t} GROUP BY 1 ORDER BY 1"),
    ("by thread", "SELECT IssuingThreadId, sum(TransferSize) FROM {t} GROUP BY 1 ORDER BY 1"),
    ("by two", "SELECT pid, DiskNumber, count(*), max(TransferSize) FROM {t} GROUP BY 1, 2 ORDER BY 1, 2"),
    ("by three", "SELECT pid, DiskNumber, cpu, count(*) FROM {t} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"),
    ("top ten", "SELECT IssuingThreadId, sum(TransferSize) AS s FROM {t} GROUP BY 1 ORDER BY s DESC, 1 LIMIT 10"),
    ("distinct count", "SELECT count(DISTINCT IssuingThreadId) FROM {t}"),
    ("distinct rows", "SELECT DISTINCT pid, DiskNumber FROM {t} ORDER BY 1, 2"),
    ("per second", "SELECT time / 1000000000 AS s, count(*) FROM {t} GROUP BY 1 ORDER BY 1",
     "SELECT time // 1000000000 AS s, count(*) FROM {t} GROUP BY 1 ORDER BY 1"),
    ("per minute and process", "SELECT time / 60000000000 AS m, pid, sum(TransferSize) FROM {t} GROUP BY 1, 2 ORDER BY 1, 2",
     "SELECT time // 60000000000 AS m, pid, sum(TransferSize) FROM {t} GROUP BY 1, 2 ORDER BY 1, 2"),
    ("case", "SELECT sum(CASE WHEN TransferSize > 4096 THEN 1 ELSE 0 END) FROM {t}"),
    ("filter of an aggregate", "SELECT pid, count(*) FILTER (WHERE DiskNumber = 1) FROM {t} GROUP BY 1 ORDER BY 1"),
    ("having", "SELECT IssuingThreadId, count(*) FROM {t} GROUP BY 1 HAVING count(*) > 100 ORDER BY 1"),
    ("expression key", "SELECT TransferSize / 4096 AS pages, count(*) FROM {t} GROUP BY 1 ORDER BY 1",
     "SELECT TransferSize // 4096 AS pages, count(*) FROM {t} GROUP BY 1 ORDER BY 1"),
    ("like", "SELECT count(*) FROM {t} WHERE CAST(pid AS TEXT) LIKE '%4'"),
    ("greatest", "SELECT ByteOffset, pid FROM {t} ORDER BY ByteOffset DESC, pid LIMIT 10"),
]


def ours(build, store, sql, *options):
    begin = time.monotonic()
    done = subprocess.run([build / "collector/app/etwcollector", "query", "--store", store, "--format", "csv", "--rows", "100000000",
                           "--time-limit", "600s", *options, sql], capture_output=True, text=True, check=True)
    return time.monotonic() - begin, list(csv.reader(io.StringIO(done.stdout)))[1:]


def is_same_cell(a, b):
    return a == b or (a != "" and b != "" and math.isclose(float(a), float(b), rel_tol=1e-12))


def is_same(a, b):
    return len(a) == len(b) and all(len(x) == len(y) and all(map(is_same_cell, x, y)) for x, y in zip(a, b))


class Result(ctypes.Structure):
    """duckdb_result."""
    _fields_ = [("fields", ctypes.c_uint64 * 6)]


class DuckDB:
    """libduckdb by its C interface; answers as texts."""

    def __init__(self, library, rows):
        self.lib = ctypes.CDLL(str(library.resolve()))
        self.lib.duckdb_value_varchar.restype = ctypes.c_void_p
        self.lib.duckdb_result_error.restype = self.lib.duckdb_library_version.restype = ctypes.c_char_p
        for name in ("duckdb_row_count", "duckdb_column_count"):
            getattr(self.lib, name).restype = ctypes.c_uint64
        self.name = f"DuckDB {self.lib.duckdb_library_version().decode()}"
        database, self.connection = ctypes.c_void_p(), ctypes.c_void_p()
        if self.lib.duckdb_open(None, ctypes.byref(database)) or self.lib.duckdb_connect(database, ctypes.byref(self.connection)):
            raise OSError("DuckDB does not open")
        self.ask("SET threads = 1")
        self.ask(f"CREATE TABLE reads AS SELECT * FROM read_csv('{rows}', header = true)")

    def ask(self, sql):
        result = Result()
        begin = time.monotonic()
        if self.lib.duckdb_query(self.connection, sql.encode(), ctypes.byref(result)):
            raise OSError(f"{sql}: {self.lib.duckdb_result_error(ctypes.byref(result)).decode()}")
        seconds = time.monotonic() - begin
        rows = []
        for row in range(self.lib.duckdb_row_count(ctypes.byref(result))):
            rows.append([])
            for column in range(self.lib.duckdb_column_count(ctypes.byref(result))):
                text = self.lib.duckdb_value_varchar(ctypes.byref(result), ctypes.c_uint64(column), ctypes.c_uint64(row))
                rows[-1].append((ctypes.cast(text, ctypes.c_char_p).value or b"").decode())  # NULL: as in CSV
                self.lib.duckdb_free(ctypes.c_void_p(text))
        self.lib.duckdb_destroy_result(ctypes.byref(result))
        return seconds, rows


def main():
    parser = argparse.ArgumentParser(description="Plain SQL over a store, side by side.")
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--duckdb", type=pathlib.Path, help="libduckdb.so")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--work", type=pathlib.Path, help="where the store is made; default: a temporary folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.work) as work:
        store = pathlib.Path(work) / "store"
        subprocess.run([arguments.build / "tests/bench/scan", "measure", "--runs", "1", store], check=True, capture_output=True)
        peers = []
        if arguments.duckdb:
            rows = pathlib.Path(work) / "rows.csv"
            with rows.open("w") as file:
                subprocess.run([arguments.build / "collector/app/etwcollector", "query", "--store", store, "--format", "csv", "--rows", "100000000",
                                "--time-limit", "600s", f'SELECT {COLUMNS} FROM "DiskIo/Read"'], stdout=file, check=True)
            peers.append(DuckDB(arguments.duckdb, rows))
        print(f"{'question':24}{'etwcollector':>14}{'way':>14}" + "".join(f"{peer.name:>16}" for peer in peers))
        differ = 0
        for name, sql, *other in QUESTIONS:
            statement = sql.format(t='"DiskIo/Read"')
            plan = "\n".join(row[-1] for row in ours(arguments.build, store, "EXPLAIN QUERY PLAN " + statement)[1])
            times, answers = zip(*(ours(arguments.build, store, statement) for _ in range(arguments.runs)))
            line = f"{name:24}{min(times) * 1000:14.0f}{'handed down' if '(grouped ' in plan else 'row by row':>14}"
            for peer in peers:
                peer_times, peer_answers = zip(*(peer.ask((other or [sql])[0].format(t="reads")) for _ in range(arguments.runs)))
                line += f"{min(peer_times) * 1000:16.0f}"
                if not is_same(answers[0], peer_answers[0]):
                    differ += 1
                    line += "  DIFFERS"
            print(line, flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
