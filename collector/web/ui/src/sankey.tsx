// Flows between places, in columns from left to right: a ribbon is as wide as its number. Each ribbon with rows is a link, which Tab reaches. The numbers
// are whole and exact; a ribbon below a pixel is drawn with one.
import { count, Link } from './parts';
import type { Change } from './state';

/** What a place or a flow means: its colours are apart for the colour-blind, too (Okabe and Ito), and each has its name beside it. */
export type Tone = 'source' | 'kept' | 'less' | 'wait' | 'lost';
/** over: what flows out of it beyond its number. */
export interface Place { key: string; column: number; label: string; tone: Tone; value: bigint; over?: bigint }
export interface Flow { key: string; from: string; to: string; label: string; tone: Tone; value: bigint; link?: Change }
export interface Box extends Place { x: number; y: number; height: number; overHeight: number }
export interface Ribbon extends Flow { x0: number; y0: number; x1: number; y1: number; width: number }

const WIDTH = 1000, COLUMNS = [0, 265, 545, 780], BOX = 12, FULL = 240, LINE = 17, SPACE = 7, TOP = 4;

/** Where the places and flows that are not 0 are drawn. All numbers have one scale. Flows leave and enter a place in their order. */
export function layout(places: readonly Place[], flows: readonly Flow[]): { boxes: Box[]; ribbons: Ribbon[]; height: number } {
  const sizeOf = (p: Place) => Number(p.value + (p.over ?? 0n)), shown = places.filter((p) => sizeOf(p) > 0);
  const sums = COLUMNS.map((_, c) => shown.reduce((n, p) => n + (p.column === c ? sizeOf(p) : 0), 0));
  const scale = FULL / Math.max(1, ...sums), next = COLUMNS.map(() => TOP);
  const boxes = shown.map((p): Box => {
    const height = sizeOf(p) * scale, slot = Math.max(LINE, height), y = next[p.column] + (slot - height) / 2;
    next[p.column] += slot + SPACE;
    return { ...p, x: COLUMNS[p.column], y, height, overHeight: Number(p.over ?? 0n) * scale };
  });
  const at = new Map(boxes.map((b) => [b.key, { box: b, out: b.y, in: b.y }]));
  const ribbons = flows.flatMap((f): Ribbon[] => {
    const from = at.get(f.from), to = at.get(f.to), width = Number(f.value) * scale;
    if (!from || !to || !f.value) return [];
    const made = { ...f, x0: from.box.x + BOX, y0: from.out, x1: to.box.x, y1: to.in, width };
    from.out += width;
    to.in += width;
    return [made];
  });
  return { boxes, ribbons, height: Math.max(...next) };
}

const round = (n: number) => Math.round(n * 10) / 10;
function outline(r: Ribbon) {
  const w = Math.max(1, r.width), middle = round((r.x0 + r.x1) / 2), [a, b, c, d] = [r.y0, r.y1, r.y1 + w, r.y0 + w].map(round);
  return `M${r.x0} ${a}C${middle} ${a} ${middle} ${b} ${r.x1} ${b}V${c}C${middle} ${c} ${middle} ${d} ${r.x0} ${d}Z`;
}

/** what: what is counted; total: the number that the picture begins with. */
export function Sankey({ label, what, places, flows, total }: { label: string; what: string; places: readonly Place[]; flows: readonly Flow[]; total: bigint }) {
  const { boxes, ribbons, height } = layout(places, flows);
  return <div class="scroll picture" tabIndex={0} role="region" aria-label={label}>
    <svg class="sankey" viewBox={`0 0 ${WIDTH} ${round(height)}`} role="group" aria-label={`${label}; the table below it has the numbers`} data-total={String(total)}>
      {ribbons.map((r) => {
        const text = `${r.label}: ${r.value} ${what}`, path = <path class={'flow ' + r.tone} d={outline(r)} data-flow={r.key} data-value={String(r.value)}><title>{text}</title></path>;
        return r.link ? <Link key={r.key} to={r.link} aria-label={text}>{path}</Link> : <g key={r.key}>{path}</g>;
      })}
      {boxes.map((b) => <g key={b.key} data-place={b.key} data-value={String(b.value)}>
        <rect class={b.tone} x={b.x} y={round(b.y)} width={BOX} height={round(Math.max(1, b.height))} />
        {b.overHeight > 0 && <rect class="lost" x={b.x} y={round(b.y + b.height - b.overHeight)} width={BOX} height={round(Math.max(1, b.overHeight))} />}
        <text x={b.x + BOX + 5} y={round(b.y + b.height / 2)} dy=".35em">{b.label} <tspan class="number">{count(Number(b.value))}</tspan></text></g>)}
    </svg></div>;
}
