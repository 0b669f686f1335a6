// Security: processes that connect to one address at regular intervals, as a program that waits for orders does.
import { sqlText, useSql } from './api';
import { Costly, count, duration, HostLink, Link, Notice, ProcessLink, Search, Table } from './parts';
import { rangeOf, shortTime, type View } from './state';

const LEAST = 5, MOST_IRREGULAR = 0.2, ROWS = 100;

interface Found { host: string; stream: string | null; instance: number | null; pid: number | null; image_name: string | null; remote: string; port: number | null; n: number; mean: number; variance: number; first: string; last: string }

/** The statement: at least LEAST connections of a process to an address, whose intervals differ from their mean by at most a fifth (standard deviation). */
function regularSql(view: View) {
  const { from, to } = rangeOf(view);
  const where = [view.host && `host = ${sqlText(view.host)}`, from && `time >= time_ns(${sqlText(from)})`, to && `time <= time_ns(${sqlText(to)})`].filter(Boolean).map((w) => ` AND ${w}`).join('');
  return `WITH c AS MATERIALIZED (SELECT host, stream, time, json_extract(fields, '$.PID') AS pid, json_extract(fields, '$.daddr') AS remote, json_extract(fields, '$.dport') AS port FROM events
    WHERE name IN ('TcpIp/ConnectIPV4', 'TcpIp/ConnectIPV6')${where}), d AS (SELECT *, time - lag(time) OVER (PARTITION BY host, stream, pid, remote, port ORDER BY time) AS gap FROM c),
    s AS MATERIALIZED (SELECT host, stream, pid, remote, port, count(*) AS n, avg(gap) AS mean, avg(gap * 1.0 * gap) - avg(gap) * avg(gap) AS variance, min(time) AS first, max(time) AS last FROM d GROUP BY host, stream, pid, remote, port
    HAVING count(*) >= ${LEAST} AND variance <= ${MOST_IRREGULAR * MOST_IRREGULAR} * mean * mean)
    SELECT s.host, coalesce(p.stream, s.stream) AS stream, p.instance, s.pid, p.image_name, s.remote, s.port, s.n, s.mean, s.variance, time_text(s.first) AS first, time_text(s.last) AS last
    FROM s LEFT JOIN processes p ON p.process_key = process_at(s.host, s.stream, s.pid, s.last) ORDER BY s.variance / (s.mean * s.mean + 1), s.n DESC LIMIT ${ROWS}`;
}

function List({ view }: { view: View }) {
  const s = useSql<Found>(regularSql(view));
  return <><Notice state={s} empty="no process connects to an address at regular intervals in this range" />
    {s.data?.items.length ? <Table label="Regular connections" rows={s.data.items} view={view} columns={[{ title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> }, { title: 'Process', show: (r) => <ProcessLink row={r} view={view}>{`${r.image_name ?? 'pid'} ${r.pid ?? ''}`}</ProcessLink> },
      { title: 'To', show: (r) => <Link to={{ page: 'security', tab: 'connections', remote: r.remote }}>{r.remote} {r.port}</Link> }, { title: 'Connections', right: true, show: (r) => count(r.n) }, { title: 'Each', right: true, show: (r) => duration(r.mean) },
      { title: 'Irregular by', right: true, show: (r) => `${((100 * Math.sqrt(Math.max(0, r.variance))) / (r.mean || 1)).toFixed(1)} %` }, { title: 'First', show: (r) => shortTime(r.first) }, { title: 'Last', show: (r) => shortTime(r.last) }]} /> : null}</>;
}

export const Regular = ({ view }: { view: View }) => <>
  <p class="note">Processes with at least {LEAST} connections to one address and port, whose intervals differ from their mean by at most {100 * MOST_IRREGULAR} %. Updates and time services are regular, too.</p>
  <div class="tools"><Search name="host" label="Machine (none: all)" view={view} placeholder="the whole name" hotkey="/" /></div>
  <Costly view={view}><List view={view} /></Costly>
</>;
