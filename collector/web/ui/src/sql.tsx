// SQL: one statement, its editor with names that the collector knows, earlier statements of this browser, the answer as a table and as a file.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { asJson, ask, download, messageOf, url, useApi, type Answer, type State } from './api';
import type { Editor } from './editor';
import { Notice, Table, text } from './parts';
import { choicesFor, namesIn, quoted, type Tables } from './sql_names';
import { change, remember, remembered, type View } from './state';

// The modules of SQLite itself are no tables of ours, and some cannot be described.
const TABLES_SQL = `WITH t AS MATERIALIZED (SELECT name FROM pragma_module_list WHERE name NOT GLOB 'fts*' AND name NOT GLOB 'json*' AND name NOT GLOB 'rtree*'
  AND name NOT GLOB 'pragma*' AND name NOT IN ('dbstat', 'bytecode', 'tables_used', 'geopoly', 'sqlite_stmt') UNION SELECT name FROM pragma_table_list WHERE type = 'view')
  SELECT t.name, group_concat(x.name, ', ') FROM t JOIN pragma_table_xinfo(t.name) AS x WHERE x.hidden = 0 GROUP BY 1 ORDER BY 1`;
const FIRST = "SELECT host, count FROM events_by('host') ORDER BY count DESC LIMIT 20", LABEL = 'One SELECT; Ctrl-Enter runs it', ROWS = 1000, EARLIER = 30, MOST_LETTERS = 20_000;

/** The tables of SQL, each with its columns. */
function useTables(): State<Answer<'sql'>> {
  const [list, set] = useState<State<Answer<'sql'>>>({ loading: true });
  useEffect(() => {
    ask(url('sql'), asJson({ sql: TABLES_SQL, rows: 1000 })).then((data) => set({ data }), (error) => set({ error: messageOf(error) }));
  }, []);
  return list;
}
const rowsOf = (list: State<Answer<'sql'>>) => (list.data?.rows ?? []) as [string, string][];

function SqlTables({ list, choose }: { list: State<Answer<'sql'>>; choose: (name: string) => void }) {
  return <details class="tables"><summary>Tables and columns</summary>
    <Notice state={list} />
    <p class="note">A class of events is a table, too, with its fields as columns: "Process/Start". Columns that a SELECT * leaves out, and functions, are in SQL.md.</p>
    <dl>{rowsOf(list).map(([name, columns]) => <div><dt><button type="button" onClick={() => choose(name)}>{name}</button></dt><dd class="mono">{columns}</dd></div>)}</dl>
  </details>;
}

/** The names that the editor completes: tables, classes of events, and the columns of the one class that the statement names. */
function useNames(sql: string, list: State<Answer<'sql'>>): Tables {
  const classes = useApi(url('classes', { limit: 10000 })), known = useRef(new Map<string, readonly string[]>());
  const names = useMemo(() => [...new Set((classes.data?.items ?? []).map((c) => c.name ?? ''))].filter(Boolean), [classes.data]);
  const used = useMemo(() => { const all = namesIn(sql); return names.find((n) => all.has(n) && !known.current.has(n)); }, [sql, names]);
  const columns = useApi(used ? url('columns', { class: used, limit: 1000 }) : null);
  if (used && columns.data && columns.address === url('columns', { class: used, limit: 1000 })) known.current.set(used, columns.data.items.filter((c) => c.hidden === 0).map((c) => c.name ?? ''));
  return useMemo(() => new Map<string, readonly string[]>([...rowsOf(list).map(([name, all]): [string, readonly string[]] => [name, all.split(', ')]), ...names.map((n): [string, readonly string[]] => [n, known.current.get(n) ?? []])]),
    [list, names, columns.data]);
}

/** A plain field until the editor is loaded, and where it cannot be. value: what it has; given: what it is to have, of another source than its own keys. */
function Field({ value, given, tables, onChange, onRun }: { value: string; given: { text: string }; tables: Tables; onChange: (sql: string) => void; onRun: () => void }) {
  const box = useRef<HTMLDivElement>(null), plain = useRef<HTMLTextAreaElement>(null), editor = useRef<Editor>(), [isReady, ready] = useState(false);
  const now = useRef({ value, tables, onChange, onRun });
  now.current = { value, tables, onChange, onRun };
  useEffect(() => {
    let isGone = false;
    import('./editor').then(({ editorIn }) => {
      if (isGone || !box.current) return;
      const hadFocus = document.activeElement === plain.current;
      editor.current = editorIn(box.current, { text: plain.current?.value ?? now.current.value, at: plain.current?.selectionStart ?? 0, label: LABEL, onChange: (sql) => now.current.onChange(sql), onRun: () => now.current.onRun(), choices: (sql, inQuotes) => choicesFor(sql, now.current.tables, inQuotes) });
      ready(true);
      if (hadFocus) editor.current.focus();
    }, () => {});
    return () => { isGone = true; editor.current?.end(); };
  }, []);
  useEffect(() => { editor.current?.set(given.text); }, [given]); // not with each value: it may be older than what is typed
  return <div class="field"><span aria-hidden="true">{LABEL}</span><div ref={box} class="editor" />
    {!isReady && <textarea ref={plain} rows={8} aria-label={LABEL} value={value} spellcheck={false} onInput={(e) => onChange(e.currentTarget.value)} onKeyDown={(e) => e.key === 'Enter' && (e.ctrlKey || e.metaKey) && onRun()} />}</div>;
}

export function Sql({ view }: { view: View }) {
  const [sql, setSql] = useState(view.sql ?? FIRST), [given, give] = useState({ text: sql }), [answer, setAnswer] = useState<State<Answer<'sql'>>>({});
  const [earlier, setEarlier] = useState(() => remembered<unknown[]>('statements', []).filter((s): s is string => typeof s === 'string'));
  const put = (text: string) => { setSql(text); give({ text }); };
  const list = useTables(), tables = useNames(sql, list), asked = useRef<AbortController>();
  useEffect(() => () => asked.current?.abort(), []);
  const run = async () => {
    const own = new AbortController();
    asked.current?.abort(); // an earlier answer would come after this one
    asked.current = own;
    change({ sql }, true);
    setAnswer({ loading: true });
    try {
      const data = await ask(url('sql'), { ...asJson({ sql, rows: ROWS }), signal: own.signal });
      if (own.signal.aborted) return;
      setAnswer({ data });
      const kept = [sql, ...earlier.filter((s) => s !== sql)].filter((s) => s.length <= MOST_LETTERS).slice(0, EARLIER);
      setEarlier(kept);
      remember('statements', kept);
    } catch (error) {
      if (!own.signal.aborted) setAnswer({ error: messageOf(error) });
    }
  };
  const save = (format: 'csv' | 'jsonl') => { download(sql, format).catch((error: unknown) => setAnswer({ error: messageOf(error) })); };
  return <section><h2>SQL</h2>
    <form class="sql" onSubmit={(e) => { e.preventDefault(); void run(); }}>
      <Field value={sql} given={given} tables={tables} onChange={setSql} onRun={() => void run()} />
      <div class="tools"><button>Ask</button>
        {earlier.length > 0 && <label class="field"><span>Earlier statements</span><select value="" onChange={(e) => { put(earlier[Number(e.currentTarget.value)]); e.currentTarget.value = ''; }}>
          <option value="">choose one of {earlier.length}</option>{earlier.map((s, i) => <option value={i}>{s.replace(/\s+/g, ' ').slice(0, 100)}</option>)}</select></label>}
        {earlier.length > 0 && <button type="button" onClick={() => { setEarlier([]); remember('statements', []); }}>Forget them</button>}
        <span>All rows as a file:</span><button type="button" onClick={() => save('csv')}>CSV</button><button type="button" onClick={() => save('jsonl')}>JSON lines</button></div></form>
    <SqlTables list={list} choose={(name) => put(`SELECT * FROM ${quoted(name)} LIMIT 100`)} />
    <Notice state={answer} />
    {answer.data?.ending === 'rows' && <p class="notice">the first {answer.data.rows.length} rows; a file has all</p>}
    {answer.data?.notice && <p class="notice" role="status">{answer.data.notice}</p>}
    {answer.data && <Table<unknown[]> label="Answer" rows={answer.data.rows} columns={answer.data.columns.map((c, i) => ({ title: c.name, right: c.type === 'INTEGER', show: (r) => text(r[i]) }))} />}
  </section>;
}
