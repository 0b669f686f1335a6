// A flame graph on a canvas, from a tree {name, value, self, children, other}. Arrow keys move, Enter zooms in, Escape out.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { useCanvas } from './parts';

const ROW = 18;

export interface Frame { name: string; value: number; self?: number; other?: number; children: Frame[] }
interface Box { n: Frame; left: number; w: number; depth: number; parent: Box | null }

function depthOf(n: Frame) {
  let most = 0;
  for (const c of n.children) most = Math.max(most, depthOf(c));
  return most + 1;
}

interface FlameProps { root: Frame; dark: boolean; label: string; total: number; differs: boolean; show: (value: number) => string }
export function Flame({ root, dark, label, total, differs, show }: FlameProps) {
  const [canvas, width, brush] = useCanvas();
  const [zoomed, zoom] = useState<Frame | null>(null);
  const [chosen, choose] = useState<Frame | null>(null);
  const top = zoomed ?? root;
  const boxes = useMemo(() => {
    const list: Box[] = [];
    const place = (n: Frame, left: number, w: number, depth: number, parent: Box | null) => {
      if (w < 0.4) return;
      const box = { n, left, w, depth, parent };
      list.push(box);
      let at = left;
      for (const c of n.children) {
        const cw = (w * c.value) / n.value;
        place(c, at, cw, depth + 1, box);
        at += cw;
      }
    };
    if (top.value) place(top, 0, width, 0, null);
    return list;
  }, [top, width]);
  const height = Math.min(900, Math.max(3, Math.min(45, depthOf(top))) * ROW);

  useEffect(() => { zoom(null); choose(null); }, [root]);
  useEffect(() => {
    const g = brush(height);
    g.font = '11px ui-monospace, monospace';
    for (const b of boxes) {
      const y = b.depth * ROW;
      let hue = 0;
      for (const ch of b.n.name.split('!')[0]) hue = (hue * 31 + ch.codePointAt(0)!) % 360;
      let fill = `hsl(${hue} 50% ${dark ? 32 : 80}%)`;
      if (differs) {
        const d = Math.max(-1, Math.min(1, (b.n.value - (b.n.other ?? 0)) / Math.max(1, b.n.value, b.n.other ?? 0)));
        fill = d >= 0 ? `hsl(5 65% ${dark ? 22 + d * 20 : 96 - d * 26}%)` : `hsl(215 65% ${dark ? 22 - d * 20 : 96 + d * 26}%)`;
      }
      g.fillStyle = fill;
      g.fillRect(b.left, y, Math.max(0.5, b.w - 0.6), ROW - 1);
      if (b.n === chosen) {
        g.strokeStyle = getComputedStyle(canvas.current!).color;
        g.lineWidth = 2;
        g.strokeRect(b.left + 1, y + 1, Math.max(1, b.w - 2), ROW - 3);
      }
      if (b.w > 26) {
        g.save();
        g.beginPath();
        g.rect(b.left, y, b.w - 3, ROW);
        g.clip();
        g.fillStyle = dark ? '#fff' : '#111';
        g.fillText(b.n.name, b.left + 3, y + ROW / 2);
        g.restore();
      }
    }
  }, [boxes, height, width, chosen, dark, differs]);

  const find = (e: MouseEvent) => {
    const r = canvas.current!.getBoundingClientRect();
    const px = ((e.clientX - r.left) / r.width) * width, depth = Math.floor((e.clientY - r.top) / ROW);
    return boxes.find((b) => b.depth === depth && b.left <= px && px < b.left + b.w);
  };
  const key = (e: KeyboardEvent) => {
    const at = boxes.find((b) => b.n === chosen) ?? boxes[0];
    if (!at) return;
    const beside = (d: number) => {
      const row = boxes.filter((b) => b.depth === at.depth).sort((a, b) => a.left - b.left);
      return row[Math.min(row.length - 1, Math.max(0, row.indexOf(at) + d))];
    };
    let to = at;
    if (e.key === 'ArrowDown') to = chosen ? boxes.find((b) => b.parent === at) ?? at : at;
    else if (e.key === 'ArrowUp') to = at.parent ?? at;
    else if (e.key === 'ArrowRight') to = beside(1);
    else if (e.key === 'ArrowLeft') to = beside(-1);
    else if (e.key === 'Enter') zoom(at.n);
    else if (e.key === 'Escape') zoom(null);
    else return;
    choose(to.n);
    e.preventDefault();
  };
  const shown = chosen ?? top;
  return <div class="flame">
    <canvas ref={canvas} tabIndex={0} role="application" aria-roledescription="flame graph"
      aria-label={`${label}: ${shown.name}, ${show(shown.value)} of ${show(total)}`} onKeyDown={key}
      onPointerMove={(e) => { const b = find(e); if (b && b.n !== chosen) choose(b.n); }}
      onClick={(e) => { const b = find(e); if (b) zoom(b.n === top ? null : b.n); }} />
    <p class="under mono" aria-live="polite">{shown.name}: {show(shown.value)} ({((100 * shown.value) / (total || 1)).toFixed(1)} %)
      {differs ? `, ${show(shown.other ?? 0)} on the other side` : ''}{zoomed ? ' — Escape goes back' : ''}</p>
  </div>;
}
