// The time range of all pages: a button that says it, a dialog that changes it, and keys that move it.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { messageOf, url, useApi } from './api';
import { change, isTyping, RANGE_NAMES, rangeOf, readTime, setRange, shortTime, spanOf, toMs, type View } from './state';

const DAYS: readonly (readonly [string, string, string])[] = [['today', 'today', ''], ['yesterday', 'yesterday', 'today']];
const FORMS = 'UTC: 2026-01-31T14:03:07Z, 2026-01-31 14:03, 2026-01-31, now, today, yesterday, -1h; of the data: start, +10s, end-10s';

/** A time without what is zero in it; a text that is no time as it is. */
function brief(text: string) {
  return Number.isNaN(toMs(text)) ? text.slice(0, 30) : shortTime(text).replace(/Z$/, '').replace(/\.000$/, '').replace(/^(.{16}):00$/, '$1');
}
/** The range of a view in words. */
export function rangeText(view: View) {
  if (RANGE_NAMES.includes(view.range ?? '')) return `last ${view.range}`;
  const from = brief(view.from ?? ''), to = brief(view.to ?? '');
  if (from && to) return `${from} – ${from.slice(0, 11) === to.slice(0, 11) ? to.slice(11) : to}`;
  return from ? `from ${from}` : to ? `to ${to}` : 'all times';
}

/** From when to when events are stored, of a machine or of all; nothing is requested unless asked. */
export function useStored(host: string | undefined, asked = true): { from?: string | null; to?: string | null } {
  const one = useApi(asked && host ? url('hosts/{host}', { host }) : null);
  const first = useApi(asked && !host ? url('hosts', { sort: 'begin', limit: 1 }) : null), last = useApi(asked && !host ? url('hosts', { sort: 'end', descending: 1, limit: 1 }) : null);
  return { from: one.data?.begin ?? first.data?.items[0]?.begin, to: one.data?.end ?? last.data?.items[0]?.end };
}
/** Begin and end of what a page shows, in ms: of the view's range, and where it is open of what is stored. null: not known yet. */
export function useTimes(view: View): { from: number; to: number } | null {
  const range = rangeOf(view), isQuick = RANGE_NAMES.includes(view.range ?? ''), stored = useStored(view.host, !isQuick && !(range.from && range.to));
  if (isQuick) return spanOf(view);
  const from = toMs(range.from ?? stored.from), to = toMs(range.to ?? stored.to);
  return to > from ? { from, to } : null;
}

/** Moves the range by its width, or makes it twice as wide. */
function moved(view: View, by: number, wider: number) {
  const span = spanOf(view);
  if (!span) return;
  const width = span.to - span.from;
  setRange(span.from + by * width - wider * width, span.to + by * width + wider * width);
}

function RangeDialog({ view, close }: { view: View; close: () => void }) {
  const d = useRef<HTMLDialogElement>(null), [from, setFrom] = useState(view.from ?? ''), [to, setTo] = useState(view.to ?? ''), [wrong, setWrong] = useState('');
  const asked = useRef(0); // counts what was applied: the answer to an earlier one has no effect
  useEffect(() => { d.current!.showModal(); return () => { asked.current = -1; }; }, []);
  const quick = (range: string) => {
    change({ range, from: '', to: '', cursor: '' });
    d.current!.close();
  };
  const apply = async (fromText: string, toText: string) => {
    const number = ++asked.current;
    try {
      const [a, b] = await Promise.all([fromText, toText].map(async (text) => (text.trim() && (await readTime(text.trim(), view.host))) || ''));
      if (number !== asked.current) return;
      if (a && b && a > b) throw new Error('From is after To');
      change({ range: '', from: a, to: b, cursor: '' });
      d.current!.close();
    } catch (e) {
      if (number === asked.current) setWrong(messageOf(e));
    }
  };
  const field = (label: string, text: string, set: (text: string) => void) => <div class="tools">
    <label class="field time"><span>{label}</span><input value={text} placeholder="2026-01-31 14:03" spellcheck={false} aria-invalid={!!wrong} aria-describedby="range-forms"
      onInput={(e) => { set(e.currentTarget.value); setWrong(''); }} /></label>
    <label class="field"><span>{label} (calendar)</span><input type="datetime-local" step="1" value={Number.isNaN(toMs(text)) ? '' : text.slice(0, 19)}
      onChange={(e) => { set(e.currentTarget.value && e.currentTarget.value.padEnd(19, ':00') + 'Z'); setWrong(''); }} /></label></div>;
  return <dialog ref={d} onClose={close} aria-labelledby="range-title"><h2 id="range-title">Time range</h2>
    <div class="quick" role="group" aria-label="Quick ranges">
      <button aria-pressed={!view.range && !view.from && !view.to} onClick={() => quick('')}>all</button>
      {RANGE_NAMES.map((r) => <button aria-pressed={view.range === r} onClick={() => quick(r)}>last {r}</button>)}
      {DAYS.map(([name, a, b]) => <button onClick={() => apply(a, b)}>{name}</button>)}</div>
    <form onSubmit={(e) => { e.preventDefault(); void apply(from, to); }}>
      {field('From', from, setFrom)}{field('To', to, setTo)}
      {wrong && <p class="notice bad" role="alert">It has no effect: {wrong}</p>}
      <p class="note" id="range-forms">{FORMS}</p>
      <p class="tools"><button>Apply</button><button type="button" onClick={() => d.current!.close()}>Cancel</button></p>
    </form></dialog>;
}

export function RangePicker({ view }: { view: View }) {
  const [open, setOpen] = useState(false), text = rangeText(view), fixed = !spanOf(view);
  useEffect(() => { // a link may have such a time, too; the pages compare times
    for (const name of ['from', 'to'] as const) {
      const given = view[name];
      if (given && Number.isNaN(toMs(given)))
        readTime(given, view.host).then((time) => change({ [name]: time }, true), () => {}); // the page reports a wrong one
    }
  }, [view.from, view.to]);
  useLayoutEffect(() => { // with the view itself: of two quick keys the second one moves what the first one made
    const keys: Readonly<Record<string, () => void>> = { t: () => setOpen(true), ',': () => moved(view, -1, 0), '.': () => moved(view, 1, 0), z: () => moved(view, 0, 0.5) };
    const key = (e: KeyboardEvent) => {
      if (isTyping(e) || !Object.hasOwn(keys, e.key) || document.querySelector('dialog[open]')) return;
      keys[e.key]();
      e.preventDefault();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  });
  return <div class="range" role="group" aria-label="Time range">
    <button disabled={fixed} aria-label="Earlier" title="earlier (,)" onClick={() => moved(view, -1, 0)}>‹</button>
    <button class="span" aria-haspopup="dialog" aria-label={`Time range: ${text}`} title="change the time range (t)" onClick={() => setOpen(true)}>{text}</button>
    <button disabled={fixed} aria-label="Later" title="later (.)" onClick={() => moved(view, 1, 0)}>›</button>
    <button disabled={fixed} aria-label="Twice as wide" title="twice as wide (z)" onClick={() => moved(view, 0, 0.5)}>↔</button>
    {open && <RangeDialog view={view} close={() => setOpen(false)} />}
  </div>;
}
