// Charts over time: lines, or stacked areas. All charts of a page share a cursor; each has its numbers as a table and as a file.
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import type { Address, State } from './api';
import { bytes, count, duration, Link, Notice, Table, type Column } from './parts';
import { setRange, shortTime, toIso, toMs, type Change } from './state';

const SERIES = 6, DRAG_PIXELS = 4, HEIGHT = 150, MOST_BUCKETS = 120;
const COLORS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#8a8f98']; // apart for the colour-blind, too (Okabe and Ito)

/** Buckets of a time: where each begins, and their width, in ms. A question has the same width as "every". */
export interface Grid { times: readonly number[]; width: number }
export function gridOf(from: number, to: number, parts = 60): Grid {
  const width = Math.max(1, Math.round((to - from) / parts)), first = Math.floor(from / width) * width;
  const buckets = Math.min(MOST_BUCKETS, Math.floor((to - first) / width) + 1);
  return { width, times: Number.isFinite(buckets) ? Array.from({ length: Math.max(1, buckets) }, (_, i) => first + i * width) : [] };
}

/** A value in each bucket. to: what the name leads to. */
export interface Line { label: string; values: readonly number[]; to?: Change }
/** What a row says of a line: whose it is, how that is called, and its value in a bucket. weight: what lines are ordered by, where it is not the value. */
export interface Part { key: string; label: string; bucket: string | null; value: number | null; weight?: number | null; to?: Change }
/** The lines with the greatest sums, or sums of weights, the greatest first; all others are one line. */
export function linesOf<R>(rows: readonly R[], grid: Grid, of: (row: R) => Part, most = SERIES): Line[] {
  const sums = new Map<string, { sum: number; label: string; to?: Change; values: number[] }>();
  const empty = () => new Array<number>(grid.times.length).fill(0);
  for (const row of rows) {
    const p = of(row), at = Math.round((toMs(p.bucket) - grid.times[0]) / grid.width);
    const line = sums.get(p.key) ?? { sum: 0, label: p.label, to: p.to, values: empty() };
    sums.set(p.key, line);
    line.sum += Number((p.weight === undefined ? p.value : p.weight) ?? 0); // a text beyond 2^53
    line.values[Math.min(grid.times.length - 1, Math.max(0, at))] += Number(p.value ?? 0);
  }
  const ordered = [...sums.values()].sort((a, b) => b.sum - a.sum), rest = ordered.slice(most);
  if (!rest.length) return ordered;
  const values = empty();
  for (const line of rest) line.values.forEach((v, i) => { values[i] += v; });
  return [...ordered.slice(0, most), { label: 'others', values }];
}

/** A time below a chart: of a day, with fractions of a second where the steps need them, or a date where they are days. */
function axisTime(s: number, all: readonly number[]) {
  const iso = toIso(s * 1000), step = all.length > 1 ? all[1] - all[0] : 1;
  return step >= 86400 ? iso.slice(0, 10) : iso.slice(0, 10) + ' ' + iso.slice(11, step < 1 ? 23 : 19);
}

export type Unit = 'B' | 'ns';
export const written = (v: number, unit?: Unit) => (unit === 'B' ? bytes(v) : unit === 'ns' ? duration(v) : count(v));

interface ChartProps {
  title: string; state: State<{ items: unknown[] }>; grid: Grid; lines: readonly Line[]; from: number; to: number; dark: boolean; unit?: Unit;
  per?: number; // what a value is divided by where it is shown: the seconds of a bucket, of a rate
  stacked?: boolean; csv?: Address<unknown>; at?: number; onAt?: (ms: number) => void;
}
export function Chart({ title, state, grid, lines, from, to, dark, unit, per = 1, stacked, csv, at, onAt }: ChartProps) {
  const box = useRef<HTMLDivElement>(null), plot = useRef<uPlot>(), [isOpen, open] = useState(false);
  const cursor = useRef({ at, onAt });
  cursor.current = { at, onAt };
  const isEmpty = !lines.length || !grid.times.length;
  useEffect(() => {
    const target = box.current;
    if (isEmpty || !target) return undefined;
    const ink = dark ? '#c9d4e2' : '#31404f', lattice = { stroke: dark ? '#2b3644' : '#dde3ea', width: 1 };
    const show = (v: number) => written(v, unit) + (per === 1 ? '' : '/s');
    const shown = lines.map((l) => l.values.map((v) => v / per));
    // each area reaches down to the ground, the next one is painted over it
    const heights = stacked ? shown.map((_, i) => grid.times.map((_t, x) => shown.slice(i).reduce((n, v) => n + v[x], 0))) : shown;
    const x = [...grid.times, grid.times[grid.times.length - 1] + grid.width].map((t) => t / 1000); // the last bucket has an end, too
    const color = (i: number) => COLORS[i % COLORS.length];
    const made = new uPlot({
      width: target.clientWidth, height: HEIGHT, legend: { live: true },
      cursor: { drag: { x: true, y: false, setScale: false }, sync: { key: 'time', setSeries: false, filters: { pub: (type) => type === 'mousemove' || type === 'mouseleave', sub: () => true } } },
      hooks: {
        setSelect: [(u) => { // what one drags over becomes the range of the page, and of all others
          if (u.select.width >= DRAG_PIXELS) setRange(u.posToVal(u.select.left, 'x') * 1000, u.posToVal(u.select.left + u.select.width, 'x') * 1000);
        }],
        draw: [(u) => {
          const now = cursor.current.at;
          if (now === undefined || !(now >= from && now <= to)) return;
          u.ctx.fillStyle = '#d11';
          u.ctx.fillRect(u.valToPos(now / 1000, 'x', true) - devicePixelRatio, u.bbox.top, 2 * devicePixelRatio, u.bbox.height);
        }],
      },
      scales: { x: { time: true, range: () => [from / 1000, to / 1000] }, y: { range: (_u, _least, most) => [0, most > 0 ? most * 1.05 : 1] } },
      axes: [{ stroke: ink, grid: lattice, ticks: lattice, space: 150, values: (_: uPlot, v: number[]) => {
        const labels = v.map((s) => axisTime(s, v)); // times are UTC everywhere on the page
        target.dataset.axis = labels.join(' ');
        return labels;
      } }, { stroke: ink, grid: lattice, ticks: lattice, size: 84, values: (_: uPlot, v: number[]) => v.map(show) }],
      series: [{ label: 'time', value: (_, v) => (v ? toIso(v * 1000).slice(11, 23) : '') }, ...lines.map((l, i): uPlot.Series => ({ label: l.label, stroke: color(i), width: 1.5,
        ...(stacked && { fill: color(i), paths: uPlot.paths.stepped!({ align: 1 }) }), points: { show: !stacked && x.length < 40 },
        value: (_u, _v, _s, at) => (at === null || shown[i][at] === undefined ? '' : show(shown[i][at])) }))],
    }, [x, ...heights.map((v) => [...v, stacked ? v[v.length - 1] : null])], target);
    plot.current = made;
    let pressed = 0;
    const down = (e: MouseEvent) => { pressed = e.clientX; };
    const click = (e: MouseEvent) => {
      if (Math.abs(e.clientX - pressed) < DRAG_PIXELS) cursor.current.onAt?.(made.posToVal(e.clientX - made.over.getBoundingClientRect().left, 'x') * 1000);
    };
    made.over.addEventListener('mousedown', down);
    made.over.addEventListener('click', click);
    const watch = new ResizeObserver(([e]) => made.setSize({ width: e.contentRect.width, height: HEIGHT }));
    watch.observe(target);
    return () => { watch.disconnect(); made.destroy(); plot.current = undefined; };
  }, [lines, grid, from, to, dark, isEmpty]);
  useEffect(() => { plot.current?.redraw(false, false); }, [at]);
  const total = lines.reduce((n, l) => n + l.values.reduce((m, v) => m + v, 0), 0);
  const columns: readonly Column<number>[] = [{ title: 'Time', show: (i) => shortTime(toIso(grid.times[i])) },
    ...lines.map((l, n): Column<number> => ({ title: l.label, right: true, show: (i) => (n < lines.length ? lines[n].values[i] : '') }))];
  return <section class="chart"><h2>{title}</h2><Notice state={state} empty="nothing is recorded in this range" />
    {isEmpty ? null : <>
      <div ref={box} class={stacked ? 'stacked' : ''} data-total={total} role="img" aria-label={`${title}: ${lines.length} ${lines.length === 1 ? 'line' : 'lines'}; the table below it has the numbers`} />
      {lines.some((l) => l.to) && <p class="links">{lines.filter((l) => l.to).map((l) => <Link to={l.to!}>{l.label}</Link>)}</p>}
      <details class="numbers" onToggle={(e) => open(e.currentTarget.open)}><summary>Numbers</summary>
        {csv && <p class="export"><a href={csv} download>CSV</a></p>}
        {isOpen && <Table label={title} columns={columns} rows={grid.times.map((_, i) => i)} of={`${from} ${to} ${total}`} />}</details></>}
  </section>;
}
