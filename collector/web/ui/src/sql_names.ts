// What can be completed in a statement: tables, the columns of those that it names, and how a name is written.

/** The columns of each table. A class of events is a table, too. */
export type Tables = ReadonlyMap<string, readonly string[]>;
/** apply: how the statement has the name; of: the table of a column. */
export interface Choice { label: string; apply: string; kind: 'table' | 'column'; of?: string }

/** A name as SQL has it: one with other signs than letters, digits and _ is in quotes. */
export const quoted = (name: string, always = false) => (/^[A-Za-z_]\w*$/.test(name) && !always ? name : `"${name.replaceAll('"', '""')}"`);

/** The names in a statement, quoted or not, but for texts and comments. */
export function namesIn(sql: string): Set<string> {
  const names = new Set<string>();
  for (const [all, inQuotes, plain] of sql.matchAll(/'(?:[^']|'')*'|--[^\n]*|\/\*[^]*?\*\/|"((?:[^"]|"")*)"|([A-Za-z_]\w*)/g))
    if (inQuotes !== undefined || plain !== undefined) names.add(inQuotes?.replaceAll('""', '"') ?? plain ?? all);
  return names;
}

/** The tables that a statement names; the case of plain names does not count, as in SQL. */
export function tablesIn(sql: string, tables: Tables): string[] {
  const names = new Set([...namesIn(sql)].map((n) => n.toLowerCase()));
  return [...tables.keys()].filter((t) => names.has(t.toLowerCase()));
}

/** Columns of the tables in the statement, those of the first table first, then all tables. */
export function choicesFor(sql: string, tables: Tables, inQuotes: boolean): Choice[] {
  const columns = new Map<string, Choice>();
  for (const of of tablesIn(sql, tables))
    for (const label of tables.get(of) ?? []) if (!columns.has(label)) columns.set(label, { label, apply: quoted(label, inQuotes), kind: 'column', of });
  return [...columns.values(), ...[...tables.keys()].map((label): Choice => ({ label, apply: quoted(label, inQuotes), kind: 'table' }))];
}
