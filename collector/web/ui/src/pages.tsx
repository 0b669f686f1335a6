// The pages Fleet, Process, Security, Counters, Queries, Ledger. Others are files of their own.
import type { ComponentChildren } from 'preact';
import { useMemo, useRef } from 'preact/hooks';
import { url, useApi, type Address, type Answer, type Api, type Item, type Params, type Path, type State } from './api';
import { GapLine, LedgerFlow } from './ledger';
import { bytes, count, Export, Facts, HostLink, Link, lossText, lostEvents, Notice, Pages, ProcessLink, Saved, Search, Table, text, type Column, type ProcessRow } from './parts';
import { Regular } from './regular';
import { Sql } from './sql';
import { change, rangeOf, shortTime, toMs, type View } from './state';

const SILENT_MS = 60e3;

type Machine = Item<'hosts'>;
type Group = Item<'fleet/groups'>;

// ---- Fleet ----

const plural = (n: number, word: string, end = 's') => `${n} ${word}${n === 1 ? '' : end}`;

function health(h: Machine, now: number) {
  const age = now - toMs(h.received_last);
  const words = [];
  if (h.incidents) words.push(plural(h.incidents, 'incident'));
  if (h.alerts) words.push(plural(h.alerts, 'alert'));
  if (h.missing_batches) words.push(`${plural(h.missing_batches, 'batch', 'es')} missing`);
  if (h.ended) words.push('ended');
  else if (age > SILENT_MS) words.push(`silent for ${age > 86400e3 ? Math.round(age / 86400e3) + ' d' : age > 3600e3 ? Math.round(age / 3600e3) + ' h' : Math.round(age / 60e3) + ' min'}`);
  return { bad: h.incidents || h.alerts || h.missing_batches, silent: h.ended || age > SILENT_MS, text: words.join(', ') || 'well' };
}

// Events a second between two answers, or since the beginning when there is only one.
function useRates(data: Answer<'hosts'> | undefined, at: number | undefined): Record<string, number> {
  const old = useRef<{ counts: Record<string, number>; rates: Record<string, number>; at: number }>({ counts: {}, rates: {}, at: 0 });
  return useMemo(() => {
    const o = old.current;
    if (data && at !== undefined && at !== o.at) {
      const seconds = (at - o.at) / 1000;
      for (const h of data.items) {
        const host = h.host ?? '', events = h.events ?? 0, known: number | undefined = o.counts[host];
        if (known !== undefined && seconds > 0.5 && seconds < 120) o.rates[host] = Math.max(0, (events - known) / seconds);
        o.counts[host] = events;
      }
      o.at = at;
    }
    return { ...o.rates };
  }, [data, at]);
}

// The labels of a machine, which its agent sends as a JSON object.
function labelsOf(h: Machine): [string, unknown][] {
  try {
    return Object.entries(JSON.parse(h.labels || '{}') ?? {});
  } catch {
    return [];
  }
}

export function Fleet({ view }: { view: View }) {
  const by = view.group ?? '', chosen = by && (view.in || view.none);
  const fleet = useApi(url('fleet'), 5000);
  const list = useApi(url('hosts', { q: view.q, sort: view.sort, descending: view.descending, cursor: view.cursor, limit: 200, ...(chosen && { by, group: view.in }) }), 5000);
  const groups = useApi(by ? url('fleet/groups', { by, q: view.q, limit: 1000 }) : null, 5000);
  const labels = useApi(list.data ? url('fleet/labels', { limit: 1000 }) : null);
  const rates = useRates(list.data, list.at);
  const now = Date.now(), f = fleet.data;
  const all: Column<Machine>[] = [
    { title: 'Machine', sort: 'host', show: (h) => <HostLink host={h.host} view={view} /> },
    { title: 'Health', sort: 'alerts', show: (h) => { const s = health(h, now); return <span class={'health ' + (s.bad ? 'bad' : s.silent ? 'silent' : 'good')}>{s.text}</span>; } },
    { title: 'Events/s', right: true, show: (h) => count(rates[h.host ?? '']) },
    { title: 'Events', sort: 'events', right: true, show: (h) => count(h.events) },
    { title: 'Stored', sort: 'bytes', right: true, show: (h) => bytes(h.bytes) },
    { title: 'Runs', sort: 'streams', right: true, name: 'streams' },
    { title: 'Gaps', sort: 'gap_periods', right: true, name: 'gap_periods' },
    { title: 'Last heard', sort: 'received_last', show: (h) => shortTime(h.received_last) },
    { title: 'Agent', sort: 'agent_version', name: 'agent_version' },
    { title: 'Labels', sort: 'labels', name: 'labels', show: (h) => labelsOf(h).map(([k, v]) => `${k}=${v}`).join(', ') },
  ];
  const columns = all.filter((c) => (c.name !== 'agent_version' && c.name !== 'labels') || list.data?.items.some((r) => r[c.name!]));
  return <>
    <h1>Fleet</h1>
    {f && <ul class="tiles">
      <li><b>{count(f.hosts)}</b> machines</li><li><b>{count(f.events)}</b> events</li><li><b>{bytes(f.bytes)}</b> stored</li>
      <li class={f.silent ? 'bad' : ''}><b>{count(f.silent)}</b> silent</li><li class={f.incidents ? 'bad' : ''}><b>{count(f.incidents)}</b> incidents</li><li class={f.alerts ? 'bad' : ''}><b>{count(f.alerts)}</b> alerts</li>
      <li class={f.missing_batches ? 'bad' : ''}><b>{count(f.missing_batches)}</b> batches missing</li><li class={f.lost_events ? 'bad' : ''}><b>{count(f.lost_events)}</b> events lost at least</li>
    </ul>}
    <div class="tools">
      <Search name="q" label="Machine" view={view} placeholder="part of a name" hotkey="/" />
      <label class="field"><span>Group by</span><select value={by} onChange={(e) => change({ group: e.currentTarget.value, in: '', none: '', cursor: '' })}>
        <option value="">nothing</option>{[['health', 'health'], ['agent_version', "agent's version"], ...(labels.data?.items ?? []).map((l) => ['labels.' + l.label, `${l.label} (${count(l.values)})`])].map(([v, t]) =>
          <option value={v}>{t}</option>)}</select></label>
      {chosen && <Link to={{ ...view, in: '', none: '', cursor: '' }}>All groups</Link>}
    </div>
    {by && <Notice state={groups} empty="no machine fits" />}
    {by && groups.data?.items.length ? <Table label="Groups" rows={groups.data.items} view={view} columns={[
      { title: 'Group', show: (g) => <Link to={{ ...view, in: g.group, none: g.group ? '' : '1', cursor: '' }}>{g.group || '(none)'}</Link> },
      ...([['Machines', 'hosts'], ['Silent', 'silent'], ['Incidents', 'incidents'], ['Alerts', 'alerts'], ['Batches missing', 'missing_batches']] as const).map(([title, name]): Column<Group> => ({ title, right: true, show: (g) => count(g[name]) })),
      { title: 'Events', right: true, show: (g) => count(g.events) }, { title: 'Stored', right: true, show: (g) => bytes(g.bytes) }]} /> : null}
    <Notice state={list} empty="no machine has sent anything yet, or none fits" />
    {list.data?.items.length ? <Table label="Machines" caption={chosen ? `Machines of ${view.in || '(none)'}` : undefined} columns={columns} rows={list.data.items} view={view} of={list.address} /> : null}
    <Pages view={view} data={list.data} />
    <Incidents view={view} what="Incidents" params={{ limit: 20 }} />
  </>;
}

/** What the collector saw: machines that fell silent, ledgers that do not balance. Those that last come first. */
export function Incidents({ view, what, params }: { view: View; what: string; params: Params<'incidents'> }) {
  const s = useApi(url('incidents', params), 10000);
  return <section><h2>{what}</h2><Notice state={s} empty="none" />
    {s.data?.items.length ? <Table label={what} rows={s.data.items} view={view} columns={[TIME('begin', 'Begin'), { title: 'End', show: (r) => (r.end ? shortTime(r.end) : 'it lasts') },
      { title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> }, { title: 'Kind', name: 'kind' }, { title: 'Left', name: 'left', right: true },
      { title: 'Right', name: 'right', right: true }, { title: 'What', name: 'text' }]} /> : null}
    {s.data?.next && <p class="note">and older ones: <Link to={{ page: 'ledger', host: view.host }}>Ledger</Link></p>}</section>;
}

// ---- Process ----

export function Section<R>({ title, address, columns, empty, every, view }: { title: string; address: Address<{ items: R[]; next: string | null }>; columns: readonly Column<R>[]; empty?: string; every?: number; view?: View }) {
  const s = useApi(address, every);
  return <section><h2>{title}{s.data?.items ? <small> {s.data.items.length}{s.data.next ? ' and more' : ''}</small> : ''}</h2>
    <Notice state={s} empty={empty ?? 'none'} />
    {s.data?.items?.length ? <Table label={title} columns={columns} rows={s.data.items} view={view} /> : null}</section>;
}
export const TIME = <N extends string>(name: N, title: string): { title: string; show: (r: Record<N, string | null>) => string } => ({ title, show: (r) => shortTime(r[name]) });

export function Process({ view }: { view: View }) {
  const it = { host: view.host, stream: view.stream, instance: view.instance };
  const p = useApi(url('hosts/{host}/processes/{stream}/{instance}', it));
  const d = p.data;
  const parent = useApi(d?.parent_instance ? url('hosts/{host}/processes/{stream}/{instance}', { ...it, instance: d.parent_instance }) : null);
  const times = d && { from: d.begin, to: d.end ?? undefined };
  return <>
    <h1>{d ? `${d.image_name} ${d.pid}` : 'Process'}</h1>
    <Notice state={p} />
    {d && <>
      <Facts rows={[
        ['Machine', <HostLink host={d.host} view={view} />], ['Process id', d.pid],
        ['Command line', <code class="wrap">{d.command_line}</code>],
        ['Parent', parent.data ? <ProcessLink row={parent.data} view={view}>{parent.data.image_name} {parent.data.pid}</ProcessLink> : d.parent_pid],
        ['Began', `${shortTime(d.begin)}${d.begin_cause === 'start' ? '' : ' or before'}`], ['Ended', d.end && `${shortTime(d.end)}${d.exit_status ? `, exit status ${d.exit_status}` : ''}`],
        ['User', d.account ? `${d.account} (${d.sid})` : d.sid], ['Session', d.session_id], ['Package', d.package]]} />
      <p class="links"><Link to={{ page: 'events', host: d.host, pid: d.pid, from: d.begin, to: d.end }}>Its events</Link>
        <Link to={{ page: 'profile', host: d.host, pid: d.pid, from: d.begin, to: d.end }}>Its flame graph</Link>
        <Link to={{ page: 'host', host: d.host, at: d.begin }}>Its place in the tree</Link></p>
      <Section title="Children" address={url('hosts/{host}/processes/{stream}/{instance}/children', { ...it, limit: 1000 })} columns={[TIME('begin', 'Began'), { title: 'Process', show: (r) => <ProcessLink row={r} view={view} /> },
        { title: 'Id', name: 'pid', right: true }, { title: 'Command line', name: 'command_line', mono: true }, TIME('end', 'Ended')]} />
      <Section title="Connections" address={url('connections', { host: d.host, pid: d.pid, ...times, limit: 1000 })} columns={[TIME('time', 'Time'), { title: 'Kind', name: 'name' },
        { title: 'From', show: (r) => `${r.local} ${r.local_port}`, mono: true },
        { title: 'To', show: (r) => <Link to={{ page: 'security', tab: 'connections', remote: r.remote }}>{r.remote} {r.remote_port}</Link> }]} />
      <Section title="Modules" address={url('hosts/{host}/processes/{stream}/{instance}/modules', { ...it, limit: 2000 })} columns={[TIME('begin', 'Loaded'), { title: 'Base', name: 'base', mono: true },
        { title: 'Size', right: true, show: (r) => bytes(r.size_bytes) }, { title: 'Path', name: 'path', mono: true }, TIME('end', 'Unloaded'),
        { title: 'Version', name: 'file_version' }, { title: 'Company', name: 'company' }, { title: 'SHA-256', name: 'sha256', mono: true }]} />
      <Section title="Threads" address={url('hosts/{host}/processes/{stream}/{instance}/threads', { ...it, limit: 2000 })} columns={[{ title: 'Id', name: 'tid', right: true }, { title: 'Name', name: 'name' }, TIME('begin', 'Began'),
        TIME('end', 'Ended'), { title: 'Start address', name: 'win32_start_address', mono: true }]} />
      <Section title="Files" address={url('hosts/{host}/processes/{stream}/{instance}/files', { ...it, limit: 500 })} columns={[{ title: 'Opened', right: true, name: 'count' }, { title: 'Path', name: 'path', mono: true }]} />
      <Section title="Registry" address={url('hosts/{host}/processes/{stream}/{instance}/registry', { ...it, limit: 500 })} columns={[TIME('time', 'Time'), { title: 'What', show: (r) => r.name?.slice(9) }, { title: 'Under key', name: 'key', mono: true }, { title: 'Key or value', name: 'key_name', mono: true }, { title: 'Result', name: 'status' }]} />
    </>}
  </>;
}

// ---- Security, Counters ----

interface TabRow extends ProcessRow { readonly [name: string]: unknown }
/** A column of a tab: the machine, the process, or one that may also read the view. */
type TabColumn<R> = 'host' | 'process' | (Omit<Column<R>, 'show'> & { show?: (row: R, view: View) => ComponentChildren });
const LABELS = { q: 'Name or command line', parent: 'Parent', remote: 'Address', hosts: 'On at most so many machines (none: 1)' };
interface Tab { title: string; path: Path; columns: readonly TabColumn<TabRow>[]; fields: readonly (keyof typeof LABELS)[] }
/** A question whose answer a tab shows, with the parameters that have a field. Its columns are checked against the path's rows. */
const tab = <P extends Path>(title: string, path: P, columns: readonly TabColumn<Item<P>>[], fields: readonly (keyof typeof LABELS & Api[P]['query'])[]): Tab =>
  ({ title, path, columns: columns as unknown as readonly TabColumn<TabRow>[], fields });
const TABS: Readonly<Record<string, Tab>> = {
  starts: tab('Process starts', 'queries/process-starts', [TIME('begin', 'Time'), 'host', 'process', { title: 'Id', name: 'pid', right: true }, { title: 'Parent', name: 'parent_image_name' }, { title: 'Command line', name: 'command_line', mono: true }, { title: 'User', show: (r) => r.account ?? r.sid }], ['q', 'parent']),
  places: tab('Unusual places', 'queries/modules-from-unusual-places', [TIME('begin', 'Time'), 'host', { title: 'Process', show: (r, v) => <ProcessLink row={r} view={v}>{r.pid}</ProcessLink> }, { title: 'Module', name: 'path', mono: true }], []),
  rare: tab('Rare modules', 'queries/rare-modules', [{ title: 'First seen', show: (r) => shortTime(r.first) }, { title: 'Machines', name: 'hosts', right: true }, 'host', { title: 'Loads', name: 'loads', right: true }, { title: 'Module', mono: true, show: (r, v) => <Link to={{ page: 'file', path: r.path, sha256: r.sha256, range: v.range, from: v.from, to: v.to }}>{r.path}</Link> }, { title: 'SHA-256', name: 'sha256', mono: true }], ['hosts']),
  connections: tab('Connections', 'connections', [TIME('time', 'Time'), 'host', 'process', { title: 'Kind', name: 'name' }, { title: 'From', show: (r) => `${r.local} ${r.local_port}` },
    { title: 'To', show: (r) => <Link to={{ page: 'security', tab: 'connections', remote: r.remote }}>{r.remote} {r.remote_port}</Link> }], ['remote']),
  autostart: tab('Autostart keys', 'queries/autostart-keys', [TIME('time', 'Time'), 'host', { title: 'Process id', name: 'pid', right: true }, { title: 'Key', name: 'key', mono: true }, { title: 'Value', name: 'value_name' }], []),
};
// What an empty tab may lack: the profile security does not record it
const NEEDS: Readonly<Record<string, string>> = { autostart: 'nothing was found; registry writes are recorded where a system session has the flag REGISTRY, which the profile security does not have' };
const RATE: readonly Column<{ instructions: number | null; cycles: number | null; ipc: number | null }>[] = [{ title: 'Instructions', name: 'instructions', right: true, show: (r) => (r.instructions === null ? '' : count(r.instructions)) },
  { title: 'Cycles', name: 'cycles', right: true, show: (r) => (r.cycles === null ? '' : count(r.cycles)) }, { title: 'Ratio', name: 'ipc', right: true, show: (r) => r.ipc?.toFixed(3) ?? '' }];
const COUNTED_BY = { title: 'Counted by', name: 'source' } as const;
const IPC_TABS: Readonly<Record<string, Tab>> = {
  machines: tab('Instructions per cycle by machine', 'queries/ipc-by-machine', ['host', COUNTED_BY, ...RATE], []),
  programs: tab('Instructions per cycle by program', 'queries/ipc-by-program', ['host', { title: 'Program', name: 'image' }, COUNTED_BY, ...RATE], []),
  functions: tab('Instructions per cycle by function', 'queries/ipc-by-function', [{ title: 'Module', name: 'module' }, { title: 'Function or place', name: 'function', mono: true }, ...RATE], []),
};
const WITHOUT_RANGE = ['rare']; // questions about all times

const REGULAR = 'regular';
export const Security = ({ view }: { view: View }) => (view.tab === REGULAR ? <><h1>Security</h1><TabLinks view={view} page="security" tabs={TABS} more={{ [REGULAR]: 'Regular connections' }} tab={REGULAR} /><Regular view={view} /></>
  : <Tabs view={view} page="security" heading="Security" tabs={TABS} more={{ [REGULAR]: 'Regular connections' }} />);
export const Counters = ({ view }: { view: View }) => <Tabs view={view} page="counters" heading="Counters" tabs={IPC_TABS} />;

interface TabsProps { view: View; page: string; tabs: Readonly<Record<string, Tab>>; more?: Readonly<Record<string, string>> }
/** more: titles of tabs that are no question of the API. */
const TabLinks = ({ view, page, tabs, more, tab }: TabsProps & { tab: string }) => <nav class="tabs" aria-label="Questions">{[...Object.entries(tabs).map(([k, t]) => [k, t.title] as const), ...Object.entries(more ?? {})].map(([k, title]) =>
  <Link to={{ page, tab: k, host: view.host, range: view.range, from: view.from, to: view.to }} aria-current={k === tab ? 'page' : undefined}>{title}</Link>)}</nav>;
/** A page of questions, each with its table. */
function Tabs({ view, page, heading, tabs, more }: TabsProps & { heading: string }) {
  const tab = Object.hasOwn(tabs, view.tab ?? '') ? view.tab! : Object.keys(tabs)[0];
  const { title, path, columns, fields } = tabs[tab];
  const s = useApi(url(path, { host: view.host, ...(WITHOUT_RANGE.includes(tab) ? {} : rangeOf(view)), ...Object.fromEntries(fields.map((f) => [f, view[f]])), cursor: view.cursor, sort: view.sort, descending: view.descending })) as State<{ items: TabRow[]; next: string | null }>;
  const shown: Column<TabRow>[] = columns.map((c): Column<TabRow> => (c === 'host' ? { title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> }
    : c === 'process' ? { title: 'Process', show: (r) => <ProcessLink row={r} view={view} /> } : { ...c, show: c.show && ((r) => c.show!(r, view)) }));
  return <>
    <h1>{heading}</h1>
    <TabLinks view={view} page={page} tabs={tabs} more={more} tab={tab} />
    <div class="tools"><Search name="host" label="Machine (none: all)" view={view} placeholder="the whole name" />
      {fields.map((f, i) => <Search name={f} label={LABELS[f]} view={view} hotkey={i ? undefined : '/'} />)}
      <Export path={path} params={{ host: view.host, ...rangeOf(view), ...Object.fromEntries(fields.map((f) => [f, view[f]])) }} /></div>
    <Saved view={view} />
    <Notice state={s} empty={NEEDS[tab]} />
    {s.data?.items?.length ? <Table label={title} columns={shown} rows={s.data.items} view={view} /> : null}
    <Pages view={view} data={s.data} />
  </>;
}

// ---- Queries ----

type Named = Extract<Path, `queries/${string}`>;

export function Queries({ view }: { view: View }) {
  const list = useApi(url('queries'));
  const chosen = list.data?.items.find((q) => q.name === view.query);
  const named = useApi(chosen?.parameters.every((p) => !p.required || view[p.name]) ? url(('queries/' + chosen.name) as Named,
    { ...Object.fromEntries(chosen.parameters.map((p) => [p.name, view[p.name]])), ...(chosen.parameters.some((p) => p.name === 'from') ? rangeOf(view) : {}), cursor: view.cursor }) : null) as State<{ items: TabRow[]; next: string | null }>;
  return <>
    <h1>Queries</h1>
    <ul class="queries">{(list.data?.items ?? []).map((q) => <li><Link to={{ page: 'queries', query: q.name, range: view.range, from: view.from, to: view.to }} aria-current={q.name === view.query ? 'page' : undefined}>{q.name}</Link> {q.text}</li>)}</ul>
    {chosen && <section><h2>{chosen.text}</h2>
      <div class="tools">{chosen.parameters.filter((p) => !['from', 'to'].includes(p.name)).map((p) => <Search name={p.name} label={p.name + (p.required ? ' (needed)' : '')} view={view} placeholder={p.kind} />)}
        <Export path={('queries/' + chosen.name) as Named} params={{ ...Object.fromEntries(chosen.parameters.map((p) => [p.name, view[p.name]])) }} /></div>
      <Notice state={named} />
      {named.data?.items?.length ? <Table<TabRow> label={chosen.text} rows={named.data.items} view={view} columns={Object.keys(named.data.items[0]).map((n) => ({ title: n, name: n,
        show: (r) => (n === 'host' ? <HostLink host={r.host} view={view} /> : n === 'image_name' ? <ProcessLink row={r} view={view} /> : text(r[n])) }))} /> : null}
      <Pages view={view} data={named.data} /></section>}
    <Sql view={view} />
  </>;
}

// ---- Ledger ----

export function Ledger({ view }: { view: View }) {
  const alerts = useApi(url('alerts', { host: view.host, ...rangeOf(view) }), 10000);
  const gaps = useApi(url('gaps', { host: view.host, ...rangeOf(view) }), 10000);
  const book = useApi(view.host ? url('hosts/{host}/ledger', { host: view.host, limit: 5000 }) : null, 10000);
  const runs = useMemo(() => {
    const map = new Map<string, Item<'hosts/{host}/ledger'>[]>();
    for (const r of book.data?.items ?? []) map.set(r.stream ?? '', [...(map.get(r.stream ?? '') ?? []), r]);
    return [...map];
  }, [book.data]);
  return <>
    <h1>Ledger</h1>
    <p class="note">Each event that an agent received is in exactly one state. Numbers that do not add up are an alert. A gap is a period of which batches never arrived, or of which Windows or the agent reports losses.</p>
    <div class="tools"><Search name="host" label="Machine" view={view} placeholder="the whole name" hotkey="/" /></div>
    <LedgerFlow view={view} />
    <Incidents view={view} what="Incidents" params={{ host: view.host, ...rangeOf(view), limit: 100 }} />
    <section><h2>Alerts</h2><Notice state={alerts} empty="every ledger adds up" />
      {alerts.data?.items.length ? <Table label="Alerts" rows={alerts.data.items} view={view} columns={[TIME('time', 'Time'), { title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> }, { title: 'Kind', name: 'kind' },
        { title: 'Left', name: 'left', right: true }, { title: 'Right', name: 'right', right: true }, { title: 'What', name: 'text' }]} /> : null}</section>
    <section><h2>Gaps</h2><Notice state={gaps} empty="nothing is missing" />
      {gaps.data && <GapLine gaps={gaps.data.items} view={view} />}
      {gaps.data?.items.length ? <Table label="Gaps" rows={gaps.data.items} view={view} columns={[TIME('begin', 'From'), TIME('end', 'To'), { title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> },
        { title: 'Cause', name: 'cause' }, { title: 'What', show: lossText }, { title: 'Batches', name: 'batches', right: true }, { title: 'Events', right: true, show: lostEvents }]} /> : null}</section>
    {view.host && <section><h2>Counters of {view.host}</h2><Notice state={book} />
      {runs.map(([stream, rows]) => <Table label={`Run ${stream}`} caption={`Run ${stream.slice(0, 12)}: stored ${rows[0].stored} events`} rows={rows}
        columns={[{ title: 'Counter', show: (r) => r.counter?.replaceAll('_', ' ') }, { title: 'Type', name: 'type' }, { title: 'Value', name: 'value', right: true }]} />)}</section>}
  </>;
}
