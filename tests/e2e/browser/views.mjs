// Pages of numbers over time, in a real browser: what each shows equals what SQL says, and leads to its rows. Called by dashboard.mjs.

/** tools: {page, world, check, link, settled, rows, accessible, picture} of dashboard.mjs */
export async function views(tools) {
  await home(tools);
}

/** The rows of a statement, each an array. */
async function sql(world, statement) {
  const answer = await fetch(world.url + 'api/v1/sql', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ sql: statement, rows: 10000 }) });
  const data = await answer.json();
  if (!data.rows) throw new Error(`${statement}: ${JSON.stringify(data)}`);
  return data.rows;
}
const total = (page, title) => page.locator('.chart').filter({ has: page.getByRole('heading', { name: title, exact: true }) }).locator('[data-total]').getAttribute('data-total').then(Number);
/** The cells of a chart's table, but for its times: a list of numbers for each bucket. */
async function numbers(page, title) {
  const chart = page.locator('.chart').filter({ has: page.getByRole('heading', { name: title, exact: true }) });
  if (!(await chart.locator('.numbers').evaluate((d) => d.open))) await chart.locator('.numbers summary').click();
  await chart.locator('.numbers tbody tr').first().waitFor();
  await page.waitForTimeout(100); // the rows of a long table that are painted afterwards
  return chart.locator('.numbers tbody tr').evaluateAll((all) => all.map((row) => [...row.cells].slice(1).map((cell) => Number(cell.textContent))));
}
const sum = (table) => table.flat().reduce((a, b) => a + b, 0);

async function home({ page, world, check, link, settled, rows, accessible, picture }) {
  await page.goto(world.url);
  await page.getByRole('heading', { level: 1, name: 'Home' }).waitFor();
  await rows(page, 'Processor').first().waitFor();
  await settled(page);
  const [[events, bytes]] = await sql(world, 'SELECT sum(events), sum(bytes) FROM batches WHERE begin IS NOT NULL');
  check((await total(page, 'Events')) === events && (await total(page, 'Stored bytes')) === bytes, `Home: the charts have ${events} events and ${bytes} bytes`);
  await picture(page, 'home');
  check(sum(await numbers(page, 'Events')) === events, 'Home: the table of a chart has its numbers');
  for (const [title, table, value] of [['Processor', 'cpu_usage', 'samples'], ['Disk', 'disk_usage', 'read_bytes + written_bytes'], ['Network', 'network_usage', 'received_bytes + sent_bytes']]) {
    const found = await sql(world, `SELECT host, image, pid, sum(${value}) AS n FROM ${table}() WHERE pid IS NOT 0 GROUP BY host, stream, process_key, pid ORDER BY n DESC LIMIT 1`);
    const first = await rows(page, title).first().innerText();
    check(first.includes(found[0][0]), `Home: the process with the most of ${title} is of ${found[0][0]}: ${first}`);
  }
  await accessible(page, 'Home');
  check((await rows(page, 'New detections').count()) === 1 && (await rows(page, 'Newest gaps').count()) >= 1, 'Home: the open detection and the gaps');
  await page.getByLabel('Machines by').selectOption('host');
  await page.waitForFunction((n) => document.querySelectorAll('.chart .links a').length === 2 * n, 3);
  const found = await sql(world, 'SELECT host, sum(events) FROM batches WHERE begin IS NOT NULL GROUP BY host ORDER BY 2 DESC');
  const table = await numbers(page, 'Events'), sums = table[0].map((_, i) => table.reduce((n, row) => n + row[i], 0));
  check(sums.join() === found.map(([, n]) => n).join() && /by=host/.test(page.url()), `Home: a line for each machine: ${sums}`);
  await page.locator('.chart .links a').first().click();
  await page.getByRole('heading', { level: 1, name: found[0][0] }).waitFor();
  check(true, "Home: a machine's name leads to the machine");
  for (const [tile, where] of [['events', /page=events/], ['batches missing', /query=hosts-with-gaps/], ['silent', /query=silent-machines/], ['machines', /page=fleet/]]) {
    await page.goto(link({ page: 'home' }));
    await page.locator('.tiles a').filter({ hasText: new RegExp(`^\\S+( \\S)?\\s?${tile}$`) }).click();
    await page.waitForFunction((source) => new RegExp(source).test(location.search), where.source);
    await settled(page);
    check((await page.locator('main tbody tr').count()) > 0 || tile === 'silent', `Home: ${tile} leads to its rows`);
  }
  await page.goto(link({ page: 'home' }));
  await rows(page, 'Processor').first().locator('a').last().click();
  await page.locator('.flame canvas').waitFor();
  check(/page=profile.*pid=\d/.test(page.url()), "Home: a process's samples lead to its flame graph");
}
