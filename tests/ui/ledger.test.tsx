// The ledger as a picture: widths, sums, what does not balance; gaps on a line of time.
import { address, document, settled } from './dom.ts';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { render, type ComponentChild } from 'preact';
import type { Item } from '../../collector/web/ui/src/api.ts';
import { GapLine, LedgerFlow, pictureOf } from '../../collector/web/ui/src/ledger.tsx';
import { layout } from '../../collector/web/ui/src/sankey.tsx';
import { go, useView } from '../../collector/web/ui/src/state.ts';

const LINK = (counter: string) => ({ page: 'queries', sql: counter });
const book = (values: Record<string, number | bigint>, stored: number | null = null, both: number | null = null) => pictureOf(
  { values: new Map(Object.entries(values).map(([c, n]) => [c, BigInt(n)])), stored: stored === null ? null : BigInt(stored), both: both === null ? null : BigInt(both) }, LINK, { page: 'events' });
// 1000 delivered = 700 + 10 + 200 + 50 + 30 + 10, and 720 = 600 + 40 + 60 + 20
const GOOD = { events_delivered: 1000, events_batched: 700, events_pending: 10, events_filtered: 200, events_sampled_out: 50, events_aggregated: 30, events_dropped_full: 10,
  events_synthesised: 20, events_acknowledged: 600, events_unanswered: 40, events_spooled: 60, events_evicted_size: 20 };
async function shown(what: ComponentChild) {
  render(null, document.body);
  render(what, document.body);
  await settled();
}
const all = (selector: string) => [...document.querySelectorAll(selector)];

test('a picture of flows: widths are in proportion, and each place is as high as what flows through it', () => {
  const { places, flows } = book(GOOD, 630, 590), { boxes, ribbons, height } = layout(places, flows);
  const scale = ribbons[0].width / Number(ribbons[0].value);
  for (const r of ribbons) assert.ok(Math.abs(r.width - Number(r.value) * scale) < 1e-9, `${r.key} has ${r.width} for ${r.value}`);
  for (const b of boxes) {
    const into = ribbons.filter((r) => r.to === b.key), out = ribbons.filter((r) => r.from === b.key);
    for (const side of [into, out]) if (side.length) assert.ok(Math.abs(side.reduce((n, r) => n + r.width, 0) - b.height) < 1e-6, `${b.key}: ${side.map((r) => r.key).join()}`);
    assert.ok(b.y >= 0 && b.y + b.height <= height);
  }
  for (const [i, b] of boxes.entries()) for (const other of boxes.slice(i + 1)) if (b.column === other.column) assert.ok(b.y + b.height < other.y, `${b.key} is above ${other.key}`);
  assert.deepEqual(ribbons.filter((r) => r.from === 'events_delivered').map((r) => [r.key, Number(r.value)]),
    [['events_batched', 700], ['events_pending', 10], ['events_filtered', 200], ['events_sampled_out', 50], ['events_aggregated', 30], ['events_dropped_full', 10]], 'what is 0 is not drawn');
  assert.deepEqual(layout([], []), { boxes: [], ribbons: [], height: 4 });
});
test('a ledger that balances: the flows have the sums of its sides', () => {
  const { delivered, batched, flows, rows } = book(GOOD, 630, 590), sum = (from: string) => Number(flows.filter((f) => f.from === from).reduce((n, f) => n + f.value, 0n));
  assert.deepEqual([delivered, batched], [[1000n, 1000n], [720n, 720n]]);
  assert.deepEqual([sum('events_delivered'), sum('events_batched'), sum('events_acknowledged')], [1000, 720, 600]);
  assert.deepEqual(rows.slice(-3).map((r) => [r.key, r.value]), [['stored', 590n], ['elsewhere', 10n], ['unknown', 40n]]);
  assert.ok(!book(GOOD).flows.some((f) => f.from === 'events_acknowledged'), 'of a group of classes it is not known what is stored');
});
test('a ledger that does not balance: what is in no state, and what is in one too many', () => {
  const lacking = book({ ...GOOD, events_delivered: 1007 }), beyond = book({ ...GOOD, events_delivered: 993, events_spooled: 65 });
  assert.deepEqual(lacking.flows.filter((f) => f.value && f.label === 'in no state').map((f) => [f.from, f.value, f.tone]), [['events_delivered', 7n, 'lost']]);
  assert.deepEqual(beyond.places.filter((p) => p.over).map((p) => [p.key, p.over]), [['events_delivered', 7n], ['events_batched', 5n]]);
  assert.ok(!beyond.flows.some((f) => f.value && f.label === 'in no state'));
  const { boxes } = layout(beyond.places, beyond.flows), box = boxes.find((b) => b.key === 'events_delivered')!;
  assert.ok(Math.abs(box.overHeight / box.height - 7 / 1000) < 1e-9, 'the part beyond it is drawn');
});
test('numbers beyond 2^53 stay exact', () => {
  const { delivered, rows } = book({ events_delivered: 2n ** 64n + 1n, events_batched: 2n ** 64n, events_filtered: 1 });
  assert.deepEqual([delivered, rows[1].value], [[2n ** 64n + 1n, 2n ** 64n + 1n], 2n ** 64n + 1n]);
});

const HOSTILE = '<img src=x onerror=alert(1)>';
const WithView = () => <LedgerFlow view={useView()} />;
function answer(counts: Record<string, number>) {
  const asked: string[] = [];
  globalThis.fetch = ((_at: string, options: RequestInit) => {
    const { sql } = JSON.parse(options.body as string) as { sql: string };
    asked.push(sql);
    const table = sql.startsWith('SELECT family') ? { names: ['family'], rows: [['FileIo'], [HOSTILE]] } : { names: ['name', 'high', 'low'], rows: Object.entries(counts).map(([c, n]) => [c, Math.floor(n / 2 ** 32), n % 2 ** 32]) };
    return Promise.resolve({ ok: true, status: 200, text: () => Promise.resolve(JSON.stringify({ columns: table.names.map((name) => ({ name, type: 'TEXT' })), rows: table.rows, ending: 'whole' })) });
  }) as unknown as typeof fetch;
  return asked;
}
test('the picture of a machine: numbers, links to rows, the table, the balance', async () => {
  const asked = answer({ ...GOOD, runs: 2, wrong: 1, stored: 630, both: 590 });
  go({ page: 'ledger', host: "d'17", family: 'FileIo' });
  await shown(<WithView />);
  assert.ok(asked.every((sql) => sql.includes("host = 'd''17'")) && asked.filter((sql) => sql.includes("family = 'FileIo'")).length === 1, asked.join('\n'));
  go({ page: 'ledger' });
  await shown(<WithView />);
  assert.deepEqual(all('path[data-flow]').map((e) => [e.getAttribute('data-flow'), e.getAttribute('data-value')]).slice(0, 3), [['events_synthesised', '20'], ['events_batched', '700'], ['events_pending', '10']]);
  assert.equal(all('path[data-flow=stored]')[0].getAttribute('data-value'), '590');
  const link = all('.picture a').find((a) => a.getAttribute('aria-label') === 'filtered: 200 events')!;
  assert.match(new URLSearchParams(link.getAttribute('href')!.slice(2)).get('sql')!, /^SELECT host, stream, value FROM ledger_last WHERE family = '' AND counter = 'events_filtered'/);
  assert.deepEqual(all('.balance').map((e) => [e.getAttribute('data-left'), e.getAttribute('data-right')]), [['1000', '1000'], ['720', '720']]);
  assert.ok(document.body.textContent!.includes('1 of 2 runs do not balance'), 'errors of two runs that cancel each other are named');
  const rows = all('tbody tr').map((r) => [...r.children].map((c) => c.textContent));
  assert.equal(rows.length, 26);
  assert.deepEqual(rows.filter((r) => r[1] === 'events_dropped_full'), [['dropped: pipeline full', 'events_dropped_full', '10']]);
  assert.deepEqual(all('option').map((o) => o.textContent), ['all events', 'FileIo', HOSTILE]);
  assert.equal(all('img, script, [style]').length, 0);
  assert.deepEqual(address(), { page: 'ledger' });
});
test('gaps over time: a row each with its cause in words; a period without a known end reaches to the side', async () => {
  const gap = (more: object) => ({ host: HOSTILE, stream: 's', kind: 'batches', cause: 'missing', batches: 1, events: null, at_least: null, counted: 0, records: 0, begin: '2024-05-03T10:00:00.0000000Z', end: '2024-05-03T10:00:10.0000000Z', ...more }) as unknown as Item<'gaps'>;
  await shown(<GapLine view={{}} gaps={[gap({}), gap({ begin: '2024-05-03T10:00:20.0000000Z', end: null, kind: 'recorded', cause: 'RTLostEvent', events: 7 }), gap({ kind: 'counted', records: 2 })]} />);
  const bars = all('.gaps rect'), at = (e: Element, name: string) => Number(e.getAttribute(name));
  assert.equal(bars.length, 2, 'a count whose times are in records is no period');
  assert.equal(at(bars[1], 'x') + at(bars[1], 'width'), 1000, 'no known end');
  assert.ok(Math.abs(at(bars[0], 'width') - (at(bars[1], 'x') - at(bars[0], 'x')) / 2) < 0.2, 'ten of twenty seconds');
  assert.deepEqual(all('.gaps a').map((a) => a.getAttribute('aria-label')), [`${HOSTILE}: batches have not come; from 2024-05-03 10:00:00.000 to 2024-05-03 10:00:10.000; events: unknown`,
    `${HOSTILE}: events lost, by a record of Windows; from 2024-05-03 10:00:20.000 to an unknown time; events: 7`]);
  assert.equal(all('img').length, 0);
  await shown(<GapLine view={{}} gaps={[gap({ begin: null, end: null })]} />);
  assert.equal(all('svg').length, 0, 'without a known time there is no line');
});
