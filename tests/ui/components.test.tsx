// Components in a small document: tables and their order, filters and the address, hostile text.
import { address, answers, document, settled } from './dom.ts';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { render, type ComponentChild } from 'preact';
import { FieldList, Filters, OneEvent } from '../../collector/web/ui/src/fields.tsx';
import { Facts, Link, Notice, Search, Table } from '../../collector/web/ui/src/parts.tsx';
import { go, useView } from '../../collector/web/ui/src/state.ts';

async function shown(what: ComponentChild) {
  render(null, document.body);
  render(what, document.body);
  await settled();
  return document.body;
}
const click = async (name: string | RegExp) => {
  const all = [...document.querySelectorAll('button, a')];
  const one = all.find((e) => { const t = e.getAttribute('aria-label') ?? e.textContent ?? ''; return typeof name === 'string' ? t === name : name.test(t); });
  assert.ok(one, `a button ${name} among ${all.map((e) => e.textContent).join(', ')}`);
  one.dispatchEvent(new (document.defaultView as unknown as { Event: typeof Event }).Event('click', { bubbles: true, cancelable: true }));
  await settled();
};
const HOSTILE = ['<img src=x onerror=alert(1)>', '</td><script>1</script>', '\u202Egpj.exe', '\x1b[31mred', '\uD800', '{{7*7}}', 'x'.repeat(1 << 20), '__proto__'];
const WithView = ({ of }: { of: (view: ReturnType<typeof useView>) => ComponentChild }) => <>{of(useView())}</>;

test('a table: a column sorts up, then down; the address has it', async () => {
  go({ page: 'fleet', cursor: 'c' });
  await shown(<WithView of={(view) => <Table label="t" rows={[{ a: 1 }, { a: 2 }]} view={view} columns={[{ title: 'A', name: 'a', sort: 'a' }, { title: 'B', show: () => 'b' }]} />} />);
  const order = () => [...document.querySelectorAll('th')].map((th) => th.getAttribute('aria-sort'));
  assert.deepEqual(order(), [null, null]);
  await click(/^A/);
  assert.deepEqual([address(), order()], [{ page: 'fleet', sort: 'a' }, ['ascending', null]], 'the first page of the new order');
  await click(/^A/);
  assert.deepEqual([address(), order()], [{ page: 'fleet', sort: 'a', descending: '1' }, ['descending', null]]);
  await click(/^A/);
  assert.deepEqual(order(), ['ascending', null]);
});
test('a table: the first rows are painted at once, the others afterwards', async () => {
  render(null, document.body);
  render(<Table label="t" rows={Array.from({ length: 100 }, (_, i) => ({ i }))} columns={[{ title: 'I', name: 'i' }]} />, document.body);
  assert.equal(document.querySelectorAll('tbody tr').length, 40);
  await settled();
  assert.equal(document.querySelectorAll('tbody tr').length, 100);
});
test('hostile text is text: in tables, links, facts, notices, and one event', async () => {
  const rows = HOSTILE.map((v) => ({ v }));
  await shown(<><Table label={HOSTILE[0]} caption={HOSTILE[1]} rows={rows} columns={[{ title: HOSTILE[0], name: 'v' }]} />
    <Facts rows={HOSTILE.map((v) => [v, v])} />{HOSTILE.map((v) => <Link to={{ page: v }}>{v}</Link>)}<Notice state={{ error: HOSTILE[0] }} />
    <OneEvent view={{}} close={() => {}} row={{ time: '2024-05-03T10:00:00Z', name: HOSTILE[0], fields: JSON.stringify(Object.fromEntries(HOSTILE.map((v) => [v, v]))) }} /></>);
  assert.equal(document.querySelectorAll('img, script').length, 0);
  assert.deepEqual([...document.querySelector('tbody')!.querySelectorAll('td')].map((td) => td.textContent), HOSTILE);
  for (const a of document.querySelectorAll('a')) assert.match(a.getAttribute('href')!, /^\/(\?|$)/, 'a link stays on the page');
});
test('an answer that is not whole has a notice', async () => {
  const notice = async (data: object) => (await shown(<Notice state={{ data }} empty="nothing" />)).textContent;
  assert.equal(await notice({ items: [] }), 'nothing');
  assert.equal(await notice({ items: [1], ending: 'whole' }), '');
  assert.equal(await notice({ items: [1], damaged: 2, ending: 'time' }),
    '2 stored batches are damaged and were left out; incomplete: the question ended at its limit of time');
  assert.equal((await shown(<Notice state={{ loading: true }} />)).textContent, 'asking the collector …');
});
test('filters: each has a button that takes it away', async () => {
  go({ page: 'events', filters: '["a==1","b!=<i>x</i>"]', cursor: 'c' });
  await shown(<WithView of={(view) => <Filters view={view} />} />);
  assert.deepEqual([...document.querySelectorAll('.chip .mono')].map((e) => e.textContent), ['a = 1', 'b ≠ <i>x</i>']);
  await click('Remove a==1');
  assert.deepEqual(address(), { page: 'events', filters: '["b!=<i>x</i>"]' });
  await click('Remove b!=<i>x</i>');
  assert.deepEqual(address(), { page: 'events' });
  assert.equal(document.body.textContent, '');
});
test('fields: the most frequent values of one, and filters by click', async () => {
  const asked: string[] = [];
  answers((at) => { asked.push(at); return at.includes('values') ? { items: [{ value: 'a=b', count: 4 }, { value: HOSTILE[0], count: 1 }, { value: null, count: 1 }], next: null, ending: 'whole' } : { items: [{ name: 'dport', hidden: 0 }, { name: 'secret', hidden: 1 }], next: null }; });
  go({ page: 'events', class: 'TcpIp/ConnectIPV4' });
  await shown(<WithView of={(view) => <FieldList view={view} search={{ class: view.class, host: view.host }} />} />);
  const names = () => [...document.querySelectorAll('.fields .name')].map((e) => e.textContent);
  assert.deepEqual(names(), ['host', 'provider_name', 'name', 'cpu', 'pid', 'tid', 'dport'], 'columns that a search leaves out are not in the list');
  await click('dport');
  assert.equal(address().field, 'dport');
  assert.ok(asked.at(-1)!.includes('/events/values?class=TcpIp%2FConnectIPV4&field=dport&limit=10'), asked.at(-1));
  assert.deepEqual([...document.querySelectorAll('tbody tr')].map((r) => [r.children[0].textContent, r.children[1].textContent]), [['a=b', '4'], [HOSTILE[0], '1'], ['', '1']]);
  assert.equal(document.querySelectorAll('.both').length, 2, 'a value that is missing has no filter');
  await click('Only dport a=b');
  assert.equal(address().filters, '["dport==a=b"]');
  await click(`Not dport ${HOSTILE[0]}`);
  assert.deepEqual(JSON.parse(address().filters), ['dport==a=b', `dport!=${HOSTILE[0]}`]);
  await click('Column dport');
  assert.equal(address().columns, 'time,host,dport');
  await click('host');
  await click('Only host a=b');
  assert.equal(address().host, 'a=b', 'a field that a search has a parameter for');
});
test('a search changes the address as one types, without a step in the history', async () => {
  go({ page: 'fleet', cursor: 'c' });
  await shown(<WithView of={(view) => <Search name="q" label="Machine" view={view} />} />);
  const field = document.querySelector('input')!;
  field.value = 'a&b';
  field.dispatchEvent(new (document.defaultView as unknown as { Event: typeof Event }).Event('input', { bubbles: true }));
  await settled();
  assert.deepEqual(address(), { page: 'fleet', q: 'a&b' });
});
