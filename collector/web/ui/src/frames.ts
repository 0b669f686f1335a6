// Sums over the tree of a flame graph: what a search finds, and who calls a function and whom it calls.

/** A frame under its callers. value: with its callees; other: of the other side of a difference. */
export interface Frame { name: string; value: number; self?: number; other?: number; children: Frame[] }

/** Whether a search finds a name: case does not count; an empty search finds none. */
export const fits = (name: string, find: string) => find !== '' && name.toLowerCase().includes(find.toLowerCase());

export interface Found { value: number; other: number; names: number }
/** What a search finds: the sum of the outermost frames, so that no sample counts twice, and the number of different names. */
export function found(root: Frame, find: string): Found {
  const sum = { value: 0, other: 0 }, names = new Set<string>();
  const look = (n: Frame, isInside: boolean) => {
    const isFound = n !== root && fits(n.name, find);
    if (isFound) names.add(n.name);
    if (isFound && !isInside) {
      sum.value += n.value;
      sum.other += n.other ?? 0;
    }
    for (const c of n.children) look(c, isInside || isFound);
  };
  look(root, false);
  return { ...sum, names: names.size };
}

interface Sum { name: string; value: number; self: number; other: number; children: Map<string, Sum> }
const empty = (name: string): Sum => ({ name, value: 0, self: 0, other: 0, children: new Map() });
function under(parent: Sum, name: string) {
  const old = parent.children.get(name), it = old ?? empty(name);
  if (!old) parent.children.set(name, it);
  return it;
}
function add(to: Sum, from: Frame) {
  to.value += from.value;
  to.other += from.other ?? 0;
}
function frameOf(s: Sum): Frame {
  return { name: s.name, value: s.value, self: s.self, other: s.other, children: [...s.children.values()].map(frameOf).sort((a, b) => b.value - a.value) };
}

/**
 * The callers of a function as a tree that grows from it to the outermost ones, and its callees as one that grows inwards. Both are of the
 * function's outermost frames: where it calls itself, it is among its callees, and no sample counts twice. Both roots have the same sum.
 */
export function around(root: Frame, name: string): { callers: Frame; callees: Frame } {
  const callers = empty(name), callees = empty(name), path: Frame[] = [];
  const graft = (to: Sum, from: Frame) => {
    add(to, from);
    to.self += from.self ?? 0;
    for (const c of from.children) graft(under(to, c.name), c);
  };
  const look = (n: Frame) => {
    if (n !== root && n.name === name) {
      graft(callees, n);
      let at = callers;
      add(at, n);
      for (const caller of [...path].reverse()) add(at = under(at, caller.name), n);
      return;
    }
    if (n !== root) path.push(n);
    n.children.forEach(look);
    if (n !== root) path.pop();
  };
  look(root);
  return { callers: frameOf(callers), callees: frameOf(callees) };
}
