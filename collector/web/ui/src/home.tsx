// Home: how much comes and from whom, who uses the machines most, and what is wrong. Each number leads to its rows.
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { url, useApi, useSql, type Address, type Answer, type Item } from './api';
import { Chart, gridOf, linesOf, type Part } from './chart';
import { Incidents, Section, TIME } from './pages';
import { processesSql, type Collected } from './dotnet';
import { bytes, Costly, count, duration, HostLink, Link, lossText, lostEvents, Notice, ProcessLink, Table, type Column } from './parts';
import { useTimes } from './range';
import { change, closedRangeOf, rangeOf, type Change, type View } from './state';

const TOP = 6, ROWS = 10;

type Load = Item<'load'>;
const NO_LOAD: readonly Load[] = [];

/** The rows of a group of machines. */
function groupLink(view: View, by: string, group: string): Change | undefined {
  const range = { range: view.range, from: view.from, to: view.to };
  return by === 'host' ? { page: 'host', host: group, ...range } : by ? { page: 'fleet', group: by, in: group, none: group ? '' : '1', ...range } : { page: 'events', ...range };
}

function Tiles({ f, view }: { f: Answer<'fleet'>; view: View }) {
  const range = { range: view.range, from: view.from, to: view.to };
  const tile = (n: string, what: string, to: Change, bad?: number | null) => <li class={bad ? 'bad' : ''}><Link to={to}><b>{n}</b> {what}</Link></li>;
  return <ul class="tiles">
    {tile(count(f.hosts), 'machines', { page: 'fleet' })}{tile(count(f.events), 'events', { page: 'events', ...range })}{tile(bytes(f.bytes), 'stored', { page: 'fleet', sort: 'bytes', descending: 1 })}
    {tile(count(f.silent), 'silent', { page: 'queries', query: 'silent-machines' }, f.silent)}{tile(count(f.incidents), 'incidents', { page: 'ledger' }, f.incidents)}{tile(count(f.alerts), 'alerts', { page: 'ledger' }, f.alerts)}
    {tile(count(f.missing_batches), 'batches missing', { page: 'queries', query: 'hosts-with-gaps' }, f.missing_batches)}{tile(count(f.lost_events), 'events lost at least', { page: 'queries', query: 'hosts-with-gaps' }, f.lost_events)}
  </ul>;
}

/** What came over time, of the groups with the most events. */
function LoadCharts({ view, dark, from, to }: { view: View; dark: boolean; from: number; to: number }) {
  const by = view.by ?? '', labels = useApi(url('fleet/labels', { limit: 1000 }));
  const grid = useMemo(() => gridOf(from, to), [from, to]), params = { ...closedRangeOf(view), every: grid.width + 'ms', by, top: TOP };
  const state = useApi(url('load', { ...params, limit: 10000 }), 0, true), items = state.data?.items ?? NO_LOAD;
  const of = (value: (r: Load) => number | null) => linesOf(items, grid, (r): Part => ({ key: r.group === null ? 'null' : '=' + r.group, bucket: r.bucket, value: value(r), weight: r.group === null ? -1 : r.events,
    label: r.group === null ? 'others' : r.group || (by ? '(none)' : 'all machines'), to: r.group === null ? undefined : groupLink(view, by, r.group) }), TOP + 1);
  const events = useMemo(() => of((r) => r.events), [items, grid]), size = useMemo(() => of((r) => r.bytes), [items, grid]);
  const shared = { state, grid, from, to, dark, per: grid.width / 1000, stacked: true, csv: url('load', { ...params, format: 'csv' }) };
  return <>
    <div class="tools"><label class="field"><span>Machines by</span><select value={by} onChange={(e) => change({ by: e.currentTarget.value })}>
      {[['', 'all together'], ['host', 'machine'], ['health', 'health'], ['agent_version', "agent's version"], ...(labels.data?.items ?? []).map((l) => ['labels.' + l.label, String(l.label)])].map(([v, t]) =>
        <option value={v}>{t}</option>)}</select></label></div>
    <div class="charts"><Chart title="Events" lines={events} {...shared} /><Chart title="Stored bytes" lines={size} {...shared} unit="B" /></div>
  </>;
}

interface Used { host: string | null; stream: string | null; instance: number | null; pid: number | null; image_name: string | null }
/** The processes of all machines that used the most of something. */
function Top<R extends Used>({ title, path, view, value }: { title: string; path: Address<{ items: R[]; next: string | null }>; view: View; value: Column<R> }) {
  return <Section view={view} title={title} address={path} empty="nothing is recorded in this range" columns={[{ title: 'Process', show: (r) => <ProcessLink row={r} view={view}>{r.image_name || `pid ${r.pid ?? 'unknown'}`}</ProcessLink> },
    { title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> }, value]} />;
}

/** The .NET processes of all machines that were paused longest for collections. */
function Collections({ view }: { view: View }) {
  const s = useSql<Collected>(processesSql('', rangeOf(view), ROWS));
  return <section><h2>Garbage collection</h2><Notice state={s} empty="no collection of .NET is recorded in this range" />
    {s.data?.items.length ? <Table label="Garbage collection" rows={s.data.items} view={view} columns={[{ title: 'Process', show: (r) => <ProcessLink row={r} view={view}>{r.image_name || `pid ${r.pid ?? 'unknown'}`}</ProcessLink> }, { title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> },
      { title: 'Paused for', right: true, show: (r) => <Link to={{ page: 'dotnet', host: r.host, pid: r.pid, range: view.range, from: view.from, to: view.to }}>{duration(r.pause_ns ?? 0)}</Link> }]} /> : null}</section>;
}

function TopProcesses({ view }: { view: View }) {
  const range = rangeOf(view), kept = { range: view.range, from: view.from, to: view.to };
  const number = (to: Change, text: ComponentChildren) => <Link to={{ ...to, ...kept }}>{text}</Link>;
  return <div class="charts">
    <Top title="Processor" path={url('queries/top-processes-by-cpu', { ...range, limit: ROWS })} view={view} value={{ title: 'Samples', right: true, show: (r) => number({ page: 'profile', host: r.host, pid: r.pid }, count(r.samples)) }} />
    <Top title="Disk" path={url('queries/top-processes-by-disk', { ...range, limit: ROWS })} view={view} value={{ title: 'Read and written', right: true, show: (r) => number({ page: 'disk', host: r.host, pid: r.pid }, bytes(r.bytes)) }} />
    <Top title="Network" path={url('queries/top-processes-by-network', { ...range, limit: ROWS })} view={view} value={{ title: 'Sent and received', right: true, show: (r) => number({ page: 'process', host: r.host, stream: r.stream, instance: r.instance }, bytes(r.bytes)) }} />
    <Top title="Waits" path={url('queries/process-times', { ...range, sort: 'waits', descending: 1, limit: ROWS })} view={view} value={{ title: 'Waits that it began', right: true, show: (r) => number({ page: 'waits', host: r.host, pid: r.pid }, count(r.waits)) }} />
    <Collections view={view} />
  </div>;
}

export function Home({ view, dark }: { view: View; dark: boolean }) {
  const fleet = useApi(url('fleet'), 5000), times = useTimes(view), range = rangeOf(view), f = fleet.data;
  return <>
    <h1>Home</h1>
    {f && <Tiles f={f} view={view} />}
    {times && <LoadCharts view={view} dark={dark} {...times} />}
    <Costly view={view}><TopProcesses view={view} /></Costly>
    <div class="charts">
      <Section view={view} title="New detections" every={10000} address={url('detections', { state: 'open', ...range, limit: ROWS })} empty="none is open" columns={[TIME('time', 'Time'), { title: 'Level', name: 'level' },
        { title: 'What', show: (r) => <Link to={{ page: 'detections', number: r.number }}>{r.title || r.rule}</Link> }, { title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> }]} />
      <Section view={view} title="Silent machines" every={10000} address={url('queries/silent-machines', { limit: ROWS })} columns={[{ title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> }, TIME('received_last', 'Last heard')]} />
      <Incidents view={view} what="Open incidents" params={{ open: 1, limit: ROWS }} />
      <Section view={view} title="Newest gaps" address={url('gaps', { ...range, limit: ROWS })} empty="nothing is missing" columns={[TIME('begin', 'From'), { title: 'Machine', show: (r) => <Link to={{ page: 'ledger', host: r.host }}>{r.host}</Link> },
        { title: 'What', show: lossText }, { title: 'Events', right: true, show: lostEvents }]} />
      <Section view={view} title="Versions" address={url('fleet/groups', { by: 'agent_version', limit: ROWS })} columns={[{ title: 'Agent', show: (r) => <Link to={groupLink(view, 'agent_version', r.group ?? '')!}>{r.group || '(unknown)'}</Link> },
        { title: 'Machines', name: 'hosts', right: true }, { title: 'Silent', name: 'silent', right: true }]} />
    </div>
  </>;
}
