// From Home to a cause: a fleet in which each machine has one problem, at most four clicks for each. Then the exact charts of a machine against SQL,
// and the editor of SQL by keys.
// usage: node causes.mjs WORLD.json    WORLD: what planted_fleet.world makes
import { accessible, check, finish, link, open, rows, settled, world } from './tools.mjs';

const MOST_CLICKS = 4, { machines } = world;

async function sql(statement) {
  const answer = await fetch(world.url + 'api/v1/sql', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ sql: statement, rows: 10000 }) });
  const data = await answer.json();
  if (!data.rows) throw new Error(`${statement}: ${JSON.stringify(data)}`);
  return data.rows;
}

/** A person who begins at Home and clicks: counts the clicks. */
function walk(page) {
  let clicks = 0;
  return {
    home: async () => { clicks = 0; await page.goto(world.url); await rows(page, 'Processor').first().waitFor(); await settled(page); },
    click: async (place) => { clicks++; await place.click(); await settled(page); },
    found: (good, what) => check(good && clicks <= MOST_CLICKS, `${what}: ${clicks} clicks from Home`),
  };
}
const main = (page) => page.locator('main').innerText();
const rowOf = (page, label, ...texts) => texts.reduce((found, text) => found.filter({ hasText: text }), rows(page, label)).first();

async function causes(page) {
  const { home, click, found } = walk(page);
  let { host, program } = machines.hog;
  await home();
  await accessible(page, 'Home of a fleet with problems');
  check((await rows(page, 'Processor').first().innerText()).includes(program), `Home: ${program} has the most samples`);
  await click(rowOf(page, 'Processor', program, host).locator('a').last());
  await rows(page, 'Functions').first().waitFor();
  const place = rows(page, 'Functions').first().locator('a');
  const name = await place.innerText();
  await click(place);
  found((await page.locator('.sandwich').innerText()).includes(name) && (await main(page)).includes(program), `a process that takes a processor: the function ${name} of ${program} and its callers`);

  ({ host, program } = machines.convoy);
  await home();
  check((await rows(page, 'Waits').first().innerText()).includes(program), `Home: ${program} begins the most waits`);
  await click(rowOf(page, 'Waits', program, host).locator('a').last());
  await rows(page, 'What they waited for').first().waitFor();
  const waits = await rows(page, 'What they waited for').count(), [[most]] = await sql(`SELECT max(count) FROM waits() WHERE host = '${host}' AND image = '${program}'`);
  check(waits > 40 && (await main(page)).includes(String(most)), `the waits of each of its threads: ${waits} rows, the greatest is SQL's ${most}`);
  await click(rows(page, 'What they waited for').first().locator('a').last());
  await page.locator('.flame canvas, p.notice').first().waitFor();
  found(/weight=wait/.test(page.url()), `a convoy of waits: ${program}, its threads' waits and their stacks`);

  ({ host, program } = machines.disk);
  await home();
  check((await rows(page, 'Disk').first().innerText()).includes(program), `Home: ${program} reads and writes most`);
  await click(rowOf(page, 'Disk', program, host).locator('a').last());
  await rows(page, 'Files').first().waitFor();
  const [[file]] = await sql(`SELECT file FROM disk_times() WHERE host = '${host}' AND image = '${program}' AND file IS NOT NULL ORDER BY ns DESC LIMIT 1`);
  found((await page.locator('[aria-label="Files"]').innerText()).includes(file) && (await page.locator('.chart', { hasText: 'How long requests took' }).count()) === 1, `a slow disk: ${program}, how long its requests took, and ${file}`);

  ({ host, program } = machines.gc);
  await home();
  await click(rowOf(page, 'Garbage collection', program, host).locator('a').last());
  await rows(page, 'Collections').first().waitFor();
  const [[collections, reason]] = await sql(`SELECT count(*), max(reason) FROM gc_pauses() WHERE host = '${host}' AND image = '${program}'`);
  found((await rows(page, 'Collections').count()) === Math.min(100, collections) && (await rows(page, 'Collections').first().innerText()).includes(reason), `a storm of collections: ${collections} of ${program}, because of ${reason}`);
  await accessible(page, '.NET');

  ({ host, program } = machines.beacon);
  await home();
  await click(page.getByRole('link', { name: 'Security', exact: true }));
  await click(page.getByRole('link', { name: 'Regular connections', exact: true }));
  const beacon = rowOf(page, 'Regular connections', host, world.remote);
  await beacon.waitFor();
  const [[times]] = await sql(`SELECT count(*) FROM "TcpIp/ConnectIPV4" WHERE host = '${host}' AND daddr = '${world.remote}'`);
  check((await rows(page, 'Regular connections').first().innerText()).includes(world.remote) && new RegExp(`\\s${times}\\s+150\\.0 ms`).test(await beacon.innerText()), `Security: the most regular one is the planted one: ${await beacon.innerText()}`);
  await accessible(page, 'Regular connections');
  await click(beacon.locator('a').nth(1));
  found((await page.getByRole('heading', { level: 1 }).innerText()).startsWith(program) && (await rows(page, 'Connections').count()) === times, `a process that calls home: ${program}, ${times} connections to ${world.remote}`);

  ({ host, program } = machines.rare);
  await home();
  await click(page.getByRole('link', { name: 'Security', exact: true }));
  await click(page.getByRole('link', { name: 'Rare modules', exact: true }));
  await click(rowOf(page, 'Rare modules', world.rare).getByRole('link', { name: world.rare }));
  await rows(page, 'Loads').first().waitFor();
  found((await rows(page, 'Loads').count()) === 1 && (await rows(page, 'Loads').first().innerText()).includes(program) && /Machines\s+1\s/.test(await page.locator('dl.facts').innerText()), `a rare module: ${world.rare}, loaded by ${program} on one machine, and when`);
  await accessible(page, 'a file');
}

const chartOf = (page, title) => page.locator('.chart').filter({ has: page.getByRole('heading', { name: title, exact: true }) });
const total = (page, title) => chartOf(page, title).locator('[data-total]').getAttribute('data-total').then(Number);

/** The exact charts of a machine: each total is SQL's, of all times and of a part. */
async function exact(page) {
  const { host } = machines.gc, info = await (await fetch(`${world.url}api/v1/hosts/${host}`)).json(), begin = Date.parse(info.begin);
  const part = [begin + 310, begin + 1710].map((ms) => new Date(ms).toISOString().slice(0, 23) + '0000Z');
  for (const [what, range, args, of] of [['all times', {}, '', ''], ['a part', { from: part[0], to: part[1] }, `time_ns('${part[0]}'), time_ns('${part[1]}') + 1`, ` AND begin >= time_ns('${part[0]}') AND begin <= time_ns('${part[1]}')`]]) {
    await page.goto(link({ page: 'host', host, ...range }));
    await page.getByText('Exact times, interrupts, collections and counters').click();
    await chartOf(page, 'Instructions per cycle').locator('[data-total]').waitFor();
    await settled(page);
    const [[running, ready, waiting, switches]] = await sql(`SELECT sum(running_ns), sum(ready_ns), sum(waiting_ns), sum(switches) FROM thread_times(${args}) WHERE host = '${host}' AND pid IS NOT 0`);
    const [[interrupts]] = await sql(`SELECT sum(ns) FROM interrupt_times(${args}) WHERE host = '${host}'`), [[pauses]] = await sql(`SELECT sum(pause_ns) FROM gc_pauses() WHERE host = '${host}'${of}`);
    const [[counters]] = await sql(`SELECT sum(value) FROM thread_counters(${args}) WHERE host = '${host}' AND tid IS NOT 0`);
    for (const [title, n] of [['Threads running', running], ['Threads ready, but no processor was free', ready], ['Threads waiting', waiting], ['Context switches', switches], ['Interrupts: DPC and ISR', interrupts],
      ['Garbage collection: threads paused', pauses], ['Hardware counters', counters]])
      check(n > 0 && (await total(page, title)) === n, `Host: ${title} of ${what}: ${await total(page, title)}, SQL has ${n}`);
  }
  await accessible(page, 'Host with exact charts');
  await page.locator('.timeline canvas').focus();
  await page.keyboard.press('ArrowRight');
  await page.getByRole('link', { name: 'Fleet', exact: true }).click();
  await page.evaluate(() => new Promise((f) => { setTimeout(f, 400); })); // 250 ms after the key the link gets the cursor's time, if one is still there
  check(!new URL(page.url()).searchParams.has('at'), `Host: the cursor's time does not follow one to another page: ${page.url()}`);
}

async function editor(page) {
  const field = page.getByRole('textbox', { name: /One SELECT/ });
  const text = () => field.innerText().then((t) => t.trim());
  const press = (key) => page.keyboard.press(key);
  let load; // what is typed before the editor is loaded goes on in the editor
  const held = new Promise((f) => { load = f; });
  await page.route('**/editor.js', (r) => held.then(() => r.continue()));
  await page.goto(link({ page: 'queries' }));
  await page.locator('textarea').focus();
  await press('Control+a');
  await page.keyboard.type("SELECT 1, ''");
  await press('ArrowLeft');
  load();
  await page.locator('.editor').getByRole('textbox').waitFor();
  await page.keyboard.type('x');
  check((await text()) === "SELECT 1, 'x'", `SQL: the editor has the cursor where it was: ${await text()}`);
  await page.unroute('**/editor.js');
  await settled(page);
  await field.focus();
  await press('Control+a');
  await page.keyboard.type('SELECT image_name FROM proces');
  const choices = page.locator('.editor [role=listbox]');
  await choices.waitFor();
  await choices.getByRole('option').filter({ hasText: /^processes/ }).waitFor();
  check(true, 'SQL: tables are completed');
  await accessible(page, 'Queries with completions');
  await page.waitForTimeout(150); // the editor takes Enter as a line's end right after the list opens
  await press('Enter');
  check((await text()) === 'SELECT image_name FROM processes', `SQL: Enter takes a table: ${await text()}`);
  await page.keyboard.type(' WHERE command_l');
  await choices.getByRole('option').filter({ hasText: /^command_line/ }).waitFor();
  await page.waitForTimeout(150);
  await press('Enter');
  await page.keyboard.type(" = '' OR image_name = 'quotes.exe'");
  await press('Escape');
  await press('Control+Enter');
  await rows(page, 'Answer').filter({ hasText: 'quotes.exe' }).first().waitFor();
  check(/sql=SELECT\+image_name\+FROM\+processes\+WHERE\+command_line/.test(page.url()), 'SQL: Control and Enter ask; the link has the statement');
  await press('Control+a');
  await page.keyboard.type('SELECT dport FROM "TcpIp/Con');
  await choices.getByRole('option').filter({ hasText: 'TcpIp/ConnectIPV4' }).waitFor();
  await page.waitForTimeout(150);
  await press('Enter');
  check(/^SELECT dport FROM "TcpIp\/Connect\w+"$/.test(await text()), `SQL: a class of events is completed in quotes: ${await text()}`);
  await settled(page); // the fields of the class are asked for when the statement names it
  await page.keyboard.type(' WHERE dpo');
  await choices.getByRole('option').filter({ hasText: /^dport/ }).waitFor();
  check(true, 'SQL: fields of a class are completed');
  await press('Escape');
  await press('g');
  await press('f');
  check(/page=queries/.test(page.url()), 'SQL: letters in the editor are no keys of the page');
  await press('Control+z');
  await press('Tab');
  check(await page.evaluate(() => document.activeElement.textContent === 'Ask'), 'SQL: Tab leaves the editor');
  await page.route('**/api/v1/sql', async (r) => { // of two questions the first one is answered later
    if (r.request().postDataJSON().sql === 'SELECT 1') await page.waitForResponse((answer) => answer.request().postData()?.includes('SELECT 2') ?? false);
    await r.continue().catch(() => {}); // the page has canceled it
  });
  const ask = async (sql) => {
    await field.focus();
    await press('Control+a');
    await page.keyboard.type(sql);
    await press('Escape');
    await press('Control+Enter');
  };
  await ask('SELECT 1');
  await ask('SELECT 2');
  await rows(page, 'Answer').filter({ hasText: /^2$/ }).waitFor();
  await settled(page);
  check((await rows(page, 'Answer').allInnerTexts()).join() === '2', `SQL: the answer is to the last question: ${await rows(page, 'Answer').allInnerTexts()}`);
  await page.unroute('**/api/v1/sql');
  await page.getByLabel('Earlier statements').selectOption({ index: 2 });
  await page.waitForFunction(() => /quotes\.exe/.test(document.querySelector('.editor').shadowRoot.textContent));
  check(/^SELECT image_name/.test(await text()), 'SQL: an earlier statement comes back');
  await page.goto(link({ page: 'queries', sql: "SELECT '</div><img src=x onerror=alert(1)>'" }));
  await page.locator('.editor').getByRole('textbox').waitFor();
  check((await text()).includes('<img') && (await page.evaluate(() => !document.querySelector('.editor').shadowRoot.querySelector('img'))), "SQL: a link's statement is text");
}

const page = await open({ colorScheme: 'light' });
page.setDefaultTimeout(60_000);
for (const part of [causes, exact, editor]) {
  try {
    await part(page);
  } catch (e) {
    check(false, `${part.name}: ${e.stack}`);
  }
}
await finish();
