// A flame graph on a canvas, from a tree of frames. Arrow keys move, Enter zooms in, Escape out, n goes to the next frame that a search
// finds, a shows a frame's callers and callees.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { fits, type Frame } from './frames';
import { useCanvas } from './parts';

const ROW = 18, MOST_HEIGHT = 900;

interface Box { n: Frame; left: number; w: number; depth: number; parent: Box | null }

function depthOf(n: Frame) {
  let most = 0;
  for (const c of n.children) most = Math.max(most, depthOf(c));
  return most + 1;
}

/** find: what a search highlights; upward: the root is at the bottom; onFunction: shows callers and callees of a frame's function. */
interface FlameProps { root: Frame; dark: boolean; label: string; total: number; differs: boolean; show: (value: number) => string; find?: string; upward?: boolean; onFunction?: (name: string) => void }
export function Flame({ root, dark, label, total, differs, show, find = '', upward, onFunction }: FlameProps) {
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
  const height = Math.min(MOST_HEIGHT, Math.max(upward ? 1 : 3, Math.min(45, depthOf(top))) * ROW);
  const rowOf = (y: number) => Math.floor((upward ? height - y : y) / ROW);

  useEffect(() => { zoom(null); choose(null); }, [root]);
  useEffect(() => {
    const g = brush(height);
    g.font = '11px ui-monospace, monospace';
    for (const b of boxes) {
      const y = upward ? height - (b.depth + 1) * ROW : b.depth * ROW, isFound = fits(b.n.name, find);
      let hue = 0;
      for (const ch of b.n.name.split('!')[0]) hue = (hue * 31 + ch.codePointAt(0)!) % 360;
      let fill = `hsl(${hue} 50% ${dark ? 32 : 80}%)`;
      if (differs) {
        const d = Math.max(-1, Math.min(1, (b.n.value - (b.n.other ?? 0)) / Math.max(1, b.n.value, b.n.other ?? 0)));
        fill = d >= 0 ? `hsl(5 65% ${dark ? 22 + d * 20 : 96 - d * 26}%)` : `hsl(215 65% ${dark ? 22 - d * 20 : 96 + d * 26}%)`;
      }
      g.fillStyle = isFound ? '#ffc400' : fill;
      g.globalAlpha = find && !isFound ? 0.4 : 1;
      g.fillRect(b.left, y, Math.max(0.5, b.w - 0.6), ROW - 1);
      g.globalAlpha = 1;
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
        g.fillStyle = dark && !isFound ? '#fff' : '#111';
        g.fillText(b.n.name, b.left + 3, y + ROW / 2);
        g.restore();
      }
    }
  }, [boxes, height, width, chosen, dark, differs, find, upward]);

  const boxAt = (e: MouseEvent) => {
    const r = canvas.current!.getBoundingClientRect();
    const px = ((e.clientX - r.left) / r.width) * width, depth = rowOf(e.clientY - r.top);
    return boxes.find((b) => b.depth === depth && b.left <= px && px < b.left + b.w);
  };
  const open = (n: Frame) => { if (n !== root) onFunction?.(n.name); };
  const key = (e: KeyboardEvent) => {
    const at = boxes.find((b) => b.n === chosen) ?? boxes[0];
    if (!at || e.ctrlKey || e.metaKey || e.altKey) return;
    const beside = (d: number) => {
      const row = boxes.filter((b) => b.depth === at.depth).sort((a, b) => a.left - b.left);
      return row[Math.min(row.length - 1, Math.max(0, row.indexOf(at) + d))];
    };
    const next = (d: number) => {
      const all = boxes.filter((b) => fits(b.n.name, find)).sort((a, b) => a.depth - b.depth || a.left - b.left), place = all.indexOf(at);
      return all.length ? all[(place < 0 ? (d > 0 ? 0 : -1) : place + d + all.length) % all.length] ?? all[all.length - 1] : at;
    };
    const inwards = upward ? 'ArrowUp' : 'ArrowDown', outwards = upward ? 'ArrowDown' : 'ArrowUp';
    let to = at;
    if (e.key === inwards) to = chosen ? boxes.find((b) => b.parent === at) ?? at : at;
    else if (e.key === outwards) to = at.parent ?? at;
    else if (e.key === 'ArrowRight') to = beside(1);
    else if (e.key === 'ArrowLeft') to = beside(-1);
    else if (e.key === 'n') to = next(1);
    else if (e.key === 'N') to = next(-1);
    else if (e.key === 'a' && onFunction) open(at.n);
    else if (e.key === 'Enter') zoom(at.n);
    else if (e.key === 'Escape') zoom(null);
    else return;
    choose(to.n);
    e.preventDefault();
  };
  const shown = chosen ?? top;
  return <div class="flame">
    <canvas ref={canvas} tabIndex={0} role="application" aria-roledescription="flame graph"
      aria-label={`${label}: ${shown.name}, ${show(shown.value)} of ${show(total)}${fits(shown.name, find) ? ', found' : ''}`} onKeyDown={key}
      onPointerMove={(e) => { const b = boxAt(e); if (b && b.n !== chosen) choose(b.n); }}
      onClick={(e) => { const b = boxAt(e); if (b && e.shiftKey) open(b.n); else if (b) zoom(b.n === top ? null : b.n); }} />
    <p class="under mono" aria-live="polite">{shown.name}: {show(shown.value)} ({((100 * shown.value) / (total || 1)).toFixed(1)} %)
      {differs ? `, ${show(shown.other ?? 0)} on the other side` : ''}{zoomed ? ' — Escape goes back' : ''}</p>
    {zoomed && zoomed !== root && onFunction && <p class="under"><button onClick={() => zoom(null)}>Whole graph</button> <button onClick={() => open(zoomed)}>Callers and callees of {zoomed.name}</button></p>}
  </div>;
}
