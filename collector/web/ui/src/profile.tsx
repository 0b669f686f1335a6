// Profile: a flame graph, its functions and modules, the callers and callees of a function.
import { useMemo } from 'preact/hooks';
import { url, useApi, type Answer } from './api';
import { Flame } from './flame';
import { around, fits, found, type Frame } from './frames';
import { count, duration, Link, Notice, Search, Table, type Column } from './parts';
import { change, rangeOf, toIso, toMs, type View } from './state';

type Profiled = Answer<'profile'>;
type Top = Profiled['functions'][number];

// The tree that the canvas shows, out of the API's list of nodes.
function treeOf(d: Profiled): Frame {
  const name = (frame: number) => (frame < 0 ? d.processes?.[-1 - frame] ?? '?' : d.frames[frame]?.label ?? '?');
  const root: Frame = { name: 'all', value: d.total, other: d.other?.total, children: [] };
  const made = d.nodes.map(([, frame, self, total, , other]): Frame => ({ name: name(frame), self, value: total, other, children: [] }));
  d.nodes.forEach(([parent], i) => (parent < 0 ? root : made[parent]).children.push(made[i]));
  for (const n of [root, ...made]) n.children.sort((a, b) => b.value - a.value);
  return root;
}

/** Sums of a profile's two weights by program and function, the greatest first. */
interface Ratio { program: string; label: string; self: number; other: number }
function ratiosOf(d: Profiled) {
  const program: number[] = [], sums = new Map<string, Ratio>();
  d.nodes.forEach(([parent, frame, self, , other], i) => {
    program[i] = parent < 0 ? frame : program[parent];
    if (frame < 0 || !(self || other)) return;
    const key = program[i] + ' ' + frame;
    const row = sums.get(key) ?? { program: d.processes[-1 - program[i]], label: d.frames[frame].label, self: 0, other: 0 };
    row.self += self;
    row.other += other;
    sums.set(key, row);
  });
  return [...sums.values()].sort((a, b) => b.self + b.other - a.self - a.other);
}

const IPC = { weight: 'pmc:InstructionRetired', other_weight: 'pmc:TotalCycles' };
const OTHER_SIDE = ['other_from', 'other_to', 'other_host', 'other_label', 'other_weight'];
const EXPORTS = ['folded', 'speedscope', 'pprof', 'chrome', 'firefox'], WITHOUT_DIFFERENCE = ['chrome', 'firefox'];

/** What a profile knows to be missing, in words: of each side, as both may be of the same records. */
function lacksOf(d: Profiled) {
  const why: Record<string, string> = { unanswered: 'a user half that never came', late: 'a user half that came too late', undefined: 'a key that was never defined', no_room: 'no room for a half' };
  const of = (side: Profiled | NonNullable<Profiled['other']>, name: string) => {
    const parts = Object.keys(why).map((cause) => [(side.incomplete as Record<string, number>)[cause], why[cause]] as const).filter(([n]) => n).map(([n, text]) => `${count(n)} (${text})`);
    const text = (parts.length ? ` Stacks that are not whole: ${parts.join(', ')}.` : '') +
      (side.unfinished ? side.unfinished_ns ? ` ${count(side.unfinished)} intervals have no recorded end: ${duration(side.unfinished_ns)} of the total, without a stack.` : ` ${count(side.unfinished)} requests without a recorded end are not in it.` : '') +
      (side.unbegun ? ` ${count(side.unbegun)} requests without a recorded begin are not in it: ${duration(side.unbegun_ns)}.` : '');
    return text && name + text;
  };
  return of(d, '') + (d.other ? of(d.other, ' The other side:') : '') +
    (d.behind ? ` ${count(d.behind)} stored batches are not in the history yet: processes and modules from them are unknown.` : '');
}

interface Around { view: View; root: Frame; name: string; dark: boolean; differs: boolean; show: (value: number) => string }
/** Who calls a function, above, and whom it calls, below: as graphs, and the nearest ones as tables. */
function Sandwich({ view, root, name, dark, differs, show }: Around) {
  const { callers, callees } = useMemo(() => around(root, name), [root, name]);
  const total = callees.value, share = (v: number) => ((100 * v) / (total || 1)).toFixed(1) + ' %';
  const columns: readonly Column<Frame>[] = [{ title: 'Time or count', right: true, show: (r) => show(r.value) }, { title: 'Share', right: true, show: (r) => share(r.value) },
    ...(differs ? [{ title: 'Other side', right: true, show: (r: Frame) => show(r.other ?? 0) }] : []),
    { title: 'Function or place', mono: true, show: (r) => <Link to={{ ...view, function: r.name }}>{r.name}</Link> }];
  const graph = { dark, total, differs, show, find: view.find, onFunction: (other: string) => change({ function: other }) };
  return <section class="sandwich"><h2>Callers and callees of <span class="mono">{name}</span></h2>
    <p class="links"><Link to={{ ...view, function: '' }}>Close</Link></p>
    {total || callees.other ? <>
      <p class="note" role="status">{show(total)}, {((100 * total) / (root.value || 1)).toFixed(1)} % of all; {show(callees.self ?? 0)} of it in the function itself, where it is the outermost one.</p>
      <Flame root={callers} label="Callers" upward {...graph} />
      <Flame root={callees} label="Callees" {...graph} />
      <div class="two even"><section><h3>Callers</h3><Table label="Callers" rows={callers.children} view={view} columns={columns} of={name} /></section>
        <section><h3>Callees</h3><Table label="Callees" rows={callees.children} view={view} columns={columns} of={name} /></section></div></>
      : <p class="notice">no stack of this profile has this function</p>}
  </section>;
}

export function Profile({ view, dark }: { view: View; dark: boolean }) {
  const range = rangeOf(view), diff = view.diff === '1';
  const params = { host: view.host, label: view.label, pid: view.pid, weight: view.weight ?? 'cpu', ...range,
    ...(diff && Object.fromEntries(OTHER_SIDE.map((k) => [k, view[k]]))) };
  const s = useApi(diff && !OTHER_SIDE.some((k) => view[k]) ? null : url('profile', params));
  const info = useApi(view.host ? url('hosts/{host}', { host: view.host }) : null);
  const counters = useApi(url('counters', { host: view.host, ...range, limit: 100 }));
  const weights = [['cpu', 'CPU time'], ['samples', 'CPU samples, Idle too'], ['ready', 'ready, but no processor'], ['wait', 'waiting'], ['disk', 'disk requests'], ['faults', 'page faults'],
    ...(counters.data?.items ?? []).map((c) => [`pmc:${c.counter}`, `counter ${c.counter}`])];
  if (!weights.some(([v]) => v === params.weight)) weights.push([params.weight, params.weight]);
  const root = useMemo(() => (s.data ? treeOf(s.data) : null), [s.data]);
  const twoWeights = !!s.data?.other && (s.data.weight !== s.data.other.weight || s.data.counter !== s.data.other.counter);
  const find = view.find ?? '', hits = useMemo(() => (root ? found(root, find) : null), [root, find]);
  const functions = useMemo(() => (s.data?.functions ?? []).filter((f) => !find || fits(s.data?.frames[f.frame]?.label ?? '', find)).slice(0, 50), [s.data, find]);
  const ratios = useMemo(() => (twoWeights && s.data ? ratiosOf(s.data).slice(0, 100) : []), [s.data]);
  const weightName = (side: { counter: string | null; weight: string }) => side.counter ?? weights.find(([v]) => v === side.weight)?.[1] ?? side.weight;
  const d = s.data, share = (v: number) => ((100 * v) / (d?.total || 1)).toFixed(1) + ' %';
  const differs = !!d?.other && !twoWeights;
  const show = (v: number) => (d?.unit === 'nanoseconds' ? duration(v) : count(v));
  const from = toMs(range.from ?? info.data?.begin), to = toMs(range.to ?? info.data?.end);
  const halves = () => {
    const middle = (from + to) / 2;
    change({ diff: '1', range: '', from: toIso(middle), to: toIso(to), other_from: toIso(from), other_to: toIso(middle) });
  };
  return <>
    <h1>Profile</h1>
    <div class="tools">
      <Search name="host" label="Machine (none: all)" view={view} placeholder="the whole name" hotkey="/" />
      <Search name="pid" label="Process id (none: all)" view={view} />
      <label class="field"><span>What counts</span><select value={params.weight} onChange={(e) => change({ weight: e.currentTarget.value })}>
        {weights.map(([v, t]) => <option value={v}>{t}</option>)}</select></label>
      <Search name="label" label="Label (NAME=VALUE)" view={view} />
      {diff ? <button onClick={() => change({ diff: '', ...Object.fromEntries(OTHER_SIDE.map((k) => [k, ''])) })}>No difference</button>
        : <>{to > from && <button onClick={halves}>Second half against first</button>}
          <button onClick={() => change({ diff: '1' })}>Compare</button>
          {[IPC.weight, IPC.other_weight].every((w) => weights.some(([v]) => v === w)) && <button onClick={() => change({ diff: '1', ...IPC })}>Instructions per cycle</button>}</>}
      <span class="export">Export: {EXPORTS.filter((f) => !diff || !WITHOUT_DIFFERENCE.includes(f)).map((f) => <a href={url('profile', { ...params, format: f })} download>{f}</a>)}</span>
    </div>
    {diff && <div class="tools"><Search name="other_host" label="Compared with machine" view={view} /><Search name="other_label" label="with label" view={view} />
      <Search name="other_from" label="from" view={view} /><Search name="other_to" label="to" view={view} />
      <label class="field"><span>Its weight</span><select value={view.other_weight ?? ''} onChange={(e) => change({ other_weight: e.currentTarget.value })}>
        <option value="">the same</option>{weights.map(([v, t]) => <option value={v}>{t}</option>)}</select></label>
      <p class="note">{twoWeights ? 'The graph is of the first weight.' : 'Red grew, blue shrank, against the other side. An empty field has the value of this side.'}</p></div>}
    <Notice state={s} />
    {d && !d.total && <p class="notice">nothing of this kind is stored in this range</p>}
    {root && d?.total ? <>
      <div class="tools"><Search name="find" label="Find functions or modules" view={view} placeholder="part of a name" />
        {find && hits && <p class="note" role="status">{hits.names ? `${count(hits.names)} ${hits.names === 1 ? 'name' : 'names'}: ${show(hits.value)}, ${share(hits.value)}${differs ? `, ${show(hits.other)} on the other side` : ''}` : 'nothing is called so'}</p>}</div>
      <Flame root={root} dark={dark} label="Flame graph" total={d.total} differs={differs} show={show} find={find} onFunction={(name) => change({ function: name })} />
      {view.function && <Sandwich view={view} root={root} name={view.function} dark={dark} differs={differs} show={show} />}
      <p class="note">{count(d.events)} events of {d.hosts.length} {d.hosts.length === 1 ? 'machine' : 'machines'}, {count(d.without_stack)} of them without a stack.{lacksOf(d)}{d.notes ? ' ' + d.notes : ''}</p>
      {twoWeights && d.other && <section><h2>Ratio by program and function</h2><Table label="Ratio by program and function" rows={ratios} columns={[{ name: 'program', title: 'Program' },
        { title: 'Function or place', mono: true, show: (r) => r.label }, { title: weightName(d), right: true, show: (r) => count(r.self) },
        { title: weightName(d.other), right: true, show: (r) => count(r.other) }, { title: 'Ratio', right: true, show: (r) => (r.other ? (r.self / r.other).toFixed(3) : '') }]} /></section>}
      <div class="two">
        <section><h2>Functions</h2><Table label="Functions" rows={functions} view={view} of={find} columns={[{ title: 'Self', right: true, show: (r) => show(r.self) }, { title: 'Share', right: true, show: (r) => share(r.self) },
          { title: 'With callees', right: true, show: (r) => show(r.total) },
          ...(differs ? [{ title: 'Other side', right: true, show: (r: Top) => show(r.other_self ?? 0) }] : []), { title: 'Function or place', mono: true, show: (r) => <Link to={{ ...view, function: d.frames[r.frame]?.label }}>{d.frames[r.frame]?.label}</Link> }]} /></section>
        <section><h2>Modules</h2><Table label="Modules" rows={d.top_modules.slice(0, 50)} columns={[{ title: 'Self', right: true, show: (r) => show(r.self) }, { title: 'Share', right: true, show: (r) => share(r.self) },
          { title: 'Module', mono: true, show: (r) => d.modules[r.module]?.name }]} /></section>
      </div></> : null}
  </>;
}
