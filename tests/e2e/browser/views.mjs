// Pages of numbers over time, in a real browser: what each shows equals what SQL says, and leads to its rows. Called by dashboard.mjs.

/** tools: {page, world, check, link, settled, rows, accessible, picture} of dashboard.mjs */
export async function views(tools) {
  await home(tools);
  await exploring(tools);
  await usage(tools);
  await ledger(tools);
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
  await chart.locator('.numbers .scroll:not([aria-busy=true]) tbody tr').first().waitFor(); // busy: rows of a long table are painted afterwards
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

/** The number of events that the bars of the page have in all, once they are n. */
const counted = (page, n) => page.waitForFunction((want) => [...document.querySelectorAll('.bars button')].reduce((all, b) => all + Number(b.dataset.count), 0) === want, n);

async function exploring({ page, world, check, link, settled, rows, accessible, picture }) {
  const open = (field) => page.locator('.fields .name').filter({ hasText: new RegExp(`^${field}$`) }).click();
  const values = () => rows(page, 'Most frequent values').evaluateAll((all) => all.map((row) => [row.cells[0].textContent, Number(row.cells[1].textContent)]));
  await page.goto(link({ page: 'events', host: world.machine }));
  await open('name');
  await rows(page, 'Most frequent values').first().waitFor();
  const names = await sql(world, `SELECT name, count FROM events_by('name') WHERE host = '${world.machine}' ORDER BY count DESC, name LIMIT 10`);
  check(JSON.stringify(await values()) === JSON.stringify(names) && /field=name/.test(page.url()), `Events: the ten most frequent classes are SQL's: ${JSON.stringify(names[0])}`);
  const most = names[0][0];
  await page.getByRole('button', { name: `Not name ${most}`, exact: true }).click();
  const [[others]] = await sql(world, `SELECT count(*) FROM events WHERE host = '${world.machine}' AND name <> '${most}'`);
  await counted(page, others);
  await page.waitForFunction((n) => !document.querySelector('[aria-label="Most frequent values"] tbody').textContent.includes(n), most);
  check((await rows(page, 'Events').filter({ hasText: most }).count()) === 0 && (await rows(page, 'Events').count()) === 100, `Events: − leaves ${others} events without ${most}`);
  await picture(page, 'events-fields');
  await accessible(page, 'Events with a filter');
  await page.getByRole('button', { name: `Remove name!=${most}`, exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => !/filters=/.test(location.search));
  check(true, 'Events: keys: a filter is removed');

  await page.goto(link({ page: 'events', host: world.machine, class: 'TcpIp/ConnectIPV4', field: 'dport' }));
  await rows(page, 'Most frequent values').first().waitFor();
  const [port, n] = (await values())[0];
  const [[ports]] = await sql(world, `SELECT count(*) FROM "TcpIp/ConnectIPV4" WHERE host = '${world.machine}' AND dport = ${port}`);
  await page.getByRole('button', { name: `Only dport ${port}`, exact: true }).click();
  await counted(page, ports);
  await settled(page);
  check(n === ports && (await rows(page, 'Events').count()) === Math.min(100, ports), `Events: + leaves the ${ports} events with the port ${port}`);
  await page.getByRole('button', { name: 'Column dport', exact: true }).click();
  const heads = () => page.locator('[aria-label="Events"] thead th').allInnerTexts().then((all) => all.join());
  await page.waitForFunction(() => document.querySelectorAll('[aria-label="Events"] thead th').length === 3);
  check((await heads()) === 'time,host,dport' && /columns=time%2Chost%2Cdport/.test(page.url()), `Events: a field becomes a column by click: ${await heads()}`);
  await page.getByRole('button', { name: 'Link', exact: true }).click();
  const shared = await page.getByLabel('Link to this search').inputValue();
  await page.getByRole('button', { name: 'Column dport', exact: true }).click();
  await page.waitForFunction(() => document.querySelectorAll('[aria-label="Events"] thead th').length === 2);
  await page.goto(shared);
  await counted(page, ports);
  check((await page.locator('.chip', { hasText: `dport = ${port}` }).count()) === 1 && (await heads()) === 'time,host,dport', 'Events: a link has filters and columns');
  await page.goto(link({ page: 'events', range: '1h' }));
  await page.getByRole('button', { name: 'Link', exact: true }).click();
  check(/[?&]from=2\d\d\d-.*&to=2\d\d\d-/.test(await page.getByLabel('Link to this search').inputValue()), 'Events: a link has the times of "the last hour"');

  await page.goto(link({ page: 'events', host: world.machine, q: 'explorer.exe' }));
  await rows(page, 'Events').first().getByRole('button').first().click();
  await rows(page, 'One event').first().waitFor();
  const name = await rows(page, 'One event').filter({ hasText: /^name/ }).locator('td').nth(1).innerText();
  const plus = rows(page, 'One event').filter({ hasText: /explorer/ }).getByRole('button', { name: /^Only / }).first();
  const condition = (await plus.getAttribute('aria-label')).replace(/^Only (\S+) .*$/s, '$1');
  await accessible(page, 'one event');
  await plus.click();
  await page.waitForFunction(() => /class=/.test(location.search) && /filters=/.test(location.search));
  await rows(page, 'Events').first().waitFor();
  await settled(page);
  check(new URL(page.url()).searchParams.get('class') === name && (await page.locator('[role=alert]').count()) === 0 && (await rows(page, 'Events').count()) > 0, `Events: + on the field ${condition} of one event searches its class ${name}`);

  await page.goto(link({ page: 'events', host: world.hostile, class: 'Process/DCStart', where: 'CommandLine~=cmd|', field: 'CommandLine' }));
  await rows(page, 'Most frequent values').first().waitFor();
  const line = page.getByRole('button', { name: /^Only CommandLine =cmd/ });
  const found = await line.count();
  if (found) await line.first().click();
  await page.waitForFunction(() => /filters=/.test(location.search));
  await settled(page);
  const [[hostile]] = await sql(world, `SELECT count(*) FROM "Process/DCStart" WHERE host = '${world.hostile}' AND CommandLine LIKE '=cmd|%'`);
  await counted(page, hostile);
  check(hostile > 0 && (await page.locator('main script, main img').count()) === 0, `Events: a value that begins with = and has markup in it is filtered as it is: ${hostile} events`);
}

const WAITING = 'winword.exe'; // a process that waits, wakes, and reads from disks

async function usage({ page, world, check, link, settled, rows, accessible, picture }) {
  await page.goto(link({ page: 'waits', host: world.hostile }));
  await rows(page, 'Processes').first().waitFor();
  await settled(page);
  const cell = (row, n) => row.locator('td').nth(n).innerText();
  const [[name, pid, switches]] = await sql(world, `SELECT image, pid, sum(switches) FROM thread_times() WHERE host = '${world.hostile}' AND pid IS NOT 0 GROUP BY process_key, pid ORDER BY sum(running_ns) DESC LIMIT 1`);
  const first = rows(page, 'Processes').first();
  check((await cell(first, 0)) === name && (await cell(first, 7)) === String(switches), `Waits: the process that ran longest is SQL's: ${name}, ${switches} switches`);
  await picture(page, 'waits');
  await accessible(page, 'Waits');
  await rows(page, 'Processes').filter({ hasText: WAITING }).first().locator('a').first().focus();
  await page.keyboard.press('Enter');
  await rows(page, 'Threads').first().waitFor();
  await settled(page);
  const one = new URL(page.url()).searchParams.get('pid');
  const [[threads, wakes]] = await sql(world, `SELECT (SELECT count(*) FROM thread_times() WHERE host = '${world.hostile}' AND pid = ${one}), (SELECT min(100, count(*)) FROM wakes() WHERE host = '${world.hostile}' AND pid = ${one})`);
  check((await rows(page, 'Threads').count()) === threads && (await rows(page, 'Who ended their waits').count()) === wakes, `Waits: keys: the ${threads} threads of ${WAITING} ${one}, and ${wakes} who woke them`);
  await accessible(page, "a process's waits");
  await rows(page, 'What they waited for').first().locator('a').last().click();
  await page.locator('.flame canvas').waitFor();
  check(/page=profile/.test(page.url()) && /weight=wait/.test(page.url()), 'Waits: a time leads to the stacks in which it was waited');

  await page.goto(link({ page: 'disk', host: world.hostile }));
  await page.locator('.chart [data-total]').nth(2).waitFor();
  await settled(page);
  const [[requests, bytes]] = await sql(world, `SELECT sum(reads + writes), sum(read_bytes + written_bytes) FROM disk_usage() WHERE host = '${world.hostile}'`);
  check((await total(page, 'Requests')) === requests && (await total(page, 'Bytes')) === bytes, `Disk: ${requests} requests with ${bytes} bytes`);
  const [[longest]] = await sql(world, `SELECT max(max_ns) FROM disk_times() WHERE host = '${world.hostile}' AND operation <> 'flush'`);
  check(Math.max(...(await numbers(page, 'How long requests took')).flat()) === longest, `Disk: the longest request took ${longest} ns`);
  check((await rows(page, 'Files').count()) > 0, 'Disk: files');
  await picture(page, 'disk');
  await accessible(page, 'Disk');
  await rows(page, 'Processes').first().locator('a').last().click();
  await page.locator('.flame canvas, p.notice').first().waitFor();
  check(/weight=disk/.test(page.url()), "Disk: a process's time leads to its stacks");

  await page.goto(link({ page: 'host', host: world.hostile }));
  await page.locator('.chart .u-over').first().waitFor();
  await settled(page);
  const at = () => page.locator('.timeline canvas').getAttribute('aria-valuenow').then(Number), plot = page.locator('.chart .u-over');
  const area = await plot.first().boundingBox(), before = await at();
  await page.mouse.click(area.x + area.width / 4, area.y + 30);
  await page.waitForFunction((o) => Number(document.querySelector('.timeline canvas').getAttribute('aria-valuenow')) !== o, before);
  const info = await (await fetch(`${world.url}api/v1/hosts/${world.hostile}`)).json(), [from, to] = [Date.parse(info.begin), Date.parse(info.end)];
  check(Math.abs(((await at()) - from) / (to - from) - 0.25) < 0.02, `Host: a click into a chart moves the cursor of the timeline: ${((await at()) - from) / (to - from)}`);
  await page.mouse.move(area.x + area.width / 2, area.y + 30);
  const values = () => page.locator('.chart .u-legend').evaluateAll((all) => all.map((l) => l.querySelector('.u-value').textContent));
  await page.waitForFunction(() => [...document.querySelectorAll('.chart .u-legend')].every((l) => /\d/.test(l.querySelector('.u-value').textContent)));
  check(new Set(await values()).size === 1, `Host: the charts share the cursor: ${await values()}`);
}

/** What a picture of flows says: {flow or first place: number}, and whether heights are in proportion to numbers. */
const flows = (page) => page.locator('svg.sankey').evaluate((svg) => {
  const numbers = Object.fromEntries([...svg.querySelectorAll('[data-flow]')].map((e) => [e.dataset.flow, Number(e.dataset.value)])), boxes = [...svg.querySelectorAll('[data-place]')].map((e) => [Number(e.dataset.value), e.querySelector('rect').getBBox().height]);
  const [most, height] = boxes.reduce((a, b) => (b[0] > a[0] ? b : a));
  return { numbers: { events_delivered: Number(svg.dataset.total), ...numbers }, inProportion: boxes.every(([n, h]) => Math.abs(h - Math.max(1, (n * height) / most)) < 0.2) };
});

async function ledger({ page, world, check, link, settled, rows, accessible }) {
  const [[family]] = await sql(world, "SELECT family FROM ledger_last WHERE family <> '' AND counter = 'events_delivered' GROUP BY family ORDER BY sum(value) DESC, family LIMIT 1");
  for (const [what, state, where] of [['the fleet', {}, "family = ''"], [world.holed, { host: world.holed }, `family = '' AND host = '${world.holed}'`], [`the classes ${family}`, { family }, `family = '${family}'`]]) {
    await page.goto(link({ page: 'ledger', ...state }));
    await page.locator('svg.sankey').waitFor();
    await settled(page);
    const { numbers, inProportion } = await flows(page);
    const want = await sql(world, `SELECT counter, sum(value) FROM ledger_last WHERE ${where} AND counter GLOB 'events_*' AND counter NOT IN ('events_redacted', 'events_triggered') GROUP BY counter HAVING sum(value) > 0 ORDER BY counter`);
    const got = Object.entries(numbers).filter(([key, n]) => key.startsWith('events_') && n).sort(([a], [b]) => (a < b ? -1 : 1));
    check(JSON.stringify(got) === JSON.stringify(want) && want.length > 2 && inProportion, `Ledger: the flows of ${what} are SQL's, heights in proportion: ${JSON.stringify(got)}`);
    const sides = await page.locator('.balance').evaluateAll((all) => all.map((e) => [e.dataset.left, e.dataset.right].map(Number))), of = Object.fromEntries(want), sum = (names) => names.reduce((n, name) => n + (of[name] ?? 0), 0);
    const after = Object.keys(of).filter((name) => /^events_(acknowledged|unanswered|spooled|compressing|recorded|unrecorded|removed_|evicted_)/.test(name)), before = Object.keys(of).filter((name) => !after.includes(name) && !['events_delivered', 'events_synthesised'].includes(name));
    check(JSON.stringify(sides) === JSON.stringify([[sum(['events_delivered']), sum(before)], [sum(['events_batched', 'events_synthesised']), sum(after)]]), `Ledger: the balance of ${what}: ${JSON.stringify(sides)}`);
    if (state.family) {
      check(!('stored' in numbers) && (await page.getByLabel('Group of classes').inputValue()) === family, 'Ledger: what is stored of a group of classes is not known');
      continue;
    }
    const [[stored]] = await sql(world, `SELECT sum(events) FROM hosts${state.host ? ` WHERE host = '${state.host}'` : ''}`);
    await page.locator('.numbers summary').click();
    const cell = (text) => rows(page, 'Where events went: numbers').filter({ hasText: text }).locator('td').last().innerText().then(Number);
    const [both, later] = [await cell('acknowledged and stored here'), await cell('stored here, the acknowledgement')];
    check(both === (numbers.stored ?? 0) && both + later === stored && both > 0, `Ledger: of ${what} ${stored} events are stored: ${both} and ${later}`);
  }
  const coming = page.waitForEvent('download');
  await page.goto(link({ page: 'ledger', host: world.holed }));
  await page.locator('svg.sankey').waitFor();
  await page.locator('.numbers summary').click();
  await page.locator('.chart').getByRole('button', { name: 'CSV', exact: true }).click();
  check((await coming).suggestedFilename() === 'answer.csv', 'Ledger: the numbers as a file');
  const [[periods]] = await sql(world, `SELECT count(*) FROM gaps WHERE host = '${world.holed}' AND (kind <> 'counted' OR records = 0)`);
  const bars = page.locator('svg.gaps a');
  await bars.first().waitFor();
  check((await bars.count()) === periods && /: batches have not come; from 20.* to 20/.test(`: ${await bars.first().getAttribute('aria-label')}`), `Ledger: ${periods} gaps on a line of time, with the cause in words`);
  await page.emulateMedia({ colorScheme: 'dark' });
  await accessible(page, 'Ledger in the dark');
  await page.emulateMedia({ colorScheme: 'light' });
  await bars.first().focus();
  await page.keyboard.press('Enter');
  await page.locator('.timeline canvas').waitFor();
  check(/page=host.*from=/.test(page.url()), 'Ledger: keys: a gap leads to its machine at that time');
  await page.goto(link({ page: 'ledger', host: world.holed }));
  await page.getByRole('link', { name: /^written into batches: / }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Ask' }).click();
  await rows(page, 'Answer').first().waitFor();
  const [[last]] = await sql(world, `SELECT sum(value) FROM ledger_last WHERE host = '${world.holed}' AND family = '' AND counter = 'events_batched'`);
  check((await rows(page, 'Answer').first().innerText()).includes(String(last)), `Ledger: keys: a flow leads to its rows: ${last}`);
}
