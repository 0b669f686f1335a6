// Reads Parquet files by DuckDB, for tests: each line of standard input is a JSON array of files of one class; the answer is a line with the
// columns (name, type), the number of rows, and the rows in the order of stream, batch and position. Times are us since 1970 (what DuckDB
// keeps of them), bytes hex, numbers of 64 bits texts.
// usage: node duckdb_columns.mjs FOLDER-WITH-NODE_MODULES
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { join } from "node:path";

const { DuckDBInstance } = createRequire(join(process.argv[2], "none.js"))("@duckdb/node-api");
const db = await DuckDBInstance.create(":memory:", { threads: "1" });
const connection = await db.connect();
const rows = async (sql) => (await connection.runAndReadAll(sql)).getRowsJson();
const quoted = (name) => `"${name.replaceAll('"', '""')}"`;
const text = (value) => `'${value.replaceAll("'", "''")}'`;

function shown(name, type) {
    if (type === "TIMESTAMP WITH TIME ZONE") return `CAST(epoch_us(${quoted(name)}) AS VARCHAR)`;
    if (type === "BLOB") return `hex(${quoted(name)})`;
    return type === "DOUBLE" || type === "VARCHAR" ? quoted(name) : `CAST(${quoted(name)} AS VARCHAR)`;
}

for await (const line of createInterface({ input: process.stdin })) {
    try {
        const from = `read_parquet([${JSON.parse(line).map(text).join(",")}], hive_partitioning = true)`;
        const columns = (await rows(`DESCRIBE SELECT * FROM ${from}`)).map((column) => [column[0], column[1]]);
        const names = new Set(columns.map((column) => column[0]));
        const order = ["stream", "batch", "position"].filter((name) => names.has(name));
        const select = columns.map(([name, type]) => shown(name, type)).join(",");
        const all = await rows(`SELECT ${select} FROM ${from} ${order.length ? "ORDER BY " + order.join(",") : ""}`);
        console.log(JSON.stringify({ columns, rows: all }));
    } catch (error) {
        console.log(JSON.stringify({ error: String(error) }));
    }
}
