// Counts over time as bars. A bar narrows the range to its bucket; several do when one drags over them, or marks them with Shift and the arrow keys.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Item } from './api';
import { shortTime } from './state';

type Bucket = Item<'events/counts'>;

const wordsOf = (b: Bucket) => `${shortTime(b.begin)} to ${shortTime(b.end).slice(11)}: ${b.count} ${b.count === 1 ? 'event' : 'events'}`;

export function Histogram({ label, items, onRange }: { label: string; items: readonly Bucket[]; onRange: (from: string, to: string) => void }) {
  const [at, setAt] = useState(0), [anchor, setAnchor] = useState<number | null>(null), [looked, look] = useState<number | null>(null);
  const bars = useRef<HTMLDivElement>(null), dragged = useRef(false);
  useEffect(() => { setAt(0); setAnchor(null); look(null); }, [items]);
  const most = items.reduce((n, b) => Math.max(n, b.count), 1), total = items.reduce((n, b) => n + b.count, 0);
  const marked = (i: number) => anchor !== null && Math.min(anchor, at) <= i && i <= Math.max(anchor, at);
  const narrow = (a: number, b: number) => onRange(items[Math.min(a, b)].begin, items[Math.max(a, b)].end);
  const key = (e: KeyboardEvent) => {
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: items.length - 1 }[e.key];
    if (e.key === 'Escape') setAnchor(null);
    if (to === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
    const place = Math.min(items.length - 1, Math.max(0, to));
    setAnchor(e.shiftKey ? anchor ?? at : null);
    setAt(place);
    look(place);
    (bars.current!.children[place] as HTMLElement).focus();
    e.preventDefault();
  };
  useEffect(() => { // a drag may end anywhere
    const end = () => { if (dragged.current) { dragged.current = false; setAnchor(null); } };
    addEventListener('pointerup', end);
    return () => removeEventListener('pointerup', end);
  }, []);
  return <div class="histogram" role="group" aria-label={label}>
    <div class="bars" ref={bars} onKeyDown={key} onPointerLeave={() => look(null)}>{items.map((b, i) =>
      <button class={marked(i) ? 'marked' : ''} tabIndex={i === at ? 0 : -1} aria-label={wordsOf(b)} data-count={b.count}
        onFocus={() => { setAt(i); look(i); }} onBlur={() => look(null)}
        onClick={() => narrow(anchor ?? i, i)}
        onPointerDown={(e) => { e.currentTarget.releasePointerCapture(e.pointerId); dragged.current = true; setAt(i); setAnchor(i); }}
        onPointerEnter={(e) => { look(i); if (dragged.current && e.buttons & 1) setAt(i); }}
        onPointerUp={() => { if (dragged.current && anchor !== null && anchor !== i) narrow(anchor, i); }}>
        <span style={{ height: `${(100 * b.count) / most}%` }} class={b.count ? 'some' : ''} /></button>)}</div>
    <p class="note" aria-live="polite">{looked !== null && items[looked] ? wordsOf(items[looked])
      : items.length ? `${total} ${total === 1 ? 'event' : 'events'} from ${shortTime(items[0].begin)} to ${shortTime(items[items.length - 1].end)}; a bar narrows the range` : ''}</p>
  </div>;
}
