// The URL holds the view: page, time range, search. A link opens the same view again.
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';

const listeners = new Set();
let current = read();

function read() {
  return Object.fromEntries(new URLSearchParams(location.search));
}
function update() {
  current = read();
  listeners.forEach((f) => f(current));
}
addEventListener('popstate', update);

export function linkTo(state) {
  const p = new URLSearchParams();
  for (const [k, v] of Object.entries(state)) if (v !== undefined && v !== null && v !== '') p.set(k, v);
  const s = p.toString();
  return s ? '/?' + s : '/';
}
// Goes to another view; replace: without a step in the browser's history.
export function go(state, replace) {
  const url = linkTo(state);
  if (url === location.pathname + location.search) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', url);
  update();
}
export function change(part, replace) {
  go({ ...current, ...part }, replace);
}
export function useView() {
  const [view, set] = useState(current);
  useEffect(() => {
    listeners.add(set);
    set(current);
    return () => { listeners.delete(set); };
  }, []);
  return view;
}

// ---- times: RFC 3339 with 100 ns outside, milliseconds as a number inside ----

export function toMs(text) {
  const m = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z$/.exec(text ?? '');
  return m ? Date.parse(m[1] + 'Z') + (m[2] ? Number('0' + m[2]) * 1000 : 0) : NaN;
}
export function toIso(ms) {
  const whole = Math.floor(ms / 1000) * 1000;
  const ticks = Math.min(9999999, Math.max(0, Math.round((ms - whole) * 10000)));
  return new Date(whole).toISOString().slice(0, 19) + '.' + String(ticks).padStart(7, '0') + 'Z';
}
export function shortTime(text) {
  return text ? text.slice(0, 10) + ' ' + text.slice(11, 23) : '';
}
const RANGES = { '5m': 300e3, '1h': 3600e3, '24h': 86400e3, '7d': 604800e3 };
export const RANGE_NAMES = Object.keys(RANGES);
// The range of a view as parameters of the API: {from, to}, each may be missing. "The last hour" ends when the view is opened: if it went on with each
// time that a page is drawn, each answer would be a new question.
const opened = new WeakMap();
export function rangeOf(view) {
  if (!opened.has(view)) opened.set(view, Date.now());
  if (Object.hasOwn(RANGES, view.range ?? '')) return { from: toIso(opened.get(view) - RANGES[view.range]) };
  return { ...(view.from && { from: view.from }), ...(view.to && { to: view.to }) };
}

// ---- asking the API ----

export function url(path, params) {
  const p = new URLSearchParams();
  for (const [k, v] of Object.entries(params ?? {}))
    for (const one of Array.isArray(v) ? v : [v]) if (one !== undefined && one !== null && one !== '') p.append(k, one);
  const s = p.toString();
  return '/api/v1/' + path + (s ? '?' + s : '');
}
export async function ask(address, options) {
  const r = await fetch(address, options);
  const text = await r.text();
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw new Error(`the collector answered ${r.status}`);
  }
  if (!r.ok) throw new Error(data.detail || data.title || `the collector answered ${r.status}`);
  return data;
}
// A list with all its pages.
async function askAll(address, options) {
  const data = await ask(address, options);
  while (data.next) {
    const more = await ask(`${address}${address.includes('?') ? '&' : '?'}cursor=${data.next}`, options);
    data.items.push(...more.items);
    data.next = more.next;
    data.damaged = Math.max(data.damaged ?? 0, more.damaged ?? 0);
    if (more.ending !== 'whole') data.ending = more.ending;
  }
  return data;
}
// {data, error, loading}; the old data stays during a new request. address null: no request. all: every page of a list.
export function useApi(address, every, all) {
  const [state, set] = useState({ loading: !!address });
  useLayoutEffect(() => { // not after the next frame: the question is on its way while the browser paints
    if (!address) {
      set({});
      return;
    }
    const stop = new AbortController();
    let timer;
    const load = async () => {
      try {
        const data = await (all ? askAll : ask)(address, { signal: stop.signal });
        if (!stop.signal.aborted) set({ data, address, at: Date.now() });
      } catch (e) {
        if (!stop.signal.aborted) set((old) => ({ ...old, error: e.message, loading: false }));
      }
      if (every && !stop.signal.aborted) timer = setTimeout(load, every);
    };
    set((old) => ({ ...old, error: undefined, loading: true }));
    load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [address, every]);
  return state;
}
// A time as people write it, in RFC 3339: the collector reads it, as it reads times everywhere. host: whose first and last event
// "start" and "end" are.
export async function readTime(text, host) {
  return (await ask(url('time', { text, host }))).time;
}
export const enc = encodeURIComponent;

export function remembered(key, fallback) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? fallback;
  } catch {
    return fallback;
  }
}
export function remember(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // a browser may forbid it: then nothing is remembered
  }
}
