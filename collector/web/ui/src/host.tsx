// Host: a timeline of processes as bars, the process tree at the cursor's time, and what used the machine.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { url, useApi, type Item } from './api';
import { Chart, gridOf, linesOf, type Part } from './chart';
import { Exact } from './exact';
import { Recorder } from './recorder';
import { Timeline } from './timeline';
import { bytes, Costly, count, Facts, isPeriod, Link, lostEvents, lossText, Notice, ProcessLink, Search } from './parts';
import { change, go, rangeOf, setRange, shortTime, toIso, toMs, type View } from './state';

type Process = Item<'hosts/{host}/processes'> & { begin_ms: number; end_ms: number };
type Used = Item<'hosts/{host}/cpu'> | Item<'hosts/{host}/disk'> | Item<'hosts/{host}/files'> | Item<'hosts/{host}/network'>;

// The processes alive at a moment, each after its parent.
function treeAt(list: readonly Process[], at: number) {
  const alive = list.filter((p) => p.begin_ms <= at && p.end_ms > at);
  const key = (stream: string | null, instance: number | null) => stream + '/' + instance;
  const known = new Set(alive.map((p) => key(p.stream, p.instance)));
  const children = new Map<string, Process[]>();
  for (const p of alive) {
    const k = p.parent_instance && p.parent_instance !== p.instance && known.has(key(p.stream, p.parent_instance)) ? key(p.stream, p.parent_instance) : '';
    children.set(k, [...(children.get(k) ?? []), p]);
  }
  const out: (Process & { depth: number })[] = [];
  const walk = (k: string, depth: number) => {
    for (const p of children.get(k) ?? []) {
      out.push({ ...p, depth });
      if (depth < 200) walk(key(p.stream, p.instance), depth + 1);
    }
  };
  walk('', 0);
  return out;
}

// What a process used, of the busiest ones; a number may be that of several processes in turn.
const usedBy = (r: Used): Part => ({ key: `${r.stream}/${r.instance ?? 'pid ' + r.pid}`, label: r.pid === null ? 'unknown' : `${r.image_name ?? 'pid'} ${r.pid}`, bucket: r.bucket, value: r.value });
const NO_USE: readonly Used[] = [];

export function Host({ view, dark }: { view: View; dark: boolean }) {
  const host = view.host ?? '';
  const info = useApi(url('hosts/{host}', { host }));
  const range = rangeOf(view), d = info.data;
  const list = useApi(url('hosts/{host}/processes', { host, ...range, limit: 10000 }));
  const gaps = useApi(url('hosts/{host}/gaps', { host, ...range, limit: 1000 }));
  const runs = useApi(url('hosts/{host}/streams', { host }));
  const first = toMs(d?.begin), last = toMs(d?.end);
  const from = range.from ? toMs(range.from) : first, to = range.to ? toMs(range.to) : last;
  const known = Number.isFinite(from) && Number.isFinite(to) && to > from;
  const [at, setAt] = useState(NaN), [exactIsOpen, openExact] = useState(false);
  const given = toMs(view.at);
  const written = useRef<string>(); // by us into the link: the cursor may be elsewhere again when that comes back
  useEffect(() => {
    if (Number.isFinite(given) && view.at !== written.current) {
      written.current = undefined;
      setAt(given);
    }
  }, [view.at]);
  const now = Number.isFinite(at) ? at : known ? from + (to - from) / 2 : 0;
  const settle = useRef<number>();
  useEffect(() => () => clearTimeout(settle.current), []);
  const moveTo = (ms: number) => {
    setAt(ms);
    clearTimeout(settle.current);
    settle.current = setTimeout(() => {
      written.current = toIso(ms);
      change({ at: written.current }, true);
    }, 250);
  };
  const processes = useMemo(() => {
    const ends = new Map<string | null, number>((runs.data?.items ?? []).map((s, i) => [s.stream, i ? toMs(s.end) : Infinity])); // newest first
    return (list.data?.items ?? []).map((p) => ({ ...p, begin_ms: toMs(p.begin), end_ms: p.end ? toMs(p.end) : ends.get(p.stream) ?? Infinity }));
  }, [list.data, runs.data]);
  const bars = useMemo(() => { // processes that began or ended in the range are above those that ran all the time
    const moves = (p: Process) => (p.begin_cause === 'start' && p.begin_ms >= from) || p.end_ms < to;
    return [...processes.filter(moves), ...processes.filter((p) => !moves(p))]
      .map((p) => ({ begin: p.begin_ms, end: Math.min(p.end_ms, to), name: p.image_name || String(p.pid), row_data: p }));
  }, [processes, from, to]);
  const moment = (ms: number) => (Number.isFinite(ms) ? toIso(ms).slice(11, 23) : 'an unknown time');
  const shaded = useMemo(() => (gaps.data?.items ?? []).filter(isPeriod).map((b) => ({ begin: b.begin ? toMs(b.begin) : -Infinity, end: b.end ? toMs(b.end) : Infinity })), [gaps.data]);
  const tree = useMemo(() => treeAt(processes, now), [processes, now]);
  const q = (view.q ?? '').toLowerCase();
  const shown: readonly (Process & { depth?: number })[] = q ? tree.filter((p) => `${p.image_name} ${p.pid} ${p.command_line}`.toLowerCase().includes(q)) : tree;
  const found: readonly (Process & { depth?: number })[] = q && !shown.length ? processes.filter((p) => `${p.image_name} ${p.pid} ${p.command_line}`.toLowerCase().includes(q)) : [];
  const grid = useMemo(() => gridOf(known ? from : NaN, to), [known, from, to]);
  const useUse = (what: 'cpu' | 'disk' | 'files' | 'network') => {
    const params = { host, ...range, every: grid.width + 'ms' }, path = `hosts/{host}/${what}` as const;
    const state = useApi<{ items: Used[] }>(known ? url(path, { ...params, limit: 10000 }) : null, 0, true), items = state.data?.items ?? NO_USE;
    return { state, csv: url(path, { ...params, format: 'csv' }), lines: useMemo(() => (grid.times.length ? linesOf(items, grid, usedBy) : []), [items, grid]) };
  };
  const cpu = useUse('cpu'), disk = useUse('disk'), files = useUse('files'), network = useUse('network'), shared = { grid, from, to, dark, at: now, onAt: moveTo, stacked: true };
  const open = (p: Process) => go({ page: 'process', host, stream: p.stream, instance: p.instance });
  return <>
    <h1>{host}</h1>
    <Notice state={info} />
    {d && <Facts rows={[['Machine', d.machine], ['Events', count(d.events)], ['Stored', bytes(d.bytes)], ['Events from', shortTime(d.begin)], ['to', shortTime(d.end)],
      ['Last heard', shortTime(d.received_last)], ['Ended in order', d.ended && shortTime(d.ended)], ['Runs', d.streams], ['Alerts', d.alerts || null], ['Batches missing', d.missing_batches || null]]} />}
    <p class="links"><Link to={{ page: 'events', host, range: view.range, from: view.from, to: view.to }}>Events</Link><Link to={{ page: 'profile', host, range: view.range, from: view.from, to: view.to }}>Flame graph</Link>
      <Link to={{ page: 'waits', host, range: view.range, from: view.from, to: view.to }}>CPU and waits</Link><Link to={{ page: 'disk', host, range: view.range, from: view.from, to: view.to }}>Disk</Link><Link to={{ page: 'dotnet', host, range: view.range, from: view.from, to: view.to }}>.NET</Link>
      <Link to={{ page: 'security', host, range: view.range, from: view.from, to: view.to }}>Security</Link><Link to={{ page: 'ledger', host }}>Ledger</Link></p>
    {known && <div class="charts"><Chart title="Processor: samples" {...cpu} {...shared} />
      <Chart title="Disks: bytes read and written" {...disk} {...shared} unit="B" />
      <Chart title="Network: bytes over TCP and UDP" {...network} {...shared} unit="B" />
      <Chart title="Files: bytes asked for, those that the cache answered too" {...files} {...shared} unit="B" /></div>}
    <section><h2>Processes over time</h2><Notice state={list} empty="no process is known in this range" />
      {known && processes.length ? <>
        <Timeline processes={bars} gaps={shaded} from={from} to={to} at={now} dark={dark} onAt={moveTo} onOpen={open}
          onRange={(a, b) => setRange(a, b, true)} />
        <p class="note">{shaded.length ? <span class="gap-key">{shaded.length} {shaded.length === 1 ? 'gap' : 'gaps'}, shaded: </span> : ''}
          {shaded.slice(0, 3).map((b) => `${moment(b.begin)} to ${moment(b.end)}`).join(', ')}{shaded.length ? '. ' : ''}
          {(gaps.data?.items ?? []).filter((b) => b.kind === 'counted').map((b) => `Lost: ${lossText(b)} (events: ${lostEvents(b)}). `).join('')}
          Arrow keys move the cursor and choose a bar, Enter opens it, + and − zoom.{(view.from || view.to) && <> <button onClick={() => change({ from: '', to: '', range: '' })}>Whole range</button></>}</p></> : null}
    </section>
    {d && <Recorder host={host} view={view} />}
    {known && <section><h2>Process tree at <span class="mono">{toIso(now).slice(11, 23)}</span> <small>{tree.length} processes</small></h2>
      <div class="tools"><Search name="q" label="Process" view={view} placeholder="name, id, command" hotkey="/" /></div>
      <div class="scroll tree" tabIndex={0} role="region" aria-label="Process tree"><table><thead><tr><th scope="col">Process</th><th scope="col" class="right">Id</th><th scope="col">Began</th><th scope="col">Command line</th></tr></thead>
        <tbody>{(shown.length ? shown : found).map((p) => <tr key={`${p.stream}${p.instance}`}><td><span class="indent" style={{ paddingLeft: (q ? 0 : (p.depth ?? 0) * 16) + 'px' }} /><ProcessLink row={p} host={host} view={view} /></td>
          <td class="right">{p.pid}</td><td>{p.begin_cause === 'start' ? shortTime(p.begin).slice(11) : ''}</td><td class="mono">{p.command_line}</td></tr>)}</tbody></table></div>
      {found.length ? <p class="note">Not alive at this time; these were at others.</p> : q && !shown.length ? <p class="notice">no process fits</p> : null}
    </section>}
    {known && <details class="exact" onToggle={(e) => openExact(e.currentTarget.open)}><summary>Exact times, interrupts, collections and counters</summary>
      {exactIsOpen && <Costly view={view}><Exact view={view} host={host} from={from} to={to} dark={dark} at={now} onAt={moveTo} /></Costly>}</details>}
  </>;
}
