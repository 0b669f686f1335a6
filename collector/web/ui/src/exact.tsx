// Host: exact times over time. Running, ready and waiting threads and context switches; interrupts; collections of .NET; hardware counters. Each
// chart is the answer to a statement, whose tables sum what happened between two moments: one row of moments for each bucket.
import { useMemo } from 'preact/hooks';
import { sqlText, useSql, type SqlValue } from './api';
import { Chart, gridOf, linesOf, type Grid, type Line, type Part } from './chart';
import { closedRangeOf, type Range, type View } from './state';

const PARTS = 20; // each bucket is a question of its own to the events

const ns = (ms: number) => `${BigInt(Math.round(ms))}000000`;
/** The buckets as a table b(at, lo, hi): where each begins, and what of it is in the range, whose end is included. */
export function bucketsSql(grid: Grid, { from, to }: Range) {
  const rows = grid.times.map((at, i) => `(${ns(at)}, ${i || !from ? ns(at) : `time_ns(${sqlText(from)})`}, ${i + 1 < grid.times.length || !to ? ns(at + grid.width) : `time_ns(${sqlText(to)}) + 1`})`);
  return `WITH b(at, lo, hi) AS (VALUES ${rows.join(', ')}) SELECT time_text(b.at) AS bucket, `;
}

interface OfProcess { bucket: string; process_key: SqlValue; pid: number | null; image: string | null }
type Times = OfProcess & { running_ns: number; ready_ns: number; waiting_ns: number; switches: number };
interface Interrupt { bucket: string; kind: string; ns: number }
type Pause = OfProcess & { pause_ns: number };
interface Counted { bucket: string; counter: string | null; value: number }
const NO_TIMES: readonly Times[] = [], NO_INTERRUPTS: readonly Interrupt[] = [], NO_PAUSES: readonly Pause[] = [], NO_COUNTS: readonly Counted[] = [];

const part = (r: OfProcess, value: number): Part => ({ key: `${r.process_key}/${r.pid}`, label: r.pid === null ? 'unknown' : `${r.image ?? 'pid'} ${r.pid}`, bucket: r.bucket, value });
/** Instructions per cycle in each bucket that has cycles. */
export function ipcOf(rows: readonly Counted[], grid: Grid): Line[] {
  const sum = (counter: string) => linesOf(rows.filter((r) => r.counter === counter), grid, (r) => ({ key: '', label: '', bucket: r.bucket, value: r.value }))[0]?.values;
  const instructions = sum('InstructionRetired'), cycles = sum('TotalCycles');
  return instructions && cycles ? [{ label: 'instructions per cycle', values: instructions.map((n, i) => (cycles[i] ? n / cycles[i] : 0)) }] : [];
}

export function Exact({ view, host, from, to, dark, at, onAt }: { view: View; host: string; from: number; to: number; dark: boolean; at: number; onAt: (ms: number) => void }) {
  const grid = useMemo(() => gridOf(from, to, PARTS), [from, to]), range = closedRangeOf(view), b = bucketsSql(grid, range);
  const ask = (columns: string, table: string, where: string, group: string) => `${b}${columns} FROM b, ${table}(b.lo, b.hi) t WHERE t.host = ${sqlText(host)}${where} GROUP BY b.at, ${group}`;
  const process = 't.process_key, t.pid, t.image', ofProcess = 't.process_key, t.pid';
  const times = useSql<Times>(ask(`${process}, sum(t.running_ns) AS running_ns, sum(t.ready_ns) AS ready_ns, sum(t.waiting_ns) AS waiting_ns, sum(t.switches) AS switches`, 'thread_times', ' AND t.pid IS NOT 0', ofProcess));
  const interrupts = useSql<Interrupt>(ask('t.kind, sum(t.ns) AS ns', 'interrupt_times', '', 't.kind'));
  const pauses = useSql<Pause>(`${b}${process}, sum(t.pause_ns) AS pause_ns FROM b, gc_pauses() t WHERE t.host = ${sqlText(host)} AND t.begin >= b.lo AND t.begin < b.hi GROUP BY b.at, ${ofProcess}`);
  const counts = useSql<Counted>(ask('t.counter, sum(t.value) AS value', 'thread_counters', ' AND t.tid IS NOT 0', 't.counter'));
  const t = times.data?.items ?? NO_TIMES, i = interrupts.data?.items ?? NO_INTERRUPTS, g = pauses.data?.items ?? NO_PAUSES, c = counts.data?.items ?? NO_COUNTS;
  const lines = useMemo(() => {
    const of = (value: (r: Times) => number) => linesOf(t, grid, (r) => part(r, value(r)));
    return { running: of((r) => r.running_ns), ready: of((r) => r.ready_ns), waiting: of((r) => r.waiting_ns), switches: of((r) => r.switches) };
  }, [t, grid]);
  const kinds = useMemo(() => linesOf(i, grid, (r) => ({ key: r.kind, label: r.kind.replace('_', ' ').toUpperCase(), bucket: r.bucket, value: r.ns })), [i, grid]);
  const still = useMemo(() => linesOf(g, grid, (r) => part(r, r.pause_ns)), [g, grid]);
  const counters = useMemo(() => linesOf(c, grid, (r) => ({ key: r.counter ?? '', label: r.counter ?? 'unknown counter', bucket: r.bucket, value: r.value })), [c, grid]);
  const ipc = useMemo(() => ipcOf(c, grid), [c, grid]);
  const shared = { grid, from, to, dark, at, onAt };
  return <div class="charts">
    <Chart title="Threads running" state={times} lines={lines.running} unit="ns" stacked {...shared} />
    <Chart title="Threads ready, but no processor was free" state={times} lines={lines.ready} unit="ns" stacked {...shared} />
    <Chart title="Threads waiting" state={times} lines={lines.waiting} unit="ns" stacked {...shared} />
    <Chart title="Context switches" state={times} lines={lines.switches} per={grid.width / 1000} stacked {...shared} />
    <Chart title="Interrupts: DPC and ISR" state={interrupts} lines={kinds} unit="ns" stacked {...shared} />
    <Chart title="Garbage collection: threads paused" state={pauses} lines={still} unit="ns" stacked {...shared} />
    <Chart title="Hardware counters" state={counts} lines={counters} {...shared} />
    {ipc.length > 0 && <Chart title="Instructions per cycle" state={counts} lines={ipc} {...shared} />}
  </div>;
}
