// Programs: the tables of results of programs that agents run (watch: of their configurations), each with its rows and a chart over time.
import { useMemo } from 'preact/hooks';
import { fieldsOf, url, useApi, type Item } from './api';
import { Chart, gridOf, type Grid, type Line } from './chart';
import { Costly, count, Export, HostLink, Link, Notice, Search, Table, text, type Column } from './parts';
import { useTimes } from './range';
import { closedRangeOf, shortTime, toMs, type View } from './state';

const MOST_ROWS = 10000, SHOWN_ROWS = 500, LINES = 6, LABEL_LENGTH = 80;

const PARTS = ['from', 'to', 'value']; // of a value: no keys
const LARGE = /^-?\d{16,20}$/; // a number beyond 2^53, which is a text

interface Result { host: string; time: string; names: readonly string[]; cells: readonly unknown[] }

/** A row of a table of results: what follows the columns tick and others. null: it is no object. */
function resultOf(r: Item<'queries/watch-results'>): Result | null {
  try {
    const { tick: _tick, others, ...rest } = fieldsOf(r.fields) as Record<string, unknown>, names = Object.keys(rest), at = valueAt(names);
    return { host: r.host, time: r.time, names, cells: Object.values(rest).map((v, i) => (others && i < at && !PARTS.includes(names[i]) ? '(others)' : v)) };
  } catch {
    return null;
  }
}
/** Where the value is that a line shows: what precedes it are keys. With stddev come avg and count, with avg count; of top the count is before over. */
function valueAt(names: readonly string[]) {
  const n = names.length, last = names[n - 1];
  return last === 'over' ? n - 2 : last === 'count' && names[n - 3] === 'stddev' ? n - 3 : last === 'count' && names[n - 2] === 'avg' ? n - 2 : n - 1;
}
const written = (v: unknown) => (typeof v === 'number' ? (Number.isInteger(v) ? String(v) : v.toPrecision(6)) : v === null || v === undefined ? '' : text(v));

/** The lines with the greatest values: of each key, and of each machine where there are several, what was printed last in each step. */
function linesOf(rows: readonly Result[], grid: Grid): Line[] {
  const hosts = new Set(rows.map((r) => r.host)).size, lines = new Map<string, number[]>(), taken = new Map<string, Set<number>>();
  for (const r of rows) { // the newest first
    const at = valueAt(r.names), value = Number(r.cells[at]), bucket = Math.round((toMs(r.time) - grid.times[0] - grid.width / 2) / grid.width);
    if (Number.isNaN(value) || !(bucket >= 0 && bucket < grid.times.length)) continue;
    const label = [...(hosts > 1 ? [r.host] : []), ...r.cells.slice(0, at).map(written)].join(', ').slice(0, LABEL_LENGTH) || r.names[at];
    const values = lines.get(label) ?? new Array<number>(grid.times.length).fill(0), seen = taken.get(label) ?? new Set();
    lines.set(label, values);
    taken.set(label, seen);
    if (!seen.has(bucket)) values[bucket] = value;
    seen.add(bucket);
  }
  return [...lines].map(([label, values]) => ({ label, values })).sort((a, b) => Math.max(...b.values) - Math.max(...a.values)).slice(0, LINES);
}
/** Steps that are not narrower than the program's ticks. */
function gridFor(rows: readonly Result[], from: number, to: number): Grid {
  const times = [...new Set(rows.map((r) => toMs(r.time)))].sort((a, b) => a - b), gaps = times.slice(1).map((t, i) => t - times[i]).sort((a, b) => a - b);
  const grid = gridOf(from, to), width = Math.ceil(Math.max(grid.width, gaps[gaps.length >> 1] ?? 0)), first = Math.floor(from / width) * width;
  return width === grid.width ? grid : { width, times: Array.from({ length: Math.floor((to - first) / width) + 1 }, (_, i) => first + i * width) };
}

function Results({ view, table, dark }: { view: View; table: string; dark: boolean }) {
  const params = { host: view.host, ...closedRangeOf(view), program: table.replace(/^watch_/, '') };
  const answer = useApi(url('queries/watch-results', { ...params, limit: MOST_ROWS }), 10000), times = useTimes(view);
  const rows = useMemo(() => (answer.data?.items ?? []).filter((r) => r.table === table).map(resultOf).filter((r) => r !== null), [answer.data, table]);
  const names = rows[0]?.names ?? [];
  const grid = useMemo(() => gridFor(rows, times?.from ?? NaN, times?.to ?? NaN), [rows, times?.from, times?.to]);
  const lines = useMemo(() => linesOf(rows, grid), [rows, grid]);
  const isNumber = names.map((_, i) => rows.some((r) => typeof r.cells[i] === 'number' || LARGE.test(written(r.cells[i]))));
  const columns: readonly Column<Result>[] = [{ title: 'Time', show: (r) => shortTime(r.time) }, { title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> },
    ...names.map((title, i): Column<Result> => ({ title, right: isNumber[i], mono: !isNumber[i], show: (r) => written(r.cells[i]) }))];
  return <>
    {answer.data?.next && <p class="notice">the newest {count(MOST_ROWS)} rows of the program; SQL has all</p>}
    {isNumber[valueAt(names)] && <Chart title="Over time" state={answer} grid={grid} lines={lines} from={times?.from ?? 0} to={times?.to ?? 0} dark={dark} />}
    <section><h2>Rows{rows.length ? <small> {rows.length > SHOWN_ROWS ? `the newest ${SHOWN_ROWS} of ${count(rows.length)}` : rows.length}</small> : ''}</h2>
      <p class="export"><Export path="queries/watch-results" params={params} /></p>
      <Notice state={answer} empty="nothing in this range" />
      {rows.length ? <Table label="Rows" columns={columns} rows={rows.slice(0, SHOWN_ROWS)} view={view} of={answer.address} /> : null}</section>
  </>;
}

function Tables({ view, dark }: { view: View; dark: boolean }) {
  const list = useApi(url('queries/watch-tables', { host: view.host, ...closedRangeOf(view), limit: 1000 }), 30000), tables = list.data?.items ?? [];
  const chosen = tables.find((t) => t.table === view.table)?.table ?? tables[0]?.table;
  return <>
    <Notice state={list} empty="no program has given results in this range; watch: of a session in etwagent.yaml has programs" />
    {tables.length ? <Table label="Tables" rows={tables} view={view} columns={[
      { title: 'Table', show: (t) => <Link to={{ ...view, table: t.table }} aria-current={t.table === chosen ? 'page' : undefined}>{t.table}</Link> },
      { title: 'Machines', right: true, show: (t) => count(t.hosts) }, { title: 'Rows', right: true, show: (t) => count(t.row_count) }, { title: 'Last', show: (t) => shortTime(t.last) }]} /> : null}
    {chosen && <Results view={view} table={chosen} dark={dark} />}
  </>;
}

export function Programs({ view, dark }: { view: View; dark: boolean }) {
  return <>
    <h1>Programs</h1>
    <p class="note">What programs of the query language print that agents run on their events. The chart has the {LINES} lines with the greatest values; of several prints in a step it shows the last one.</p>
    <div class="tools"><Search name="host" label="Machine (none: all)" view={view} placeholder="the whole name" hotkey="/" /></div>
    <Costly view={view}><Tables view={view} dark={dark} /></Costly>
  </>;
}
