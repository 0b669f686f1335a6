// .NET: how long processes were paused for collections, each collection of one of them, and the methods whose compilation took longest.
import { sqlRange, sqlText, useSql, type SqlValue } from './api';
import { bytes, Costly, count, duration, HostLink, Link, Notice, ProcessLink, Search, Table, type Column } from './parts';
import { rangeOf, shortTime, type Range, type View } from './state';

const ROWS = 100;

export interface Collected { host: string; stream: string | null; instance: number | null; pid: number | null; image_name: string | null; collections: number; pause_ns: number | null; max_ns: number | null; full: number }
interface Collection { begin: string; number: number | null; generation: SqlValue; reason: SqlValue; type: SqlValue; ns: number | null; pause_ns: number | null; suspension_ns: number | null; before_bytes: number | null; after_bytes: number | null }
interface Method { method: string | null; times: number; ns: number | null; il_bytes: number | null; native_bytes: number | null; tier: SqlValue }

/** The statement of the processes that were paused longest, of a machine or of all. */
export const processesSql = (host: string, range: Range, rows: number) => `SELECT g.host, p.stream, p.instance, g.pid, coalesce(p.image_name, g.image) AS image_name, count(*) AS collections, sum(g.pause_ns) AS pause_ns, max(g.pause_ns) AS max_ns,
  sum(g.generation = 2) AS full FROM gc_pauses(${sqlRange(range)}) g LEFT JOIN processes p ON p.process_key = g.process_key WHERE ${host ? `g.host = ${sqlText(host)}` : '1'}
  GROUP BY g.host, g.process_key, g.pid ORDER BY pause_ns DESC LIMIT ${rows}`;

const ofOne = (view: View, of: string) => `${of}.host = ${sqlText(view.host ?? '')} AND ${of}.pid = ${sqlText(view.pid ?? '')} + 0`;
const number = <R,>(title: string, show: (r: R) => string): Column<R> => ({ title, right: true, show });

function OneProcess({ view }: { view: View }) {
  const range = sqlRange(rangeOf(view)), kept = { range: view.range, from: view.from, to: view.to };
  const s = useSql<Collection>(`SELECT time_text(g.begin) AS begin, g.number, g.generation, g.reason, g.type, g.ns, g.pause_ns, g.suspension_ns, g.before_bytes, g.after_bytes FROM gc_pauses(${range}) g WHERE ${ofOne(view, 'g')} ORDER BY g.pause_ns DESC LIMIT ${ROWS}`);
  const methods = useSql<Method>(`SELECT j.method, count(*) AS times, sum(j.own_ns) AS ns, sum(j.il_bytes) AS il_bytes, sum(j.native_bytes) AS native_bytes, group_concat(DISTINCT j.tier) AS tier FROM jit_methods(${range}) j WHERE ${ofOne(view, 'j')} GROUP BY j.method ORDER BY ns DESC LIMIT ${ROWS}`);
  return <>
    <p class="links"><Link to={{ page: 'profile', host: view.host, pid: view.pid, ...kept }}>Its flame graph</Link><Link to={{ page: 'waits', host: view.host, pid: view.pid, ...kept }}>Its waits</Link><Link to={{ page: 'host', host: view.host, ...kept }}>{view.host}</Link></p>
    <section><h2>Collections</h2><Notice state={s} empty="no collection of it is recorded in this range" />
      {s.data?.items.length ? <Table label="Collections" rows={s.data.items} columns={[{ title: 'Begin', show: (r) => shortTime(r.begin) }, { title: 'Number', name: 'number', right: true }, { title: 'Generation', name: 'generation', right: true }, { title: 'Reason', name: 'reason' }, { title: 'Type', name: 'type' },
        number<Collection>('Took', (r) => duration(r.ns ?? 0)), number<Collection>('Paused', (r) => duration(r.pause_ns ?? 0)), number<Collection>('of it until all threads stopped', (r) => duration(r.suspension_ns ?? 0)), number<Collection>('Heap before', (r) => bytes(r.before_bytes)), number<Collection>('Heap after', (r) => bytes(r.after_bytes))]} /> : null}</section>
    <section><h2>Compiled methods</h2><Notice state={methods} empty="no compilation of it is recorded in this range" />
      {methods.data?.items.length ? <Table label="Compiled methods" rows={methods.data.items} columns={[{ title: 'Method', name: 'method', mono: true }, number<Method>('Times', (r) => count(r.times)), number<Method>('Time', (r) => duration(r.ns ?? 0)), { title: 'Tiers', name: 'tier' }, number<Method>('Intermediate code', (r) => bytes(r.il_bytes)), number<Method>('Native code', (r) => bytes(r.native_bytes))]} /> : null}</section>
  </>;
}

function Processes({ view }: { view: View }) {
  const s = useSql<Collected>(processesSql(view.host ?? '', rangeOf(view), ROWS)), kept = { range: view.range, from: view.from, to: view.to };
  return <section><h2>Processes</h2><Notice state={s} empty="no collection is recorded in this range" />
    {s.data?.items.length ? <Table label="Processes" rows={s.data.items} view={view} columns={[{ title: 'Process', show: (r) => <ProcessLink row={r} view={view}>{r.image_name || `pid ${r.pid ?? 'unknown'}`}</ProcessLink> }, { title: 'Id', name: 'pid', right: true }, { title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> },
      number<Collected>('Collections', (r) => count(r.collections)), number<Collected>('of generation 2', (r) => count(r.full)), { title: 'Paused', right: true, show: (r) => <Link to={{ page: 'dotnet', host: r.host, pid: r.pid, ...kept }}>{duration(r.pause_ns ?? 0)}</Link> }, number<Collected>('Longest', (r) => duration(r.max_ns ?? 0))]} /> : null}</section>;
}

export function Dotnet({ view }: { view: View }) {
  return <>
    <h1>.NET</h1>
    <p class="note">Exact times of garbage collections: how long all threads of a process were paused. A time leads to the collections of its process.</p>
    <div class="tools"><Search name="host" label="Machine (none: all)" view={view} placeholder="the whole name" hotkey="/" /><Search name="pid" label="Process id (none: all)" view={view} /></div>
    <Costly view={view}>{view.host && view.pid ? <OneProcess view={view} /> : <Processes view={view} />}</Costly>
  </>;
}
