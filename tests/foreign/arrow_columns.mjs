// Reads Arrow files by Apache Arrow's library for JavaScript, for tests: each line of standard input is a JSON array of files; the answer is a
// line with the columns (name, type, nullable), the labels, the number of record batches, and the rows in their order. Times are ns since 1970
// and numbers of 64 bits texts, bytes hex, NaN and infinite numbers texts.
// usage: node arrow_columns.mjs FOLDER-WITH-NODE_MODULES
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { join } from "node:path";

const { tableFromIPC, Type } = createRequire(join(process.argv[2], "none.js"))("apache-arrow");

/** The values of a column, out of its chunks' own arrays: the library's getter makes ms of times. */
function values(vector) {
    const found = [];
    for (const chunk of vector.data) {
        for (let i = 0; i < chunk.length; i++) {
            const isThere = !chunk.nullCount || (chunk.nullBitmap[(chunk.offset + i) >> 3] >> ((chunk.offset + i) & 7)) & 1;
            if (!isThere) found.push(null);
            else if (chunk.type.typeId === Type.Utf8 || chunk.type.typeId === Type.Binary) {
                const bytes = Buffer.from(chunk.values.subarray(chunk.valueOffsets[i], chunk.valueOffsets[i + 1]));
                found.push(bytes.toString(chunk.type.typeId === Type.Utf8 ? "utf8" : "hex"));
            } else {
                const value = chunk.values[i];
                found.push(typeof value === "bigint" || !Number.isFinite(value) ? String(value) : value);
            }
        }
    }
    return found;
}

for await (const line of createInterface({ input: process.stdin })) {
    try {
        const columns = [], labels = [], all = [];
        let batches = 0;
        for (const path of JSON.parse(line)) {
            const table = tableFromIPC(readFileSync(path));
            batches += table.batches.length;
            if (!columns.length) {
                columns.push(...table.schema.fields.map((field) => [field.name, String(field.type), field.nullable]));
                labels.push(...table.schema.metadata);
            }
            const read = table.schema.fields.map((_, i) => values(table.getChildAt(i)));
            for (let row = 0; row < table.numRows; row++) all.push(read.map((column) => column[row]));
        }
        console.log(JSON.stringify({ columns, labels, batches, rows: all }));
    } catch (error) {
        console.log(JSON.stringify({ error: String(error) }));
    }
}
