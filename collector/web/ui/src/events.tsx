// Events: a search, newest first or as they are stored, and its counts over time.
import { useEffect, useState } from 'preact/hooks';
import { url, useApi, type Item } from './api';
import { Histogram } from './histogram';
import { Export, HostLink, Link, Notice, Pages, Saved, Search, Table, text, type Column } from './parts';
import { useStored } from './range';
import { change, rangeOf, shortTime, spanOf, type View } from './state';

function StoredRange({ host }: { host: string | undefined }) {
  const { from, to } = useStored(host);
  return from && to ? <p class="notice">events are stored from {shortTime(from)} to {shortTime(to)}</p> : null;
}

const FIRST = ['host', 'time', 'cpu', 'pid', 'tid', 'provider_name', 'name'], LAST = ['stream', 'batch', 'position'];
const TAIL_MAX = 500;

type Stored = Item<'events'>;

const BUCKETS = 60, NONE: readonly [] = [];

export function Events({ view }: { view: View }) {
  const classes = useApi(url('classes', { limit: 10000 }));
  const [conditions, setConditions] = useState(view.where ?? '');
  useEffect(() => { setConditions(view.where ?? ''); }, [view.where]);
  const where = (view.where ?? '').split(/\s+and\s+/i).map((s) => s.trim()).filter(Boolean);
  const search = { host: view.host, class: view.class, pid: view.pid, q: view.q, where, ...rangeOf(view) }, params = { ...search, columns: view.columns };
  const live = view.live === '1';
  const s = useApi(live ? null : url('events', { ...params, cursor: view.cursor, limit: 100 }));
  // The counts are asked for when the events are there, which one waits for; the older counts stay until then. A part of any field is searched in
  // each event of the range: of all times only on request.
  const counted = url('events/counts', { ...search, buckets: BUCKETS }), hasEvents = !live && !!s.data && !s.loading && !s.error;
  const [asked, setAsked] = useState<typeof counted | null>(null);
  const isCheap = !view.q || !!spanOf(view), [wanted, setWanted] = useState<string | null>(null), isAsked = isCheap || wanted === counted;
  useEffect(() => { if (hasEvents && isAsked) setAsked(counted); }, [counted, hasEvents, isAsked]);
  const counts = useApi(live ? null : asked), limit = counts.error ?? (counts.data && counts.data.ending !== 'whole' ? `the question ended at its limit of ${counts.data.ending}` : '');
  // The collector looks back for some seconds at a time. When they end without a find, the page asks on from there.
  const further = !live && s.data?.items?.length === 0 ? s.data.next : null;
  useEffect(() => { if (further) change({ cursor: further }, true); }, [further]);
  const [tail, setTail] = useState<Stored[]>([]), [lost, setLost] = useState(false);
  const tailUrl = live ? url('events/tail', { ...params, from: undefined, to: undefined }) : null;
  useEffect(() => {
    setTail([]);
    if (!tailUrl) return undefined;
    const source = new EventSource(tailUrl);
    let waiting: Stored[] = [];
    source.addEventListener('event', (e) => {
      waiting.push(JSON.parse(e.data));
      if (waiting.length === 1) requestAnimationFrame(() => { setTail((old) => [...waiting.reverse(), ...old].slice(0, TAIL_MAX)); waiting = []; });
    });
    source.addEventListener('skipped', () => setLost(true));
    return () => source.close();
  }, [tailUrl]);
  const rows = live ? tail : s.data?.items ?? [];
  const names = rows.length ? Object.keys(rows[0]) : [];
  const order = view.columns ? names : [...FIRST.filter((n) => names.includes(n)), ...names.filter((n) => !FIRST.includes(n) && !LAST.includes(n))];
  const columns = order.map((n): Column<Stored> => ({ title: n, mono: n === 'fields', show: (r) => (n === 'host' ? <HostLink host={r.host} view={view} /> : n === 'time' ? shortTime(r.time)
    : n === 'name' ? <Link to={{ ...view, class: r.name, cursor: '' }}>{r.name}</Link> : r[n] === 4294967295 ? '' : text(r[n])) }));
  return <>
    <h1>Events</h1>
    <div class="tools">
      <Search name="q" label="Any field contains" view={view} hotkey="/" />
      <Search name="class" label="Class" view={view} list="classes" placeholder="Process/Start" />
      <datalist id="classes">{(classes.data?.items ?? []).map((c) => <option value={c.name ?? ''}>{c.provider_name}</option>)}</datalist>
      <Search name="host" label="Machine" view={view} placeholder="the whole name" /><Search name="pid" label="Process id" view={view} />
      <label class="field wide"><span>Fields (with a class)</span><input value={conditions} placeholder="dport=443 and daddr~10.9." onInput={(e) => setConditions(e.currentTarget.value)} spellcheck={false}
        onKeyDown={(e) => e.key === 'Enter' && change({ where: conditions, cursor: '' })} onBlur={() => change({ where: conditions, cursor: '' })} /></label>
      <Search name="columns" label="Columns" view={view} placeholder="all" />
      <label class="check"><input type="checkbox" checked={live} onChange={(e) => change({ live: e.currentTarget.checked ? '1' : '', cursor: '' })} /> Live</label>
      <Export path="events" params={params} />
    </div>
    <Saved view={view} />
    {live ? null : !isAsked ? <p><button onClick={() => setWanted(counted)}>Count them over time</button></p> : limit && !s.error ? <p class="notice">no counts over time: {limit}</p>
      : <Histogram label="Events over time" items={counts.data?.items ?? NONE} onRange={(from, to) => change({ range: '', from, to, cursor: '' })} />}
    {live ? <p class="notice" role="status">{rows.length} events as they are stored, the latest first{lost ? '; more came than can be shown' : ''}</p>
      : further ? <p class="notice" role="status">no event fits so far; asking the collector for older ones …</p> : <Notice state={s} empty="no event fits" />}
    {!live && s.data?.items?.length === 0 && !s.data.next && s.data.ending === 'whole' && <StoredRange host={view.host} />}
    {rows.length ? <Table label="Events" columns={columns} rows={rows} view={view} of={live ? 'live' : s.address} /> : null}
    {!live && <Pages view={view} data={s.data} />}
  </>;
}
