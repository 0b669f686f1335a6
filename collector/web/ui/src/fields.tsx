// Fields of events: a list of them with the most frequent values of one, filters by click, and one event field by field.
import { fieldsOf, url, useApi, type Item, type Params } from './api';
import { Notice, Table, text, type Column } from './parts';
import { change, shortTime, type Change, type View } from './state';

/** Columns that all events have, as far as people look for them. */
const COMMON = ['host', 'provider_name', 'name', 'cpu', 'pid', 'tid'], HIDDEN = ['time', 'stream', 'batch', 'position', 'fields'];
// of these a search has parameters of their own, which pages have fields for
const PARAMETERS: Readonly<Record<string, string>> = { host: 'host', pid: 'pid', name: 'class' };
const MOST_FILTERS = 12, MOST_LETTERS = 1000, NO_NUMBER = 4294967295, TOP = 10;

export type Value = string | number;
const isValue = (v: unknown): v is Value => (typeof v === 'string' && v.length <= MOST_LETTERS) || (typeof v === 'number' && v !== NO_NUMBER);

/** The conditions that were made by clicks: the view has them as a list in JSON, as a value may have any text in it. */
export function filtersOf(view: View): string[] {
  try {
    const list: unknown = JSON.parse(view.filters ?? '[]');
    return Array.isArray(list) ? list.filter((f): f is string => typeof f === 'string' && f.length <= 2 * MOST_LETTERS).slice(0, MOST_FILTERS) : [];
  } catch {
    return [];
  }
}
const withFilters = (list: readonly string[]): Change => ({ filters: list.length ? JSON.stringify(list) : '', cursor: '' });

/** What a click on + or − makes of the view. of: the class of the event whose field it is, if the search has none. */
function filtered(view: View, field: string, value: Value, isMeant: boolean, of?: string): Change {
  const own = isMeant && !of && !(field === 'name' && view.class) ? PARAMETERS[field] : undefined; // a class may have a field "name"
  if (own) return { [own]: String(value), cursor: '' };
  const one = `${field}${isMeant ? '==' : '!='}${value}`; // two signs: the value may begin with one
  return { ...withFilters([...filtersOf(view).filter((f) => f !== one), one]), ...(of && { class: of }) };
}

function Both({ view, field, value, of }: { view: View; field: string; value: unknown; of?: string }) {
  if (!isValue(value) || HIDDEN.includes(field)) return null;
  return <span class="both"><button aria-label={`Only ${field} ${value}`} title="only these" onClick={() => change(filtered(view, field, value, true, of))}>+</button>
    <button aria-label={`Not ${field} ${value}`} title="not these" onClick={() => change(filtered(view, field, value, false, of))}>−</button></span>;
}

/** The conditions that were made by clicks, each with a button that takes it away. */
export function Filters({ view }: { view: View }) {
  const list = filtersOf(view);
  if (!list.length) return null;
  return <p class="saved" role="group" aria-label="Filters">{list.map((f) => <span class="chip"><span class="mono">{f.replace('==', ' = ').replace('!=', ' ≠ ')}</span>
    <button aria-label={`Remove ${f}`} onClick={() => change(withFilters(list.filter((o) => o !== f)))}>×</button></span>)}
    {list.length > 1 && <button onClick={() => change(withFilters([]))}>Remove all</button>}</p>;
}

const columnsOf = (view: View) => (view.columns ?? '').split(',').map((c) => c.trim()).filter(Boolean);
/** Shows a field as a column, or no more. */
function toggled(view: View, field: string): Change {
  const shown = columnsOf(view);
  return { columns: (shown.includes(field) ? shown.filter((c) => c !== field) : [...(shown.length ? shown : ['time', 'host'].filter((c) => c !== field)), field]).join(',') };
}
const isShown = (view: View, field: string) => columnsOf(view).includes(field);
function ColumnButton({ view, field }: { view: View; field: string }) {
  return <button aria-pressed={isShown(view, field)} aria-label={`Column ${field}`} title="show as a column" onClick={() => change(toggled(view, field))}>▤</button>;
}

type Counted = Item<'events/values'>;

/** All fields of what is searched for; of the chosen one the values that most events have. search: the parameters of the search. */
export function FieldList({ view, search }: { view: View; search: Params<'events/values'> }) {
  const columns = useApi(view.class ? url('columns', { class: view.class, limit: 1000 }) : null);
  const own = (columns.data?.items ?? []).filter((c) => c.hidden === 0).map((c) => c.name ?? '').filter((n) => n && !COMMON.includes(n) && !HIDDEN.includes(n));
  const field = view.field ?? '', s = useApi(field ? url('events/values', { ...search, field, limit: TOP }) : null);
  const most = s.data?.items.reduce((n, r) => Math.max(n, r.count), 1) ?? 1;
  const shown: readonly Column<Counted>[] = [{ title: 'Value', show: (r) => <>{text(r.value)}<span class="part" style={{ width: `${(100 * r.count) / most}%` }} /></> },
    { title: 'Events', right: true, name: 'count' }, { title: 'Filter', show: (r) => <Both view={view} field={field} value={r.value} /> }];
  return <section class="fields" aria-label="Fields">
    <h2>Fields</h2>
    <ul>{[...COMMON, ...own].map((f) => <li><ColumnButton view={view} field={f} /><button class="name" aria-expanded={f === field} onClick={() => change({ field: f === field ? '' : f }, true)}>{f}</button></li>)}</ul>
    {field && <section><h3>{field}: most frequent values</h3><Notice state={s} empty="no event has it" />
      {s.data?.items.length ? <Table<Counted> label="Most frequent values" columns={shown} rows={s.data.items} view={view} of={s.address} /> : null}</section>}
  </section>;
}

interface Detail { field: string; value: unknown; of?: string }
type Stored = Readonly<Record<string, unknown>>;

// The fields of an event: of a search without a class they are a text of JSON.
function fieldsIn(row: Stored): Stored {
  try {
    const made = fieldsOf(typeof row.fields === 'string' ? row.fields : '{}');
    return made && typeof made === 'object' ? (made as Stored) : {};
  } catch {
    return {};
  }
}
function detailsOf(row: Stored): Detail[] {
  const list: Detail[] = Object.entries(row).filter(([n]) => n !== 'fields').map(([field, value]) => ({ field, value }));
  return [...list, ...Object.entries(fieldsIn(row)).map(([field, value]): Detail => ({ field, of: typeof row.name === 'string' ? row.name : undefined,
    value: value && typeof value === 'object' && 'value' in value ? value.value : value }))];
}

/** One event, field by field. */
export function OneEvent({ view, row, close }: { view: View; row: Stored; close: () => void }) {
  return <section><h2>One event</h2><p class="tools"><button onClick={close}>Close</button></p>
    <Table<Detail> label="One event" rows={detailsOf(row)} columns={[{ title: 'Field', show: (d) => d.field }, { title: 'Value', mono: true, show: (d) => (d.field === 'time' ? shortTime(text(d.value)) : d.value === NO_NUMBER ? '' : text(d.value)) },
      { title: 'Filter', show: (d) => <>{!d.of && !HIDDEN.includes(d.field) && <ColumnButton view={view} field={d.field} />}<Both view={view} field={d.field} value={d.value} of={d.of} /></> }]} /></section>;
}
