"""Parquet and Arrow files of a formula (tests/unit/made_columns.c): hostile values (NaN, zeros of both signs, empty texts, NUL, bytes that are no UTF-8,
numbers beyond 63 bits, NULL everywhere) and hostile names, judged by DuckDB and by Arrow's library value by value, and by a reader of the metadata that knows the
format's specification alone (tests/naive_parquet.py): types, counts of NULL, bounds, pages, page index. A file of 65,535 columns."""
import math
import struct

import foreign_readers
import harness
import naive_parquet

GOLDEN = 0x9E3779B97F4A7C15
PAGE_ROWS = 1 << 15
BOUND_MAX = 64
WIDTHS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
FEW = {"few", "a\"b/../\x01\n"}
NAMES = [*WIDTHS, "real", "time", "text", "distinct", "bytes", "same", "same text", "none", "no text", "few", "a\"b/../\x01\n", "spät '; DROP"]
REQUIRED = {"time", "distinct", "same", "spät '; DROP"} | FEW
MIXED = {*WIDTHS, "real", "text", "bytes"}


def value(name, row):
    """What made_columns writes: a number, a text, bytes, or None."""
    if name in ("none", "no text") or (name in MIXED and row % 7 == 3):
        return None
    if name in WIDTHS:
        whole = row * GOLDEN % (1 << WIDTHS[name])
        return whole - (1 << WIDTHS[name]) if name[0] == "i" and whole >> (WIDTHS[name] - 1) else whole
    if name == "real":
        return (row / 3, math.nan, -0.0, math.inf, -math.inf, 1.5, -1e300)[row % 7]
    if name == "time":
        return 1700000000000000000 + row * 12345
    if name == "text":
        return ("", "a\0b", "z" * 100, "ä\U0001f600", "x�?y", f"text number {row}")[row % 6]
    if name == "bytes":
        return bytes([row % 256] * (row % 5))
    if name in FEW:
        return row // 100 % 3
    return {"distinct": f"text number {row}", "same": 7, "same text": "same", "spät '; DROP": "much" if row // 100 % 3 else ""}[name]


def shown(type_, read):
    """A value of DuckDB as value() has it."""
    if read is None or type_ == "VARCHAR":
        return read
    if type_ == "BLOB":
        return bytes.fromhex(read)
    return float(read) if type_ == "DOUBLE" else int(read)


def same(x, y):
    if isinstance(x, float) and isinstance(y, float):
        return struct.pack("d", x) == struct.pack("d", y) or (math.isnan(x) and math.isnan(y)) or x == y
    return x == y


def stored(name, found):
    """A value as it is in the file: for bounds."""
    return found.encode() if isinstance(found, str) else found


def bounds(values):
    """The least and greatest; None where there is none that may be a bound."""
    values = [v for v in values if v is not None and v == v]
    if not values or (isinstance(values[0], bytes) and max(len(min(values)), len(max(values))) > BOUND_MAX):
        return None
    return min(values), max(values)


def bound_of(name, kind, data):
    found = naive_parquet.number(kind, data)
    unsigned = name[0] == "u" and name in WIDTHS or name in ("same", "none", "a\"b/../\x01\n")
    return found % (1 << (32 if kind == 1 else 64)) if unsigned and kind in (1, 2) else found


def judge_chunk(checks, data, name, chunk, first, rows):
    """A column of a row group: counts, bounds, pages."""
    meta, what = chunk[3], f"{name!r} from row {first}"
    values = [stored(name, value(name, row)) for row in range(first, first + rows)]
    checks.equal(meta[3], [name.encode()], f"{what}: path")
    checks.equal(meta[5], rows, f"{what}: values")
    checks.equal(meta[12][3], values.count(None), f"{what}: count of NULL")
    wanted = bounds(values)
    got = (bound_of(name, meta[1], meta[12][6]), bound_of(name, meta[1], meta[12][5])) if 6 in meta[12] else None
    pages = [values[at:at + PAGE_ROWS] for at in range(0, rows, PAGE_ROWS)]
    if meta[1] != 6 or all(bounds(page) or all(v is None for v in page) for page in pages):   # long texts bound nothing
        checks.equal(got, wanted, f"{what}: bounds")
    found = list(naive_parquet.pages(data, chunk))
    body = [page for page in found if page[1][1] == 0]
    checks.equal(sum(page[1][5][1] for page in body), rows, f"{what}: rows of its pages")
    checks.equal(len(found) - len(body), int(11 in meta), f"{what}: dictionary pages")
    index = naive_parquet.Reader(data, chunk[4]).struct()[1]
    checks.equal([(page[1], page[2]) for page in index], [(page[0], page[2]) for page in body], f"{what}: the offset index has the pages")
    starts = [page[3] for page in index]
    checks.equal(starts, [sum(page[1][5][1] for page in body[:i]) for i in range(len(body))], f"{what}: first rows of the pages")
    if 6 in chunk:
        columns = naive_parquet.Reader(data, chunk[6]).struct()
        for i, start in enumerate(starts):
            inside = values[start:starts[i + 1] if i + 1 < len(starts) else rows]
            checks.equal(columns[1][i], all(v is None for v in inside), f"{what}: page {i} is of NULL")
            checks.equal(columns[5][i], inside.count(None), f"{what}: count of NULL of page {i}")
            if not columns[1][i]:
                checks.equal((bound_of(name, meta[1], columns[2][i]), bound_of(name, meta[1], columns[3][i])), bounds(inside), f"{what}: bounds of page {i}")
    return 6 in chunk


def judge_metadata(checks, path, rows, group_rows):
    data = path.read_bytes()
    meta = naive_parquet.metadata(data)
    checks.equal([e[4].decode() for e in meta[2]], ["schema", *NAMES], "names")
    checks.equal([e[3] for e in meta[2][1:]], [int(name not in REQUIRED) for name in NAMES], "which columns may have NULL")
    logical = {e[4].decode(): e.get(10) for e in meta[2][1:]}
    checks.equal(logical["u64"], {10: {1: 64, 2: False}}, "type of u64")
    checks.equal(logical["i8"], {10: {1: 8, 2: True}}, "type of i8")
    checks.equal(logical["time"], {8: {1: True, 2: {3: {}}}}, "type of time: ns, UTC")
    checks.equal((logical["text"], logical["bytes"], logical["real"]), ({1: {}}, None, None), "types of texts, bytes, reals")
    checks.equal(meta[3], rows, "rows of the file")
    checks.equal([group[3] for group in meta[4]], [min(group_rows, rows - at) for at in range(0, rows, group_rows)], "rows of the groups")
    checks.equal(meta[5], [{1: b"made.by", 2: b"formula"}, {1: b"", 2: "ä".encode()}], "labels")
    checks.equal(meta[7], [{1: {}}] * len(NAMES), "orders")
    indexed = 0
    for number, group in enumerate(meta[4]):
        checks.equal(group[2], sum(chunk[3][6] for chunk in group[1]), "raw bytes of a group")
        checks.equal(group[6], sum(chunk[3][7] for chunk in group[1]), "bytes of a group")
        for name, chunk in zip(NAMES, group[1]):
            indexed += judge_chunk(checks, data, name, chunk, number * group_rows, group[3])
    checks.that(indexed > len(NAMES) / 2, f"{indexed} column indexes")


ARROW_TYPES = {"u8": "Uint8", "u16": "Uint16", "u32": "Uint32", "u64": "Uint64", "i8": "Int8", "i16": "Int16", "i32": "Int32", "i64": "Int64", "real": "Float64",
               "time": "Timestamp<NANOSECOND, UTC>", "text": "Utf8", "bytes": "Binary"}


def judge_arrow(env, checks, rows, group_rows):
    """The same rows as an Arrow file, read by Arrow's own library."""
    path = env.folder / f"{rows}.arrow"
    env.run([env.build / "tests" / "unit" / "made_columns", "values", path, rows, group_rows])
    answer = foreign_readers.answers(env, "arrow_columns.mjs", [[str(path)]])[0]
    if not checks.that("rows" in answer, f"{rows} rows: Arrow says {answer.get('error')}"):
        return
    checks.equal([(name, nullable) for name, _, nullable in answer["columns"]], [(name, name not in REQUIRED) for name in NAMES], "columns that Arrow has")
    types = {name: type_ for name, type_, _ in answer["columns"]}
    checks.equal({name: types[name] for name in ARROW_TYPES}, ARROW_TYPES, "types that Arrow has")
    checks.equal(answer["labels"], [["made.by", "formula"], ["", "ä"]], "labels that Arrow has")
    checks.equal((len(answer["rows"]), answer["batches"]), (rows, -(-rows // group_rows)), "rows and batches that Arrow has")
    of_duckdb = {"Utf8": "VARCHAR", "Binary": "BLOB", "Float64": "DOUBLE"}
    for at, name in enumerate(NAMES):
        wrong = [(row, read[at], value(name, row)) for row, read in enumerate(answer["rows"])
                 if not same(shown(of_duckdb.get(types[name], "BIGINT"), read[at]), value(name, row))]
        checks.that(not wrong, f"{rows} rows: {name!r} in Arrow: {wrong[:2]}")


def test(env, checks, arguments):
    made = env.build / "tests" / "unit" / "made_columns"
    for rows, group_rows in ((1, 1), (300, 100), (70000, 70000)) + (((300000, 131072),) if arguments.soak else ()):
        path = env.folder / f"{rows}.parquet"
        env.run([made, "values", path, rows, group_rows])
        judge_metadata(checks, path, rows, group_rows)
        answer = foreign_readers.answers(env, "duckdb_columns.mjs", [[str(path)]])[0]
        if not checks.that("rows" in answer, f"{rows} rows: DuckDB says {answer.get('error')}"):
            continue
        checks.equal([name for name, _ in answer["columns"]], NAMES, "columns that DuckDB has")
        checks.equal(len(answer["rows"]), rows, "rows that DuckDB has")
        for at, (name, type_) in enumerate(answer["columns"]):
            scale = 1000 if name == "time" else 1   # us of DuckDB
            wrong = [(row, read[at], value(name, row)) for row, read in enumerate(answer["rows"])
                     if not same(shown(type_, read[at]), value(name, row) // scale if scale > 1 else value(name, row))]
            checks.that(not wrong, f"{rows} rows: {name!r} ({type_}): {wrong[:2]}")
        judge_arrow(env, checks, rows, group_rows)
    wide = env.folder / "wide.parquet"
    env.run([made, "wide", wide, 65535])
    meta = naive_parquet.metadata(wide.read_bytes())
    checks.equal((len(meta[2]), meta[3], len(meta[4][0][1])), (65536, 2, 65535), "65,535 columns")
    again = env.run([made, "wide", wide, 3], check=False)
    checks.that(again.returncode and "expected a name that is not taken" in again.stderr, f"an existing file: {again.stderr}")


if __name__ == "__main__":
    harness.main(test, __doc__)
