// Times, ranges, numbers, links, sums over time and over a flame graph: pure functions.
import './dom.ts';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { fieldsOf, sqlRange, sqlText, url } from '../../collector/web/ui/src/api.ts';
import { gridOf, linesOf } from '../../collector/web/ui/src/chart.tsx';
import { bucketsSql, ipcOf } from '../../collector/web/ui/src/exact.tsx';
import { filtersOf } from '../../collector/web/ui/src/fields.tsx';
import { around, fits, found, type Frame } from '../../collector/web/ui/src/frames.ts';
import { bytes, count, duration, isPeriod, lossText, text, type Gap } from '../../collector/web/ui/src/parts.tsx';
import { rangeText } from '../../collector/web/ui/src/range.tsx';
import { choicesFor, namesIn, quoted, tablesIn } from '../../collector/web/ui/src/sql_names.ts';
import { closedRangeOf, linkTo, rangeOf, setRange, shortTime, spanOf, toIso, toMs } from '../../collector/web/ui/src/state.ts';
import { address } from './dom.ts';

test('times: RFC 3339 with 100 ns, and back', () => {
  assert.equal(toMs('2024-05-03T10:00:00Z'), Date.UTC(2024, 4, 3, 10));
  assert.equal(toIso(toMs('2024-05-03T10:00:00.1234567Z')).slice(0, 24), '2024-05-03T10:00:00.1234');
  assert.equal(toIso(-1), '1969-12-31T23:59:59.9990000Z');
  for (const wrong of ['', null, undefined, 'now', '2024-05-03', '2024-05-03T10:00:00', '2024-05-03T10:00:00Zx', '2024-99-03T10:00:00Z'])
    assert.ok(Number.isNaN(toMs(wrong)), `${wrong} is no time`);
  assert.equal(shortTime('2024-05-03T10:00:00.1234567Z'), '2024-05-03 10:00:00.123');
});
test('ranges: a quick one has a begin, and goes on with the view alone', async () => {
  const view = { range: '1h' }, first = rangeOf(view);
  await new Promise((f) => setTimeout(f, 5));
  assert.deepEqual(rangeOf(view), first);
  assert.equal(first.to, undefined);
  assert.equal(toMs(closedRangeOf(view).to) - toMs(first.from), 3600e3);
  assert.deepEqual(rangeOf({ range: 'constructor', from: 'a' }), { from: 'a' }, 'a name that every object has is no range');
  assert.equal(spanOf({ from: '2024-05-03T11:00:00Z', to: '2024-05-03T10:00:00Z' }), null, 'an end before its begin is no range');
  assert.equal(spanOf({ from: 'yesterday' }), null);
});
test('ranges in words', () => {
  assert.equal(rangeText({}), 'all times');
  assert.equal(rangeText({ range: '15m' }), 'last 15m');
  assert.equal(rangeText({ from: '2024-05-03T10:00:00Z', to: '2024-05-03T11:30:00.5Z' }), '2024-05-03 10:00 – 11:30:00.5');
  assert.equal(rangeText({ from: '2024-05-03T10:00:00Z', to: '2024-05-04T10:00:00Z' }), '2024-05-03 10:00 – 2024-05-04 10:00');
  assert.equal(rangeText({ from: 'x'.repeat(1e5) }).length, 'from '.length + 30, 'a long text of a link is cut');
});
test('ranges: what one drags over is within the years that the collector takes', () => {
  setRange(-1e15, 1e18);
  assert.deepEqual(address(), { from: '1970-01-01T00:00:00.0000000Z', to: '9999-12-31T00:00:00.0000000Z' });
});
test('numbers and units', () => {
  assert.deepEqual([0, 9999, 10000, 1e6, 1.5e9, -20000].map(count), ['0', '9999', '10.0 k', '1.0 M', '1.5 G', '-20.0 k']);
  assert.deepEqual([null, undefined].map(count), ['', '']);
  assert.deepEqual([12, 10000].map(bytes), ['12 B', '10.0 kB']);
  assert.deepEqual([900, 1.5e6, 2e9].map(duration), ['0.9 µs', '1.5 ms', '2.00 s']);
  assert.deepEqual([null, 0, 'a', { b: 1 }].map(text), ['', '0', 'a', '{"b":1}']);
});
test('gaps: what is only counted is no period', () => {
  const gap = (more: object) => ({ kind: 'missing', records: null, cause: 'missing', counted: null, events: null, at_least: null, ...more }) as unknown as Gap;
  assert.equal(lossText(gap({})), 'batches have not come');
  assert.equal(lossText(gap({ kind: 'counted', counted: 7, cause: 'source_events_lost', records: 2 })), '7 events that Windows says it lost, in 2 periods from its records');
  assert.ok(isPeriod(gap({})) && !isPeriod(gap({ kind: 'counted', records: 2 })));
});
test('links: values are text, empty ones are left out', () => {
  assert.equal(linkTo({ page: 'events', q: 'a&b=c#<d>', x: '', y: null, z: 0 }), '/?page=events&q=a%26b%3Dc%23%3Cd%3E&z=0');
  assert.equal(url('hosts/{host}', { host: '../x?y' }), '/api/v1/hosts/..%2Fx%3Fy');
  assert.equal(url('events', { where: ['a==1', 'b!=2'], host: '' }), '/api/v1/events?where=a%3D%3D1&where=b%21%3D2');
});
test('filters of a link: a list of short texts, and nothing else', () => {
  assert.deepEqual(filtersOf({ filters: '["a==1","b!=<i>"]' }), ['a==1', 'b!=<i>']);
  for (const wrong of ['', '{', '{}', '7', 'null', '[1,null,{}]']) assert.deepEqual(filtersOf({ filters: wrong }), [], wrong);
  assert.equal(filtersOf({ filters: JSON.stringify(Array(100).fill('a==1')) }).length, 12);
  assert.deepEqual(filtersOf({ filters: JSON.stringify(['a=='.padEnd(2001, 'x')]) }), []);
});
test('sums over time: every value is in one bucket, the small lines are one', () => {
  const from = Date.UTC(2024, 4, 3), grid = gridOf(from, from + 60_000);
  assert.deepEqual([grid.width, grid.times.length, grid.times[0]], [1000, 61, from]);
  const rows = Array.from({ length: 20 }, (_, i) => ({ key: String(i), bucket: toIso(from + i * 1000), value: i }));
  const lines = linesOf(rows, grid, (r) => ({ ...r, label: r.key }), 3);
  assert.deepEqual(lines.map((l) => l.label), ['19', '18', '17', 'others']);
  assert.equal(lines.flatMap((l) => [...l.values]).reduce((a, b) => a + b, 0), 190);
  assert.equal(lines[0].values[19], 19);
  const outside = linesOf([{ bucket: toIso(from - 1e6), value: 5 }, { bucket: toIso(from + 1e9), value: 6 }], grid, (r) => ({ ...r, key: '', label: '' }));
  assert.deepEqual([outside[0].values[0], outside[0].values[60]], [5, 6], 'what is beside the range is at its ends');
  assert.deepEqual(gridOf(NaN, 1).times, []);
  assert.ok(gridOf(0, 1e15).times.length <= 120);
});
test('fields of an event: whole numbers beyond 2^53 are as they were sent', () => {
  assert.deepEqual(fieldsOf('{"a":18446744073709551615,"b":-9223372036854775808,"c":9007199254740991,"d":0.1234567890123456789,"e":1e300,"f":[18446744073709551615,"18446744073709551615, \\" 9007199254740993"],"9007199254740993":1}'),
    { a: '18446744073709551615', b: '-9223372036854775808', c: 9007199254740991, d: 0.12345678901234568, e: 1e300, f: ['18446744073709551615', '18446744073709551615, " 9007199254740993'], '9007199254740993': 1 });
  assert.throws(() => fieldsOf('{'));
});
test('SQL: texts of a link cannot leave their quotes', () => {
  assert.equal(sqlText("a'b\0' OR 1=1 --"), "'a''b'' OR 1=1 --'");
  assert.equal(sqlRange({}), 'NULL, NULL');
  assert.equal(sqlRange({ from: "x')", to: '2024-05-03T10:00:00Z' }), "time_ns('x'')'), time_ns('2024-05-03T10:00:00Z') + 1");
});
test('SQL: buckets are of the range, whose end is included, and have no hole', () => {
  const from = Date.UTC(2024, 4, 3, 10), grid = gridOf(from + 500, from + 10_500, 5), rows = [...bucketsSql(grid, { from: 'F', to: 'T' }).matchAll(/\((\d+), ([^(),]+(?:\([^)]*\))?), ([^(),]+(?:\([^)]*\))?(?: \+ 1)?)\)/g)].map((m) => m.slice(1));
  assert.deepEqual(rows.map((r) => r[0]), [0, 2, 4, 6, 8, 10].map((s) => `${from + s * 1000}000000`));
  assert.deepEqual([rows[0][1], rows[5][2]], ["time_ns('F')", "time_ns('T') + 1"]);
  rows.slice(1).forEach((r, i) => assert.equal(r[1], rows[i][2], 'a bucket begins where the one before it ends'));
  assert.match(bucketsSql(grid, {}), new RegExp(`VALUES \\(${from}000000, ${from}000000, `), 'without a range the buckets are whole');
});
test('instructions per cycle: of buckets with cycles', () => {
  const from = Date.UTC(2024, 4, 3), grid = gridOf(from, from + 20_000, 2), bucket = toIso(from);
  assert.deepEqual(ipcOf([{ bucket, counter: 'InstructionRetired', value: 30 }, { bucket, counter: 'TotalCycles', value: 20 }, { bucket, counter: null, value: 7 }], grid)[0].values, [1.5, 0, 0]);
  assert.deepEqual(ipcOf([{ bucket, counter: 'TotalCycles', value: 20 }], grid), []);
});
test('SQL: names in a statement, but not in its texts and comments', () => {
  assert.deepEqual([...namesIn(`SELECT a, "Process/Start"."b" FROM "x""y" -- c\n/* d */ WHERE e = 'f ''g'' h'`)], ['SELECT', 'a', 'Process/Start', 'b', 'FROM', 'x"y', 'WHERE', 'e']);
  assert.deepEqual(['pid', 'Process/Start', 'a"b', '1a'].map((n) => quoted(n)), ['pid', '"Process/Start"', '"a""b"', '"1a"']);
  const tables = new Map([['hosts', ['host', 'events']], ['processes', ['host', 'pid']], ['Process/Start', ['pid', '__proto__']]]);
  assert.deepEqual(tablesIn('select * from HOSTS', tables), ['hosts']);
  assert.deepEqual(choicesFor('SELECT  FROM hosts, "Process/Start"', tables, false).map((c) => c.apply), ['host', 'events', 'pid', '__proto__', 'hosts', 'processes', '"Process/Start"']);
  assert.equal(choicesFor('', tables, true)[0].apply, '"hosts"');
  const long = '"'.repeat(20_001);
  const begin = Date.now();
  namesIn(long + "'".repeat(20_000) + '/*'.repeat(10_000));
  assert.ok(Date.now() - begin < 2000, `a long statement of quotation marks takes ${Date.now() - begin} ms`);
});

const leaf = (name: string, value: number, children: Frame[] = []): Frame => ({ name, value, self: value - children.reduce((n, c) => n + c.value, 0), other: 2 * value, children });
// main (10) calls work (7), which calls itself (4) and read (2); main calls read (1), too
const tree = leaf('all', 10, [leaf('m!main', 10, [leaf('m!work', 7, [leaf('m!work', 4, [leaf('k!read', 1)]), leaf('k!read', 2)]), leaf('k!read', 1)])]);
test('flame graph: a search counts the outermost frames alone', () => {
  assert.deepEqual(found(tree, 'WORK'), { value: 7, other: 14, names: 1 });
  assert.deepEqual(found(tree, 'm!'), { value: 10, other: 20, names: 2 });
  assert.deepEqual(found(tree, 'read'), { value: 4, other: 8, names: 1 });
  assert.deepEqual(found(tree, 'all'), { value: 0, other: 0, names: 0 }, 'the root is no function');
  assert.ok(!fits('anything', '') && fits('a.*b', '.*'), 'a search is no pattern');
});
test('flame graph: callers and callees have the same sum', () => {
  const { callers, callees } = around(tree, 'm!work');
  assert.deepEqual([callers.value, callees.value, callees.self], [7, 7, 1]);
  assert.deepEqual(callers.children.map((c) => [c.name, c.value]), [['m!main', 7]]);
  assert.deepEqual(callees.children.map((c) => [c.name, c.value]), [['m!work', 4], ['k!read', 2]], 'the greatest first');
  const read = around(tree, 'k!read');
  assert.deepEqual([read.callers.value, read.callees.value], [4, 4]);
  assert.deepEqual(read.callers.children.map((c) => [c.name, c.value]), [['m!work', 3], ['m!main', 1]]);
  assert.deepEqual(around(tree, 'nothing').callees.value, 0);
});
test('flame graph: names are keys of no object', () => {
  const odd = leaf('all', 3, [leaf('__proto__', 2, [leaf('constructor', 1)]), leaf('constructor', 1)]);
  assert.equal(around(odd, 'constructor').callers.value, 2);
  assert.equal(found(odd, '__proto__').value, 2);
});
