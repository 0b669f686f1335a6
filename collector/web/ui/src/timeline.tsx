// Processes of a machine as bars over time, on a canvas; gaps are shaded. The cursor is moved with the mouse or
// the arrow keys; + and - zoom, Up and Down choose a bar, Enter opens it.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { useCanvas } from './parts';
import { toIso, shortTime } from './state';

const ROW = 15, TOP = 22, MOST_HEIGHT = 330;

export interface Span { begin: number; end: number }
export interface Bar<R> extends Span { name: string; row_data: R }

// Bars in rows: one that ends before another begins may share its row.
function pack<R>(bars: readonly Bar<R>[]) {
  const ends: number[] = [];
  return bars.map((b) => {
    let row = ends.findIndex((e) => e <= b.begin);
    if (row < 0) row = ends.length;
    ends[row] = b.end;
    return { ...b, row };
  });
}
function color(name: string) {
  let h = 0;
  for (const c of name) h = (h * 31 + c.codePointAt(0)!) % 360;
  return h;
}

interface TimelineProps<R> { processes: readonly Bar<R>[]; gaps: readonly Span[]; from: number; to: number; at: number; dark: boolean; onAt: (ms: number) => void; onRange: (from: number, to: number) => void; onOpen: (row: R) => void }
export function Timeline<R extends { pid: number | null }>({ processes, gaps, from, to, at, onAt, onRange, onOpen, dark }: TimelineProps<R>) {
  const [canvas, width, brush] = useCanvas();
  const [chosen, choose] = useState(-1);
  const [scroll, setScroll] = useState(0);
  const bars = useMemo(() => pack(processes), [processes]);
  const rows = bars.reduce((n, b) => Math.max(n, b.row + 1), 1);
  const height = Math.min(MOST_HEIGHT, TOP + rows * ROW + 6);
  const x = (ms: number) => ((ms - from) / (to - from)) * width;
  const time = (px: number) => from + (px / width) * (to - from);

  useEffect(() => {
    const g = brush(height), ink = getComputedStyle(canvas.current!).color;
    g.clearRect(0, 0, width, height);
    g.font = '11px system-ui, sans-serif';
    g.fillStyle = ink;
    const steps = Math.max(2, Math.floor(width / 150));
    for (let i = 0; i <= steps; i++) {
      const px = (width * i) / steps;
      g.globalAlpha = 0.18;
      g.fillRect(px, TOP - 4, 1, height);
      g.globalAlpha = 1;
      if (i < steps) g.fillText(toIso(time(px)).slice(11, 23), px + 3, 9);
    }
    g.save();
    g.beginPath();
    g.rect(0, TOP, width, height - TOP);
    g.clip();
    bars.forEach((b, i) => {
      const y = TOP + b.row * ROW - scroll;
      if (y < TOP - ROW || y > height) return;
      const left = Math.max(-2, x(b.begin)), right = Math.min(width + 2, x(b.end));
      if (right < 0 || left > width) return;
      g.fillStyle = `hsl(${color(b.name)} 45% ${dark ? 34 : 78}%)`;
      g.fillRect(left, y, Math.max(2, right - left), ROW - 2);
      if (i === chosen) {
        g.strokeStyle = ink;
        g.lineWidth = 2;
        g.strokeRect(left + 1, y, Math.max(2, right - left) - 2, ROW - 2);
      }
      if (right - left > 40) {
        g.fillStyle = dark ? '#fff' : '#111';
        g.save();
        g.beginPath();
        g.rect(Math.max(0, left), y, right - Math.max(0, left) - 3, ROW);
        g.clip();
        g.fillText(b.name, Math.max(2, left + 3), y + ROW / 2 - 0.5);
        g.restore();
      }
    });
    g.restore();
    for (const b of gaps) {
      const left = Math.max(-4, x(b.begin)), right = Math.max(left + 3, Math.min(width, x(b.end)));
      g.fillStyle = dark ? 'rgba(255,120,90,.33)' : 'rgba(190,40,10,.25)';
      g.fillRect(left, TOP - 6, right - left, height);
    }
    g.fillStyle = '#d11';
    g.fillRect(x(at) - 1, 0, 2, height);
  }, [bars, gaps, width, height, from, to, at, chosen, scroll, dark]);

  const find = (e: MouseEvent) => {
    const r = canvas.current!.getBoundingClientRect(), t = time(((e.clientX - r.left) / r.width) * width);
    const row = Math.floor((e.clientY - r.top - TOP + scroll) / ROW);
    return bars.findIndex((b) => b.row === row && b.begin <= t && b.end >= t);
  };
  const move = (e: MouseEvent) => {
    const r = canvas.current!.getBoundingClientRect();
    onAt(Math.min(to, Math.max(from, time(((e.clientX - r.left) / r.width) * width))));
  };
  const zoom = (factor: number, middle: number) => onRange(middle - (middle - from) * factor, middle + (to - middle) * factor);
  const key = (e: KeyboardEvent) => {
    const step = ((to - from) / 100) * (e.shiftKey ? 10 : 1);
    const alive = bars.map((_, i) => i).filter((i) => bars[i].begin <= at && bars[i].end > at).sort((a, b) => bars[a].row - bars[b].row);
    const next = (d: number) => {
      if (!alive.length) return;
      const n = alive.indexOf(chosen), i = alive[n < 0 ? 0 : Math.min(alive.length - 1, Math.max(0, n + d))];
      choose(i);
      const y = bars[i].row * ROW;
      if (y < scroll) setScroll(y);
      else if (y + ROW > scroll + height - TOP) setScroll(y + ROW - height + TOP);
    };
    if (e.key === 'ArrowLeft') onAt(Math.max(from, at - step));
    else if (e.key === 'ArrowRight') onAt(Math.min(to, at + step));
    else if (e.key === 'Home') onAt(from);
    else if (e.key === 'End') onAt(to);
    else if (e.key === '+' || e.key === '=') zoom(0.5, at);
    else if (e.key === '-') zoom(2, at);
    else if (e.key === 'ArrowDown') next(1);
    else if (e.key === 'ArrowUp') next(-1);
    else if (e.key === 'Enter' && bars[chosen]) onOpen(bars[chosen].row_data);
    else return;
    e.preventDefault();
  };
  const wheel = (e: WheelEvent) => {
    if (e.ctrlKey) {
      e.preventDefault();
      const r = canvas.current!.getBoundingClientRect();
      zoom(e.deltaY > 0 ? 1.3 : 0.75, time(((e.clientX - r.left) / r.width) * width));
    } else if (rows * ROW > height - TOP) {
      const most = rows * ROW - (height - TOP), now = Math.min(most, Math.max(0, scroll + e.deltaY));
      if (now !== scroll) { e.preventDefault(); setScroll(now); }
    }
  };
  return <div class="timeline">
    <canvas ref={canvas} tabIndex={0} role="slider" aria-label="Time cursor over the processes' bars" aria-valuemin={Math.round(from)}
      aria-valuemax={Math.round(to)} aria-valuenow={Math.round(at)}
      aria-valuetext={shortTime(toIso(at)) + (bars[chosen] ? `, ${bars[chosen].name} ${bars[chosen].row_data.pid}` : '')}
      onKeyDown={key} onWheel={wheel}
      onPointerDown={(e) => { e.currentTarget.setPointerCapture(e.pointerId); choose(find(e)); move(e); }}
      onPointerMove={(e) => e.buttons & 1 && move(e)}
      onDblClick={(e) => { const i = find(e); if (i >= 0) onOpen(bars[i].row_data); }} />
  </div>;
}
