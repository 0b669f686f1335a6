// The URL holds the view: page, time range, search. A link opens the same view again.
import { useEffect, useState } from 'preact/hooks';
import { ask, url } from './api';

export interface View { readonly [name: string]: string | undefined }
/** What a view is made of, or is changed by: empty values are not in the link. */
export type Change = Readonly<Record<string, string | number | null | undefined>>;

const listeners = new Set<(view: View) => void>();
let current = read();

function read(): View {
  return Object.fromEntries(new URLSearchParams(location.search));
}
function update() {
  current = read();
  listeners.forEach((f) => f(current));
}
addEventListener('popstate', update);

export function linkTo(state: Change) {
  const p = new URLSearchParams();
  for (const [k, v] of Object.entries(state)) if (v !== undefined && v !== null && v !== '') p.set(k, String(v));
  const s = p.toString();
  return s ? '/?' + s : '/';
}
// Goes to another view; replace: without a step in the browser's history.
export function go(state: Change, replace?: boolean) {
  const address = linkTo(state);
  if (address === location.pathname + location.search) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', address);
  update();
}
export function change(part: Change, replace?: boolean) {
  go({ ...current, ...part }, replace);
}
export function useView(): View {
  const [view, set] = useState(current);
  useEffect(() => {
    listeners.add(set);
    set(current);
    return () => { listeners.delete(set); };
  }, []);
  return view;
}

// ---- times: RFC 3339 with 100 ns outside, milliseconds as a number inside ----

export function toMs(text: string | null | undefined) {
  const m = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z$/.exec(text ?? '');
  return m ? Date.parse(m[1] + 'Z') + (m[2] ? Number('0' + m[2]) * 1000 : 0) : NaN;
}
export function toIso(ms: number) {
  const whole = Math.floor(ms / 1000) * 1000;
  const ticks = Math.min(9999999, Math.max(0, Math.round((ms - whole) * 10000)));
  return new Date(whole).toISOString().slice(0, 19) + '.' + String(ticks).padStart(7, '0') + 'Z';
}
export function shortTime(text: string | null | undefined) {
  return text ? text.slice(0, 10) + ' ' + text.slice(11, 23) : '';
}
const RANGES: Readonly<Record<string, number>> = { '5m': 300e3, '15m': 900e3, '1h': 3600e3, '6h': 21600e3, '24h': 86400e3, '7d': 604800e3, '30d': 2592000e3 };
export const RANGE_NAMES = Object.keys(RANGES);
export interface Range { from?: string; to?: string }
// The range of a view as parameters of the API: {from, to}, each may be missing. "The last hour" ends when the view is opened: if it went on with each
// time that a page is drawn, each answer would be a new question.
const opened = new WeakMap<View, number>();
export function rangeOf(view: View): Range {
  const now = opened.get(view) ?? Date.now();
  opened.set(view, now);
  if (Object.hasOwn(RANGES, view.range ?? '')) return { from: toIso(now - RANGES[view.range!]) };
  return { ...(view.from && { from: view.from }), ...(view.to && { to: view.to }) };
}
/** Begin and end of a view's range in ms; the end of an open range is now. null: it has no begin, or is none. */
export function spanOf(view: View) {
  const range = rangeOf(view), from = toMs(range.from);
  const to = Object.hasOwn(RANGES, view.range ?? '') ? from + RANGES[view.range!] : range.to ? toMs(range.to) : Date.now();
  return to > from ? { from, to } : null;
}
/** The range of a chart: a quick one has an end, too, as a chart has no place for what a clock that is ahead dates later. */
export function closedRangeOf(view: View): Range {
  const range = rangeOf(view), span = Object.hasOwn(RANGES, view.range ?? '') ? spanOf(view) : null;
  return span ? { ...range, to: toIso(span.to) } : range;
}
const LAST_MS = Date.UTC(9999, 11, 31);
/** A moment in ms as a time of a link, within the years that the collector takes. */
export const linkTime = (ms: number) => toIso(Math.min(LAST_MS, Math.max(0, ms)));
/** Shows what happened from one moment to another, in ms. */
export function setRange(from: number, to: number, replace?: boolean) {
  change({ range: '', from: linkTime(from), to: linkTime(to), cursor: '' }, replace);
}
// A time as people write it, in RFC 3339: the collector reads it, as it reads times everywhere. host: whose first and last event
// "start" and "end" are.
export async function readTime(text: string, host: string | undefined) {
  return (await ask(url('time', { text, host }))).time;
}

/** Whether a key is a letter of a field, or the browser's. */
export function isTyping(e: KeyboardEvent) {
  const target = e.composedPath()[0] as HTMLElement; // inside a shadow tree, too
  return e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable;
}

export function remembered<T>(key: string, fallback: T): T {
  try {
    return JSON.parse(localStorage.getItem(key) ?? 'null') ?? fallback;
  } catch {
    return fallback;
  }
}
export function remember(key: string, value: unknown) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // a browser may forbid it: then nothing is remembered
  }
}
