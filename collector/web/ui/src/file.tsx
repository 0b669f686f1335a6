// A file that was loaded as a module: on which machines, by which processes, since when. By its hash where one is known, and by its path.
import { sqlText, useSql } from './api';
import { bytes, Facts, HostLink, Notice, ProcessLink, Table } from './parts';
import { shortTime, type View } from './state';

const ROWS = 500;

interface Load { host: string; stream: string; instance: number | null; pid: number | null; image_name: string | null; command_line: string | null; begin: string | null; end: string | null; path: string; sha256: string | null; company: string | null; file_version: string | null; size_bytes: number | null }
interface Sum { hosts: number; loads: number; first: string | null; last: string | null }

export function FilePage({ view }: { view: View }) {
  const path = view.path ?? '', hash = view.sha256 ?? '';
  const where = [path && `path_on_volume(m.path) = path_on_volume(${sqlText(path)})`, hash && `m.sha256 = ${sqlText(hash)}`].filter(Boolean).join(' OR ') || '0';
  const sum = useSql<Sum>(`SELECT count(DISTINCT m.host) AS hosts, count(*) AS loads, time_text(min(m.begin)) AS first, time_text(max(m.begin)) AS last FROM modules m WHERE ${where}`);
  const s = useSql<Load>(`SELECT m.host, m.stream, m.process_instance AS instance, m.pid, p.image_name, p.command_line, time_text(m.begin) AS begin, time_text(m."end") AS "end", m.path, m.sha256, m.company, m.file_version, m.size_bytes
    FROM modules m LEFT JOIN processes p ON p.host = m.host AND p.stream = m.stream AND p.instance = m.process_instance WHERE ${where} ORDER BY m.begin DESC LIMIT ${ROWS}`);
  const d = sum.data?.items[0];
  return <>
    <h1>{path.split(/[\\/]/).pop() || hash || 'File'}</h1>
    {d && <Facts rows={[['Path', <span class="mono">{path}</span>], ['SHA-256', hash && <span class="mono">{hash}</span>], ['Machines', d.hosts], ['Loads', d.loads], ['First seen', shortTime(d.first)], ['Last loaded', shortTime(d.last)]]} />}
    <section><h2>Loads</h2><Notice state={s} empty="no process has loaded it" />
      {s.data?.items.length ? <Table label="Loads" rows={s.data.items} view={view} columns={[{ title: 'Loaded', show: (r) => shortTime(r.begin) }, { title: 'Machine', show: (r) => <HostLink host={r.host} view={view} /> },
        { title: 'Process', show: (r) => <ProcessLink row={r} view={view}>{`${r.image_name ?? 'pid'} ${r.pid ?? ''}`}</ProcessLink> }, { title: 'Path', name: 'path', mono: true }, { title: 'Size', right: true, show: (r) => bytes(r.size_bytes) },
        { title: 'Unloaded', show: (r) => shortTime(r.end) }, { title: 'Version', name: 'file_version' }, { title: 'Company', name: 'company' }, { title: 'SHA-256', name: 'sha256', mono: true }, { title: 'Command line', name: 'command_line', mono: true }]} /> : null}</section>
  </>;
}
