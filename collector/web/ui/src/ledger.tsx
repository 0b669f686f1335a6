// Ledger: where every event went, as a picture, out of the last numbers of each run; and gaps on a line of time, each with its cause in words.
import { useMemo, useState } from 'preact/hooks';
import { download, messageOf, sqlText, useSql, type Item, type SqlValue } from './api';
import { isPeriod, lossText, lostEvents, Link, Notice, Table } from './parts';
import { Sankey, type Flow, type Place, type Tone } from './sankey';
import { change, linkTime, shortTime, spanOf, toIso, toMs, type Change, type View } from './state';

type State = readonly [counter: string, label: string, tone: Tone];
// delivered = the sum of these
const AFTER_DELIVERED: readonly State[] = [['events_batched', 'written into batches', 'kept'], ['events_pending', 'in the open batch', 'wait'], ['events_filtered', 'filtered', 'less'], ['events_sampled_out', 'sampled out', 'less'],
  ['events_limited', 'over a limit', 'less'], ['events_repeated', 'repeated', 'less'], ['events_aggregated', 'aggregated by a program', 'less'], ['events_dropped_full', 'dropped: pipeline full', 'lost'], ['events_dropped_oversize', 'dropped: too large', 'lost']];
// batched + synthesised = the sum of these
const AFTER_BATCHED: readonly State[] = [['events_acknowledged', 'acknowledged', 'kept'], ['events_unanswered', 'sent, not answered yet', 'wait'], ['events_spooled', 'in the spool', 'wait'], ['events_compressing', 'being compressed', 'wait'],
  ['events_recorded', 'kept by a recorder', 'kept'], ['events_removed_size', 'removed: recorder full', 'less'], ['events_removed_age', 'removed: too old for the recorder', 'less'], ['events_unrecorded', 'lost: no room for the recorder', 'lost'],
  ['events_evicted_size', 'evicted: spool full', 'lost'], ['events_evicted_age', 'evicted: too old', 'lost'], ['events_evicted_damage', 'evicted: unreadable', 'lost'], ['events_evicted_refused', 'evicted: refused by a collector', 'lost']];
const SOURCES: readonly State[] = [['events_synthesised', 'made by the agent', 'source'], ['events_delivered', 'delivered', 'source']];
const STATES = [...SOURCES, ...AFTER_DELIVERED, ...AFTER_BATCHED], MOST_FAMILIES = 64, MOST_GAPS = 30;

// ---- the numbers ----

const whose = (host: string, family: string) => `family = ${sqlText(family)}${host ? ` AND host = ${sqlText(host)}` : ''}`;
const COUNTERS = STATES.map(([c]) => `'${c}'`).join(', ');
const halves = (value: string) => `sum((${value} >> 32) & 4294967295) AS high, sum(${value} & 4294967295) AS low`; // a sum may have more than 63 bits
const totalOf = (states: readonly State[]) => `total(value) FILTER (WHERE counter IN (${states.map(([c]) => `'${c}'`).join(', ')}))`;
interface Sum { name: string; high: SqlValue; low: SqlValue }
/** The sums of the counters; how many runs there are, and how many do not balance; what of them is stored, and what of that is acknowledged. */
const sumsSql = (host: string, family: string) => `WITH t AS MATERIALIZED (SELECT host, stream, counter, value, stored FROM ledger_last WHERE ${whose(host, family)} AND counter IN (${COUNTERS})),
  r AS (SELECT max(stored) AS stored, max(CASE counter WHEN 'events_acknowledged' THEN max(value, 0) ELSE 0 END) AS known,
    ${totalOf([SOURCES[1]])} <> ${totalOf(AFTER_DELIVERED)} OR ${totalOf([AFTER_DELIVERED[0], SOURCES[0]])} <> ${totalOf(AFTER_BATCHED)} AS wrong FROM t GROUP BY host, stream)
  SELECT counter AS name, ${halves('value')} FROM t GROUP BY counter UNION ALL SELECT 'runs', 0, count(*) FROM r UNION ALL SELECT 'wrong', 0, sum(wrong) FROM r
  UNION ALL SELECT 'stored', ${halves('stored')} FROM r UNION ALL SELECT 'both', ${halves('min(stored, known)')} FROM r`;
/** The rows of a number: for a machine each change, for the fleet the runs that have one. */
const rowsSql = (counter: string, host: string, family: string) => (host ? `SELECT time_text(time) AS time, stream, batch, value FROM ledger WHERE ${whose(host, family)} AND counter = '${counter}' ORDER BY 1 DESC LIMIT 1000`
  : `SELECT host, stream, value FROM ledger_last WHERE ${whose(host, family)} AND counter = '${counter}' AND value <> 0 ORDER BY value DESC LIMIT 1000`);
const whole = (high: SqlValue, low: SqlValue) => (BigInt(high ?? 0) << 32n) + BigInt(low ?? 0);

/** What a ledger says: the last values by counter; stored: of the events stored here all, and those that are acknowledged. null: it is not known, of a group of classes. */
export interface Book { values: ReadonlyMap<string, bigint>; stored: bigint | null; both: bigint | null }
/** The two sides of both equations, the picture, and its numbers as rows. */
export function pictureOf({ values, stored, both }: Book, link: (counter: string) => Change, events: Change) {
  const value = (counter: string) => values.get(counter) ?? 0n, sum = (states: readonly State[]) => states.reduce((n, [c]) => n + value(c), 0n);
  const delivered = [value('events_delivered'), sum(AFTER_DELIVERED)] as const, batched = [value('events_batched') + value('events_synthesised'), sum(AFTER_BATCHED)] as const;
  const beyond = ([left, right]: readonly [bigint, bigint]) => (right > left ? right - left : 0n), missing = ([left, right]: readonly [bigint, bigint]) => (left > right ? left - right : 0n);
  const places: Place[] = [], flows: Flow[] = [];
  const end = (from: string, column: number, [key, label, tone]: State, n: bigint, to: Change | undefined, drawn = n, over = 0n) => {
    places.push({ key, column, label: key === 'events_batched' ? 'in batches' : label, tone, value: drawn, over });
    flows.push({ key, from, to: key, label, tone, value: n, link: to });
  };
  for (const [key, label, tone] of SOURCES) places.push({ key, column: 0, label, tone, value: value(key), over: key === 'events_delivered' ? beyond(delivered) : 0n });
  flows.push({ key: 'events_synthesised', from: 'events_synthesised', to: 'events_batched', label: SOURCES[0][1], tone: 'source', value: value('events_synthesised'), link: link('events_synthesised') });
  for (const one of AFTER_DELIVERED) end('events_delivered', 1, one, value(one[0]), link(one[0]), ...(one[0] === 'events_batched' ? [batched[0], beyond(batched)] : []));
  end('events_delivered', 1, ['none_delivered', 'in no state', 'lost'], missing(delivered), link('events_delivered'));
  for (const one of AFTER_BATCHED) end('events_batched', 2, one, value(one[0]), link(one[0]));
  end('events_batched', 2, ['none_batched', 'in no state', 'lost'], missing(batched), link('events_batched'));
  if (both !== null) {
    end('events_acknowledged', 3, ['stored', 'stored here', 'kept'], both, events);
    end('events_acknowledged', 3, ['elsewhere', 'not stored here', 'wait'], value('events_acknowledged') - both, link('events_acknowledged'));
  }
  const rows = [...STATES.map(([counter, label]) => ({ key: counter, label, value: value(counter) })), ...(both === null || stored === null ? [] : [{ key: 'stored', label: 'acknowledged and stored here', value: both },
    { key: 'elsewhere', label: 'acknowledged, not stored here', value: value('events_acknowledged') - both }, { key: 'unknown', label: 'stored here, the acknowledgement is not counted yet', value: stored - both }])];
  return { delivered, batched, places, flows, rows };
}

function Balance({ what, sides: [left, right] }: { what: string; sides: readonly [bigint, bigint] }) {
  const off = left > right ? `${left - right} are in none` : `${right - left} too many are in one`;
  return <p class={left === right ? 'note balance' : 'notice bad balance'} data-left={String(left)} data-right={String(right)}>{String(left)} {what}; {left === right ? 'each is in one of the states right of it' : off + ' of the states right of it'}.</p>;
}

/** Every event of the fleet, or of a machine, and of these all or those of one group of classes. */
export function LedgerFlow({ view }: { view: View }) {
  const host = view.host ?? '', family = view.family ?? '', [wrong, setWrong] = useState('');
  const sums = useSql<Sum>(sumsSql(host, family), 100, host ? 10000 : 60000);
  const families = useSql<{ family: string }>(`SELECT family FROM ledger_last WHERE family <> '' AND counter = 'events_delivered'${host ? ` AND host = ${sqlText(host)}` : ''} GROUP BY family ORDER BY total(value) DESC, family LIMIT ${MOST_FAMILIES}`);
  const names = [...new Set([...(families.data?.items ?? []).map((f) => f.family), family])].filter(Boolean);
  const made = useMemo(() => {
    const values = new Map((sums.data?.items ?? []).map((s) => [s.name, whole(s.high, s.low)])), of = (name: string) => values.get(name) ?? 0n;
    const known = family ? { stored: null, both: null } : { stored: of('stored'), both: of('both') };
    return { ...known, ...pictureOf({ values, ...known }, (counter) => ({ page: 'queries', sql: rowsSql(counter, host, family) }), { page: 'events', host }), runs: of('runs'), unbalanced: of('wrong') };
  }, [sums.data, host, family]);
  const save = () => {
    setWrong('');
    download(`SELECT host, stream, family, counter, value FROM ledger_last WHERE ${whose(host, family)} AND counter IN (${COUNTERS}) ORDER BY 1, 2, 4`, 'csv').catch((e: unknown) => setWrong(messageOf(e)));
  };
  return <section class="chart"><h2>Where events went</h2>
    <p class="note">The last numbers of each run{host ? ` of ${host}` : ' of each machine'}, since its beginning. A ribbon leads to its rows.</p>
    <div class="tools"><label class="field"><span>Group of classes</span><select value={family} onChange={(e) => change({ family: e.currentTarget.value })}>
      <option value="">all events</option>{names.map((n) => <option value={n}>{n}</option>)}</select></label></div>
    <Notice state={sums} />{sums.data?.ending === 'whole' && !made.runs && <p class="notice">no agent has sent numbers of these</p>}
    {made.runs > 0n && <>
      <Sankey label="Where events went" what="events" places={made.places} flows={made.flows} total={made.delivered[0]} />
      <p class="note">{([['kept', 'kept'], ['wait', 'waits, or has not come'], ['less', 'left out as configured, or removed'], ['lost', 'lost']] as const).map(([tone, text]) => <span><svg class="tone" viewBox="0 0 10 10" aria-hidden="true"><rect class={tone} width="10" height="10" /></svg> {text} </span>)}</p>
      <Balance what="events were delivered" sides={made.delivered} /><Balance what="events went into batches" sides={made.batched} />
      {made.unbalanced > 0n && <p class="notice bad">{String(made.unbalanced)} of {String(made.runs)} runs do not balance: the alerts name them.</p>}
      <details class="numbers"><summary>Numbers</summary><p class="export"><button type="button" onClick={save}>CSV</button></p>{wrong && <p class="notice bad" role="alert">{wrong}</p>}
        <Table label="Where events went: numbers" rows={made.rows} columns={[{ title: 'State', name: 'label' }, { title: 'Counter', show: (r) => (r.key.startsWith('events_') ? r.key : ''), mono: true }, { title: 'Events', right: true, show: (r) => String(r.value) }]} /></details></>}
  </section>;
}

// ---- gaps over time ----

const WIDTH = 1000, ROW = 22, AXIS = 18, TICKS = 4, SIDE = 10;

/** Periods of which something is missing, a row each: from when to when, whose, and why in words. A period without a known begin or end reaches to the side. */
export function GapLine({ gaps, view }: { gaps: readonly Item<'gaps'>[]; view: View }) {
  const all = gaps.filter(isPeriod), periods = all.slice(0, MOST_GAPS), known = periods.flatMap((g) => [toMs(g.begin), toMs(g.end)]).filter((ms) => !Number.isNaN(ms));
  if (!known.length) return null;
  const span = spanOf(view), begin = Math.min(...known), end = Math.max(...known), margin = Math.max(500, (end - begin) / 50);
  const from = span?.from ?? begin - margin, to = span?.to ?? end + margin, height = AXIS + periods.length * ROW;
  const x = (ms: number) => Math.round(10 * (SIDE + (Math.min(1, Math.max(0, (ms - from) / (to - from)))) * (WIDTH - 2 * SIDE))) / 10;
  return <div class="scroll picture" tabIndex={0} role="region" aria-label="Gaps over time">
    <svg class="gaps" viewBox={`0 0 ${WIDTH} ${height}`} role="group" aria-label={`Gaps over time: ${periods.length}${all.length > periods.length ? ` of ${all.length}` : ''}; the table below has all`}>
      {Array.from({ length: TICKS }, (_, i) => from + ((to - from) * i) / TICKS).map((t) => <g key={t}><path class="tick" d={`M${x(t)} 0V${height}`} /><text class="at" x={x(t) + 3} y="12">{shortTime(toIso(t))}</text></g>)}
      {periods.map((g, i) => {
        const [a, b] = [toMs(g.begin), toMs(g.end)], left = Number.isNaN(a) ? 0 : x(a), right = Number.isNaN(b) ? WIDTH : x(b), width = Math.max(3, right - left), y = AXIS + i * ROW;
        const words = `${view.host ? '' : g.host + ': '}${lossText(g)}`, isLate = left > WIDTH / 2, isWide = width > WIDTH / 2;
        const text = `${words}; from ${shortTime(g.begin) || 'an unknown time'} to ${shortTime(g.end) || 'an unknown time'}; events: ${lostEvents(g)}`;
        const around = Number.isNaN(a) || Number.isNaN(b) ? {} : { from: linkTime(a - Math.max(1000, b - a)), to: linkTime(b + Math.max(1000, b - a)) };
        return <Link key={i} to={{ page: 'host', host: g.host, ...around }} aria-label={text}><rect class={g.kind === 'batches' && g.cause === 'missing' ? 'wait' : 'lost'} x={left} y={y + 3} width={width} height={ROW - 8}><title>{text}</title></rect>
          <text x={isWide ? Math.max(left, SIDE) + 4 : isLate ? left - 5 : left + width + 5} y={y + ROW / 2 + 3} text-anchor={isLate && !isWide ? 'end' : 'start'}>{words.slice(0, 90)}</text></Link>;
      })}
    </svg></div>;
}
