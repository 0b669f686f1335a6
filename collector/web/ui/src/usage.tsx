// CPU and waits: how long threads ran, were ready and waited, for what, and who ended it. Disk: requests, bytes and how long they took. Each number leads to the stacks.
import { useMemo } from 'preact/hooks';
import { url, useApi, type Item } from './api';
import { Chart, gridOf, linesOf, type Part } from './chart';
import { bytes, Costly, count, duration, HostLink, Link, Search, type Column } from './parts';
import { Section } from './pages';
import { useTimes } from './range';
import { closedRangeOf, rangeOf, type View } from './state';

const ROWS = 100;

type Times = Item<'queries/thread-times'>;
type Waited = Item<'queries/thread-waits'>;
type Woken = Item<'queries/thread-wakes'>;
type Sums = Item<'queries/process-times'>;
type Used = Item<'queries/top-processes-by-disk'>;
type OfFile = Item<'queries/disk-files'>;

interface Who { host: string | null; pid: number | null; image_name: string | null }
const kept = (view: View) => ({ range: view.range, from: view.from, to: view.to });
const number = <R,>(title: string, show: (r: R) => string): Column<R> => ({ title, right: true, show });
/** A number whose stacks a profile has. */
const stacks = <R extends Who>(view: View, title: string, weight: string, show: (r: R) => string): Column<R> =>
  ({ title, right: true, show: (r) => <Link to={{ page: 'profile', host: r.host, pid: r.pid, weight, ...kept(view) }}>{show(r)}</Link> });
/** A process; it leads to the same page of this process alone. */
const whose = <R extends Who>(view: View, page: string): readonly Column<R>[] => [{ title: 'Process', show: (r) => <Link to={{ page, host: r.host, pid: r.pid, ...kept(view) }}>{r.image_name || `pid ${r.pid ?? 'unknown'}`}</Link> },
  { title: 'Id', name: 'pid', right: true }, { title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> }];
const Choice = ({ view }: { view: View }) => <div class="tools"><Search name="host" label="Machine (none: all)" view={view} placeholder="the whole name" hotkey="/" /><Search name="pid" label="Process id (none: all)" view={view} /></div>;

export function Waits({ view }: { view: View }) {
  const params = { host: view.host, ...rangeOf(view), limit: ROWS }, one = { ...params, pid: view.pid };
  return <>
    <h1>CPU and waits</h1>
    <p class="note">Exact times, from context switches and ready threads. Ready: a thread could run, and no processor was free. A time leads to its stacks: where it ran, where it became ready, where it waited.</p>
    <Choice view={view} />
    <Costly view={view}>
      {view.pid ? <>
        <Section view={view} title="Threads" address={url('queries/thread-times', one)} empty="no context switch of it is recorded in this range" columns={[...whose<Times>(view, 'waits'), { title: 'Thread', name: 'tid', right: true },
          stacks<Times>(view, 'Running', 'cpu', (r) => duration(r.running_ns ?? 0)), stacks<Times>(view, 'Ready', 'ready', (r) => duration(r.ready_ns ?? 0)), stacks<Times>(view, 'Waiting', 'wait', (r) => duration(r.waiting_ns ?? 0)),
          number<Times>('Switches', (r) => count(r.switches)), number<Times>('Without an end', (r) => duration(r.unfinished_ns ?? 0))]} />
        <Section view={view} title="What they waited for" address={url('queries/thread-waits', one)} columns={[...whose<Waited>(view, 'waits'), { title: 'Thread', name: 'tid', right: true }, { title: 'Reason', name: 'reason_name' },
          number<Waited>('Waits', (r) => count(r.count)), stacks<Waited>(view, 'Waited', 'wait', (r) => duration(r.ns ?? 0)), number<Waited>('Longest', (r) => duration(r.max_ns ?? 0)), number<Waited>('Without an end', (r) => duration(r.unfinished_ns ?? 0))]} />
        <Section view={view} title="Who ended their waits" address={url('queries/thread-wakes', one)} columns={[...whose<Woken>(view, 'waits'), { title: 'Thread', name: 'tid', right: true },
          { title: 'Woken by', show: (r) => <Link to={{ page: 'waits', host: r.host, pid: r.waker_pid, ...kept(view) }}>{r.waker_image || `pid ${r.waker_pid ?? 'unknown'}`}</Link> }, { title: 'Its thread', name: 'waker_tid', right: true },
          number<Woken>('Times', (r) => count(r.count)), stacks<Woken>(view, 'Waited', 'ready', (r) => duration(r.waited_ns ?? 0))]} /></>
        : <Section view={view} title="Processes" address={url('queries/process-times', params)} empty="no context switch is recorded in this range" columns={[...whose<Sums>(view, 'waits'), number<Sums>('Threads', (r) => count(r.threads)),
          stacks<Sums>(view, 'Running', 'cpu', (r) => duration(r.running_ns ?? 0)), stacks<Sums>(view, 'Ready', 'ready', (r) => duration(r.ready_ns ?? 0)), stacks<Sums>(view, 'Waiting', 'wait', (r) => duration(r.waiting_ns ?? 0)),
          number<Sums>('Switches', (r) => count(r.switches)), number<Sums>('Without an end', (r) => duration(r.unfinished_ns ?? 0))]} />}
    </Costly>
  </>;
}

type Requests = Item<'hosts/{host}/disk'>;
const NONE: readonly Requests[] = [];

/** Requests to the disks of a machine over time: how many, their bytes by process, and how long they took. */
function DiskCharts({ view, host, dark, from, to }: { view: View; host: string; dark: boolean; from: number; to: number }) {
  const grid = useMemo(() => gridOf(from, to), [from, to]), params = { host, ...closedRangeOf(view), every: grid.width + 'ms' };
  const state = useApi(url('hosts/{host}/disk', { ...params, limit: 10000 }), 0, true), all = state.data?.items ?? NONE;
  const items = useMemo(() => (view.pid ? all.filter((r) => String(r.pid) === view.pid) : all), [all, view.pid]);
  const by = (r: Requests, value: number): Part => ({ key: `${r.stream}/${r.instance ?? 'pid ' + r.pid}`, label: r.pid === null ? 'unknown' : `${r.image_name ?? 'pid'} ${r.pid}`, bucket: r.bucket, value, weight: r.reads + r.writes });
  const requests = useMemo(() => linesOf(items, grid, (r) => by(r, r.reads + r.writes)), [items, grid]), size = useMemo(() => linesOf(items, grid, (r) => by(r, r.value ?? 0)), [items, grid]);
  const times = useMemo(() => {
    const [took] = linesOf(items, grid, (r) => ({ key: '', label: 'mean', bucket: r.bucket, value: r.ns })), [number] = linesOf(items, grid, (r) => ({ key: '', label: '', bucket: r.bucket, value: r.reads + r.writes }));
    const longest = new Map<string | null, number>();
    for (const r of items) longest.set(r.bucket, Math.max(longest.get(r.bucket) ?? 0, r.max_ns));
    const [most] = linesOf([...longest], grid, ([bucket, value]) => ({ key: '', label: 'longest', bucket, value }));
    return took ? [most, { label: 'mean', values: took.values.map((ns, i) => (number.values[i] ? Math.round(ns / number.values[i]) : 0)) }] : [];
  }, [items, grid]);
  const shared = { state, grid, from, to, dark, csv: url('hosts/{host}/disk', { ...params, format: 'csv' }) };
  return <div class="charts"><Chart title="Requests" lines={requests} per={grid.width / 1000} stacked {...shared} /><Chart title="Bytes" lines={size} per={grid.width / 1000} stacked unit="B" {...shared} />
    <Chart title="How long requests took" lines={times} unit="ns" {...shared} /></div>;
}

const mean = (ns: number | null, n: number) => duration(n ? Math.round((ns ?? 0) / n) : 0);

export function Disk({ view, dark }: { view: View; dark: boolean }) {
  const times = useTimes(view), params = { host: view.host, ...rangeOf(view), limit: ROWS };
  return <>
    <h1>Disk</h1>
    <Choice view={view} />
    {view.host ? times && <DiskCharts view={view} host={view.host} dark={dark} {...times} /> : <p class="notice">with a machine: its requests over time</p>}
    <Costly view={view}>
      {!view.pid && <Section view={view} title="Processes" address={url('queries/top-processes-by-disk', params)} empty="no request to a disk is recorded in this range" columns={[...whose<Used>(view, 'disk'),
        number<Used>('Reads', (r) => count(r.reads)), number<Used>('Writes', (r) => count(r.writes)), number<Used>('Bytes', (r) => bytes(r.bytes)), stacks<Used>(view, 'Time', 'disk', (r) => duration(r.ns ?? 0)),
        number<Used>('Mean', (r) => mean(r.ns, (r.reads ?? 0) + (r.writes ?? 0))), number<Used>('Longest', (r) => duration(r.max_ns ?? 0))]} />}
      <Section view={view} title="Files" address={url('queries/disk-files', { ...params, pid: view.pid })} empty="no request to a disk is recorded in this range" columns={[{ title: 'File', mono: true, show: (r) => r.file ?? '(unknown)' }, { title: 'Operation', name: 'operation' },
        { title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> }, { title: 'Disk', name: 'disk', right: true }, number<OfFile>('Requests', (r) => count(r.count)), number<OfFile>('Bytes', (r) => bytes(r.bytes)), number<OfFile>('Time', (r) => duration(r.ns ?? 0)),
        number<OfFile>('Mean', (r) => mean(r.ns, r.count ?? 0)), number<OfFile>('Longest', (r) => duration(r.max_ns ?? 0))]} />
    </Costly>
  </>;
}
