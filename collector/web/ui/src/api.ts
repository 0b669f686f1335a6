// Asking the API. What a path takes and answers is in the types that types.mjs makes of openapi.json: a misspelt parameter or property does not compile.
import { useLayoutEffect, useMemo, useState } from 'preact/hooks';
import type { Api, Ending } from 'answers';

export type { Api };

export type Path = keyof Api;
export type Answer<P extends Path> = Api[P]['answer'];
/** A row of a path's list. */
export type Item<P extends Path> = Answer<P> extends { items: Array<infer R> } ? R : never;
/** Parameters of a path: those in it, too. What is empty is not sent. */
export type Params<P extends Path> = { readonly [N in Api[P]['query'] | Api[P]['place']]?: string | number | null | readonly string[] };
/** Where something is asked for that has the type T. */
export type Address<T> = string & { readonly answer?: T };
/** An answer as a page has it; the old data stays during a new request. address: of data; at: when it came, in ms. */
export interface State<T> { data?: T; address?: string; at?: number; error?: string; loading?: boolean }

export function url<P extends Path>(path: P, params: Params<P> = {}): Address<Answer<P>> {
  const rest = new Map(Object.entries(params as Params<Path>)), p = new URLSearchParams();
  const place = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = rest.get(name);
    rest.delete(name);
    return encodeURIComponent(String(value ?? ''));
  });
  for (const [k, v] of rest)
    for (const one of Array.isArray(v) ? v : [v]) if (one !== undefined && one !== null && one !== '') p.append(k, String(one));
  const s = p.toString();
  return '/api/v1/' + place + (s ? '?' + s : '');
}

export async function ask<T>(address: Address<T>, options?: RequestInit): Promise<T> {
  const r = await fetch(address, options);
  const text = await r.text();
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw new Error(`the collector answered ${r.status}`);
  }
  if (!r.ok) throw new Error(data.detail || data.title || `the collector answered ${r.status}`);
  return data;
}
const posted = (body: string): RequestInit => ({ method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
export const asJson = (body: object): RequestInit => posted(JSON.stringify(body));
export const messageOf = (e: unknown) => (e instanceof Error ? e.message : String(e));

// A list with all its pages.
async function askAll<T>(address: Address<T>, options?: RequestInit): Promise<T> {
  interface List { items: unknown[]; next: string | null; damaged?: number; ending?: Ending }
  const data = await ask(address, options), list = data as unknown as List;
  while (list.next) {
    const more: List = await ask<List>(`${address}${address.includes('?') ? '&' : '?'}cursor=${list.next}`, options);
    list.items.push(...more.items);
    list.next = more.next;
    list.damaged = Math.max(list.damaged ?? 0, more.damaged ?? 0);
    if (more.ending !== 'whole') list.ending = more.ending;
  }
  return data;
}
// address null: no request. every: ms until it is asked again. all: every page of a list. body: of a POST, as text.
export function useApi<T>(address: Address<T> | null, every?: number, all?: boolean, body?: string): State<T> {
  const [state, set] = useState<State<T>>({ loading: !!address });
  useLayoutEffect(() => { // not after the next frame: the question is on its way while the browser paints
    if (!address) {
      set({});
      return undefined;
    }
    const stop = new AbortController();
    let timer: number | undefined;
    const load = async () => {
      try {
        const data = await (all ? askAll : ask)(address, { signal: stop.signal, ...(body !== undefined && posted(body)) });
        if (!stop.signal.aborted) set({ data, address, at: Date.now() });
      } catch (e) {
        if (!stop.signal.aborted) set((old) => ({ ...old, error: messageOf(e), loading: false }));
      }
      if (every && !stop.signal.aborted) timer = setTimeout(load, every);
    };
    set((old) => ({ ...old, error: undefined, loading: true }));
    void load(); // it catches its failure
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [address, every, body]);
  return state;
}

// ---- questions that have no path of their own: SQL ----

/** A value of SQL; a large number is a text. */
export type SqlValue = string | number | null;
export type SqlRow = Readonly<Record<string, SqlValue>>;
const MOST_ROWS = 10000;
/** The fields of an event, which are a text of JSON, as SQL's cells: a large number is a text. Throws where it is no JSON. */
export const fieldsOf = (json: string): unknown => JSON.parse(json.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g, (one) => (/^-?\d+$/.test(one) && !Number.isSafeInteger(Number(one)) ? `"${one}"` : one)));
/** The rows of a statement; what of it is not whole. null: no request. every: ms until it is asked again. */
export function useSql<R = SqlRow>(statement: string | null, rows = MOST_ROWS, every = 0): State<Omit<Answer<'sql'>, 'columns' | 'rows'> & { items: R[] }> {
  const state = useApi<Answer<'sql'>>(statement === null ? null : url('sql'), every, false, statement === null ? '' : JSON.stringify({ sql: statement, rows }));
  return useMemo(() => {
    const { data, ...asked } = state;
    if (!data) return asked;
    const { columns, rows: found, ...whole } = data;
    return { ...asked, data: { ...whole, items: found.map((row) => Object.fromEntries(columns.map((c, i) => [c.name, (row as SqlValue[])[i]])) as R) } };
  }, [state]);
}
/** Saves all rows of a statement as a file. */
export async function download(statement: string, format: 'csv' | 'jsonl') {
  const r = await fetch(url('sql'), asJson({ sql: statement, format }));
  if (!r.ok) throw new Error((await r.json().catch(() => ({}))).detail ?? `the collector answered ${r.status}`);
  const file = Object.assign(document.createElement('a'), { href: URL.createObjectURL(await r.blob()), download: 'answer.' + format });
  file.click();
  URL.revokeObjectURL(file.href);
}
/** A text of a link as a text of SQL. */
export const sqlText = (value: string) => `'${value.replaceAll('\0', '').replaceAll("'", "''")}'`;
/** The arguments of a table of what happened: a range, whose end is included, as everywhere in the API. */
export const sqlRange = ({ from, to }: { from?: string; to?: string }) => `${from ? `time_ns(${sqlText(from)})` : 'NULL'}, ${to ? `time_ns(${sqlText(to)}) + 1` : 'NULL'}`;
