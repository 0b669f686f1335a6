// What several pages are made of: links, tables, notices, numbers, saved searches.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { url, useApi, type Item, type Params, type Path, type State } from './api';
import { change, go, linkTo, remember, remembered, spanOf, type Change, type View } from './state';

export function Link({ to, children, ...rest }: { to: Change; children?: ComponentChildren } & Omit<JSX.AnchorHTMLAttributes<HTMLAnchorElement>, 'href' | 'onClick'>) {
  const open = (e: MouseEvent) => {
    if (e.metaKey || e.ctrlKey || e.shiftKey || e.button) return;
    e.preventDefault();
    go(to);
  };
  return <a href={linkTo(to)} onClick={open} {...rest}>{children}</a>;
}

const UNITS = ['', 'k', 'M', 'G', 'T', 'P'];
export function count(number: number | null | undefined) {
  if (number === null || number === undefined) return '';
  let n = number, i = 0;
  while (Math.abs(n) >= (i ? 1000 : 10000) && i < UNITS.length - 1) { n /= 1000; i++; }
  return (i ? n.toFixed(1) : String(Math.round(n * 100) / 100)) + (i ? ' ' + UNITS[i] : '');
}
export const bytes = (n: number | null | undefined) => (n === null || n === undefined ? '' : count(n) + (n >= 10000 ? 'B' : ' B'));
// Nanoseconds, for a person.
export function duration(ns: number) {
  return ns >= 1e9 ? (ns / 1e9).toFixed(2) + ' s' : ns >= 1e6 ? (ns / 1e6).toFixed(1) + ' ms' : (ns / 1e3).toFixed(1) + ' µs';
}

// Gaps. A count whose times are in Windows' own records is no period of its own.
export type Gap = Item<'gaps'> | Item<'hosts/{host}/gaps'>;
export const isPeriod = (b: Gap) => b.kind !== 'counted' || b.records === 0;
export const lostEvents = (b: Gap) => b.events ?? (b.at_least ? `at least ${b.at_least}, unknown which` : 'unknown');
const CAUSES: Readonly<Record<string, string>> = {
  missing: 'batches have not come', RTLostEvent: 'events lost, by a record of Windows', RTLostBuffer: 'a buffer lost, by a record of Windows', RTLostFile: 'a file lost, by a record of Windows',
  source_events_lost: 'events that Windows says it lost', source_buffers_lost: 'buffers that Windows says it lost',
};
export const lossText = (b: Gap) => (b.kind === 'counted' ? b.counted + ' ' : '') + (CAUSES[b.cause ?? ''] ?? (b.cause ?? '').replaceAll('_', ' ')) + (b.kind === 'counted' && b.records ? `, in ${b.records} ${b.records === 1 ? 'period' : 'periods'} from its records` : '');

// What the API says of an empty list; where the page has words of its own and a range, from when to when events are stored.
function emptyText(empty: string | undefined, notice = 'nothing was found') {
  const stored = /; ((no )?events .*)/.exec(notice)?.[1];
  return empty === undefined ? notice : empty.endsWith(' in this range') && stored ? `${empty}; ${stored}` : empty;
}

export function Notice({ state, empty }: { state: State<object>; empty?: string }) {
  if (state.error) return <p class="notice bad" role="alert">{state.error}</p>;
  if (state.loading && !state.data) return <p class="notice" role="status">asking the collector …</p>;
  const data: { items?: unknown[]; damaged?: number; behind?: number; ending?: string; notice?: string } | undefined = state.data;
  const parts = []; // an answer that is not whole says nothing of what is missing in it
  if (data?.damaged) parts.push(`${data.damaged} stored batches are damaged and were left out`);
  if (data?.behind) parts.push(`${data.behind} stored batches are not in the history yet`);
  if (data?.ending && !['whole', 'rows'].includes(data.ending)) parts.push(`incomplete: the question ended at its limit of ${data.ending}`);
  if (parts.length) return <p class="notice bad" role="alert">{parts.join('; ')}</p>;
  return data?.items && !data.items.length ? <p class="notice">{emptyText(empty, data.notice)}</p> : null;
}

/** name: of the row's property that a cell shows, unless show makes the cell; sort: what the API calls it. */
export interface Column<R> { title: string; name?: keyof R & string; right?: boolean; mono?: boolean; sort?: string; show?: (row: R) => ComponentChildren }
// The view's {sort, descending} say what is sorted. What the cells show besides
// the row depends on the view's time range or changes with rows: the body is made again only with these.
// Of a long table the visible rows are painted first, the others right afterwards. of: what is asked for; the same table with
// newer numbers stays whole.
const FIRST_ROWS = 40;
export function Table<R>({ label, columns, rows, view, caption, of = '' }: { label: string; columns: readonly Column<R>[]; rows: readonly R[]; view?: View; caption?: string; of?: string }) {
  const [whole, setWhole] = useState<string | null>(null);
  const isPart = rows.length > FIRST_ROWS && whole !== of;
  useEffect(() => {
    if (!isPart) return undefined;
    const timer = setTimeout(() => setWhole(of));
    return () => clearTimeout(timer);
  }, [isPart, of]);
  const head = (c: Column<R>) => {
    if (!c.sort) return c.title;
    const active = view?.sort === c.sort, down = active && view.descending === '1';
    return <button class="sort" onClick={() => change({ sort: c.sort, descending: active && !down ? '1' : '', cursor: '' })}>
      {c.title}<span aria-hidden="true">{active ? (down ? ' ▾' : ' ▴') : ''}</span></button>;
  };
  const order = (c: Column<R>) => (c.sort && view?.sort === c.sort ? (view.descending === '1' ? 'descending' : 'ascending') : undefined);
  const body = useMemo(() => <tbody>{(isPart ? rows.slice(0, FIRST_ROWS) : rows).map((r) => <tr>
    {columns.map((c) => <td class={c.right ? 'right' : c.mono ? 'mono' : ''}>{c.show ? c.show(r) : c.name ? text(r[c.name]) : ''}</td>)}
  </tr>)}</tbody>, [rows, isPart, columns.map((c) => c.title).join(), view?.range, view?.from, view?.to, view?.filters, view?.table]);
  return <div class="scroll" tabIndex={0} role="region" aria-label={label} aria-busy={isPart || undefined}>
    <table>
      {caption && <caption>{caption}</caption>}
      <thead><tr>{columns.map((c) => <th scope="col" aria-sort={order(c)} class={c.right ? 'right' : ''}>{head(c)}</th>)}</tr></thead>
      {body}
    </table>
  </div>;
}
/** A value of the API in a cell. */
export function text(v: unknown) {
  if (v === null || v === undefined) return '';
  return typeof v === 'object' ? JSON.stringify(v) : String(v as string | number | boolean | bigint);
}

const PAUSE_MS = 150; // between two changes of the view while one types
// A text field that changes the view: at the first letter at once, then when one pauses.
export function Search({ name, label, view, placeholder, list, hotkey }: { name: string; label: string; view: View; placeholder?: string; list?: string; hotkey?: string }) {
  const [value, set] = useState(view[name] ?? '');
  const typed = useRef(0), sent = useRef(value), timer = useRef<number>();
  useLayoutEffect(() => { // what comes back of one's own letters does not undo those typed since
    const now = view[name] ?? '';
    if (now !== sent.current) set(sent.current = now);
  }, [view[name]]);
  useLayoutEffect(() => () => clearTimeout(timer.current), []);
  const search = (text: string) => {
    sent.current = text;
    change({ [name]: text, cursor: '' }, true);
  };
  const type = (text: string) => {
    const now = Date.now(), pauses = now - typed.current >= PAUSE_MS;
    typed.current = now;
    set(text);
    clearTimeout(timer.current);
    if (pauses) search(text);
    else timer.current = setTimeout(search, PAUSE_MS, text);
  };
  return <label class="field"><span>{label}</span>
    <input type="search" value={value} placeholder={placeholder} list={list} data-hotkey={hotkey} spellcheck={false}
      onInput={(e) => type(e.currentTarget.value)}
      onKeyDown={(e) => { if (e.key === 'Enter') { clearTimeout(timer.current); search(value); } }} /></label>;
}

export function Facts({ rows }: { rows: readonly (readonly [string, ComponentChildren])[] }) {
  return <dl class="facts">{rows.filter(([, v]) => v !== null && v !== undefined && v !== '').map(([k, v]) =>
    <div><dt>{k}</dt><dd>{v}</dd></div>)}</dl>;
}

/** What a row says of a process: enough for a link when it has the instance. */
export interface ProcessRow { host?: string | null; stream?: string | null; instance?: number | null; image_name?: string | null; pid?: number | null }
export function ProcessLink({ row, host, view, children }: { row: ProcessRow; host?: string | null; view?: View; children?: ComponentChildren }) {
  if (!row.instance || !row.stream) return <>{children ?? row.image_name}</>;
  return <Link to={{ page: 'process', host: row.host ?? host, stream: row.stream, instance: row.instance,
    range: view?.range, from: view?.from, to: view?.to }}>{children ?? (row.image_name || `pid ${row.pid}`)}</Link>;
}
export function HostLink({ host, view }: { host: string | null | undefined; view?: View }) {
  return <Link to={{ page: 'host', host, range: view?.range, from: view?.from, to: view?.to }}>{host}</Link>;
}
export function Pages({ view, data }: { view: View; data: { next: string | null } | undefined }) {
  if (!data || (!data.next && !view.cursor)) return null;
  return <p class="pages">
    {view.cursor && <button onClick={() => change({ cursor: '' })}>First page</button>}
    {data.next && <button onClick={() => change({ cursor: data.next })}>Next page</button>}
  </p>;
}

const CHEAP_EVENTS = 5e6;
/** What looks at each event of the range: of all times of a large store only on request. */
export function Costly({ view, children }: { view: View; children: ComponentChildren }) {
  const [isAsked, ask] = useState(false), hasSpan = !!spanOf(view), fleet = useApi(hasSpan || isAsked ? null : url('fleet'));
  if (hasSpan || isAsked || (fleet.data && (fleet.data.events ?? 0) <= CHEAP_EVENTS)) return <>{children}</>;
  return fleet.data ? <p class="notice">Choose a time range, or <button onClick={() => ask(true)}>look at all times</button></p> : <Notice state={fleet} />;
}

/** Links that save a list as a file. */
export function Export({ path, params }: { path: Path; params: Params<Path> }) {
  return <span class="export">Export: <a href={url(path, { ...params, format: 'csv' })} download>CSV</a> <a href={url(path, { ...params, format: 'jsonl' })} download>JSON lines</a></span>;
}

interface SavedSearch { name: string; view: View }
/** Searches that were saved, in this browser. */
export function Saved({ view }: { view: View }) {
  const [saved, set] = useState(() => remembered<SavedSearch[]>('searches', []));
  const put = (list: SavedSearch[]) => { set(list); remember('searches', list); };
  const [name, setName] = useState('');
  const add = (e: Event) => {
    e.preventDefault();
    if (name) put([...saved.filter((s) => s.name !== name), { name, view }]);
    setName('');
  };
  const mine = saved.filter((s) => s.view?.page === view.page);
  return <form class="saved" onSubmit={add}>
    <label class="field"><span>Save this search as</span><input value={name} onInput={(e) => setName(e.currentTarget.value)} maxLength={60} /></label><button>Save</button>
    {mine.map((s) => <span class="chip"><Link to={s.view}>{s.name}</Link><button type="button" aria-label={`Forget ${s.name}`} onClick={() => put(saved.filter((o) => o !== s))}>×</button></span>)}
  </form>;
}

// A canvas as wide as its parent, and a brush for it, which measures in pixels of the page.
export function useCanvas() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(900);
  useEffect(() => {
    const watch = new ResizeObserver(([e]) => setWidth(Math.max(200, e.contentRect.width)));
    watch.observe(canvas.current!.parentElement!);
    return () => watch.disconnect();
  }, []);
  const brush = (height: number) => {
    const c = canvas.current!, scale = devicePixelRatio || 1, g = c.getContext('2d')!;
    c.width = width * scale;
    c.height = height * scale;
    c.style.height = height + 'px';
    g.scale(scale, scale);
    g.textBaseline = 'middle';
    return g;
  };
  return [canvas, width, brush] as const;
}
