// Detections: the queue of what Sigma rules matched, and one of them beside its rule.
import { useState } from 'preact/hooks';
import { asJson, ask, messageOf, url, useApi, type Answer, type Item, type State } from './api';
import { Facts, HostLink, Link, Notice, Pages, ProcessLink, Search, Table, type ProcessRow } from './parts';
import { change, rangeOf, shortTime, toIso, toMs, type View } from './state';

const STATES = ['open', 'acknowledged', 'closed'], LEVELS = ['critical', 'high', 'medium', 'low', 'informational'];
const AROUND_MS = 5 * 60e3; // of the machine's timeline, before and after
const GRAVE = ['critical', 'high'];

type One = Answer<'detections/{number}'>;
/** A process of a chain, as the text of JSON has it. */
interface Parent extends ProcessRow { account?: string; begin?: string; command_line?: string }

// The value of a text of JSON; empty where the text is none.
function parsed<T>(json: string | null, empty: T): T {
  try {
    return JSON.parse(json ?? 'null') ?? empty;
  } catch {
    return empty;
  }
}
const levelOf = (r: Item<'detections'> | One) => <span class={GRAVE.includes(r.level ?? '') ? 'bad' : ''}>{r.level}</span>;
const processOf = (r: Item<'detections'> | One) => (r.pid === null ? r.process : `${r.process ?? ''} (${r.pid})`);

export function Detections({ view }: { view: View }) {
  const [times, setTimes] = useState(0); // that a state was set: then the detection is asked for again
  return view.number ? <Detection key={times} view={view} onSet={() => setTimes(times + 1)} /> : <Queue view={view} />;
}

function Choice({ name, label, view, values, any, fallback = '' }: { name: string; label: string; view: View; values: readonly string[]; any: string; fallback?: string }) {
  return <label class="field"><span>{label}</span><select value={view[name] ?? fallback} onChange={(e) => change({ [name]: e.currentTarget.value, cursor: '' })}>
    <option value={fallback ? 'all' : ''}>{any}</option>{values.map((v) => <option value={v}>{v}</option>)}</select></label>;
}

function Queue({ view }: { view: View }) {
  const state = view.state ?? 'open';
  const s = useApi(url('detections', { host: view.host, state: state === 'all' ? '' : state, level: view.level, rule: view.rule, ...rangeOf(view), cursor: view.cursor, sort: view.sort, descending: view.descending }), 10000);
  return <>
    <h1>Detections</h1>
    <div class="tools">
      <Choice name="state" label="State" view={view} values={STATES} any="all" fallback="open" />
      <Choice name="level" label="Level" view={view} values={LEVELS} any="all" />
      <Search name="host" label="Machine (none: all)" view={view} hotkey="/" />
      <Search name="rule" label="Rule (id)" view={view} />
    </div>
    <Notice state={s} empty="nothing was detected that fits; rules run where the collector has the option rules" />
    {s.data?.items.length ? <Table label="Detections" rows={s.data.items} view={view} of={s.address} columns={[
      { title: 'Time', sort: 'time', show: (r) => shortTime(r.time) }, { title: 'Level', show: levelOf },
      { title: 'What', show: (r) => <Link to={{ page: 'detections', number: r.number, range: view.range, from: view.from, to: view.to }}>{r.title || r.rule}</Link> },
      { title: 'Machine', sort: 'host', show: (r) => <HostLink host={r.host} view={view} /> }, { title: 'Process', show: processOf },
      { title: 'State', show: (r) => r.state + (r.who ? ` by ${r.who}` : '') }, { title: 'Tags', show: (r) => parsed<string[]>(r.tags, []).join(', ') }]} /> : null}
    <Pages view={view} data={s.data} />
  </>;
}

// What a person says about it. onSet: the answer is there.
function Judge({ d, onSet }: { d: One; onSet: () => void }) {
  const [comment, setComment] = useState(d.comment ?? ''), [answer, setAnswer] = useState<State<object>>({});
  const set = async (state: string) => {
    setAnswer({ loading: true });
    try {
      await ask(url('detections/{number}', { number: d.number }), asJson({ state, comment }));
      setAnswer({});
      onSet();
    } catch (error) {
      setAnswer({ error: messageOf(error) });
    }
  };
  return <form class="tools" onSubmit={(e) => e.preventDefault()}>
    <label class="field wide"><span>Comment</span><input value={comment} maxLength={1000} onInput={(e) => setComment(e.currentTarget.value)} /></label>
    {[['acknowledged', 'Acknowledge'], ['closed', 'Close'], ['open', 'Open again']].filter(([state]) => state !== d.state).map(([state, title]) =>
      <button type="button" onClick={() => set(state)}>{title}</button>)}
    <Notice state={answer} />
  </form>;
}

// The process and its parents, as they were known when it was found.
function Chain({ d }: { d: One }) {
  const rows = parsed<Parent[]>(d.chain, []);
  return rows.length ? <section><h2>The process and its parents</h2><Table label="The process and its parents" rows={rows} columns={[
    { title: 'Process', show: (p) => <ProcessLink row={p} host={d.host} /> }, { title: 'Id', right: true, show: (p) => p.pid }, { title: 'Account', show: (p) => p.account },
    { title: 'Start', show: (p) => (p.begin ? shortTime(p.begin) : '') }, { title: 'Command line', mono: true, show: (p) => <span class="wrap">{p.command_line}</span> }]} /></section> : null;
}

function Detection({ view, onSet }: { view: View; onSet: () => void }) {
  const s = useApi(url('detections/{number}', { number: view.number })), d = s.data;
  const at = toMs(d?.time), around = d && { from: toIso(at - AROUND_MS), to: toIso(at + AROUND_MS) };
  return <>
    <h1>{d ? d.title || d.rule : 'Detection'}</h1>
    <Notice state={s} />
    {d && <>
      <Facts rows={[['Time', shortTime(d.time)], ['Level', levelOf(d)], ['Machine', <HostLink host={d.host} view={view} />], ['Process', processOf(d)],
        ['State', `${d.state}${d.who ? ` by ${d.who}` : ''}${d.state_time ? `, ${shortTime(d.state_time)}` : ''}`], ['Comment', d.comment],
        ['Rule', d.rule], ['File', d.source], ['Tags', parsed<string[]>(d.tags, []).join(', ')], ['Found', shortTime(d.found)]]} />
      <p class="links"><Link to={{ page: 'host', host: d.host, ...around, at: d.time }}>The machine around it</Link>
        <Link to={{ page: 'events', host: d.host, ...around }}>Events around it</Link>
        {d.pid !== null && <Link to={{ page: 'events', host: d.host, pid: d.pid, ...around }}>Events of its process</Link>}
        <Link to={{ page: 'detections', rule: d.rule, state: 'all' }}>All of this rule</Link></p>
      <Judge key={d.number} d={d} onSet={onSet} />
      <Chain d={d} />
      <div class="two">
        <section><h2>Fields</h2><Table label="Fields" rows={Object.entries(parsed<Record<string, string>>(d.fields, {}))} columns={[{ title: 'Field', show: ([name]) => name }, { title: 'Value', mono: true, show: ([, value]) => <span class="wrap">{value}</span> }]} /></section>
        <section><h2>The rule as it was</h2>{d.rule_text ? <pre class="wrap rule" tabIndex={0}>{d.rule_text}</pre> : <p class="notice">its text was not kept</p>}</section>
      </div>
    </>}
  </>;
}
