// The dashboard in a real browser: what a person does, by mouse and once by keys alone. Prints a line "ok WHAT" or
// "FAILED WHAT" a check, and takes the documents' pictures.
// usage: node dashboard.mjs WORLD.json    (in a folder whose node_modules has what package-lock.json names)
// WORLD: {url, machine, hostile, holed, hostile_name, process: {name, pid, begin}, remote, detection: {title, fields, tags, text, ...}, pictures, chromium}
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, check, finish, link, open, problems, rows, settled, world } from './tools.mjs';
import { views } from './views.mjs';

const BUSY = 'dwm.exe'; // a process of the machine with a gap that has samples

async function picture(page, name) {
  await page.screenshot({ path: join(world.pictures, name + '.png') });
}
const has = async (page, text) => (await page.locator('main').innerText()).includes(text);
const cursor = (page) => page.locator('.timeline canvas').getAttribute('aria-valuetext');

// ---- as a person with a mouse ----
async function byMouse() {
  const page = await open({ colorScheme: 'light' });
  await page.goto(link({ page: 'fleet' }));
  await page.getByRole('link', { name: world.machine, exact: true }).waitFor();
  await settled(page);
  check((await rows(page, 'Machines').count()) === 3, 'Fleet shows three machines');
  check(/\d alerts?, 2 batches missing/.test(await page.locator('main').innerText()), 'Fleet shows alerts and gaps');
  const health = rows(page, 'Machines').filter({ hasText: world.machine }).locator('.health');
  check(/\bended$/.test(await health.innerText()), 'Fleet says that a replay ended: ' + (await health.innerText()));
  check(!(await page.locator('.tiles li.bad', { hasText: 'silent' }).count()), 'no machine is silent');
  await picture(page, 'fleet');
  await accessible(page, 'Fleet');
  await page.getByRole('button', { name: 'Events', exact: true }).click();
  await settled(page);
  check(/sort=events/.test(page.url()), 'the link has a sorted column');
  await page.getByLabel('Group by').selectOption('health');
  await rows(page, 'Groups').first().waitFor();
  check((await rows(page, 'Groups').count()) >= 2, 'groups of machines by health');
  check((await rows(page, 'Machines').filter({ hasText: 'site=north, owner=<i>ops</i>' }).count()) === 1, 'labels are shown, as text');
  await page.getByLabel('Group by').selectOption('labels.owner');
  await rows(page, 'Groups').filter({ hasText: '<i>ops</i>' }).first().waitFor();
  check(/<i>ops<.i>\s+2\s/.test(await rows(page, 'Groups').first().innerText()), 'groups by label count the machines of the whole fleet');
  await page.getByLabel('Group by').selectOption('labels.site');
  await page.getByRole('link', { name: 'north', exact: true }).click();
  await page.getByText('Machines of north').waitFor();
  await page.waitForFunction((h) => { const found = [...document.querySelectorAll('[aria-label="Machines"] tbody tr')]; return found.length === 1 && found[0].innerText.includes(h); }, world.holed);
  check(/group=labels.site/.test(page.url()) && /in=north/.test(page.url()), "a group's machines, and the group in the link");
  await accessible(page, 'Fleet in groups');
  await page.getByRole('link', { name: 'All groups' }).click();
  await page.getByRole('link', { name: '(none)', exact: true }).click();
  await page.waitForFunction((h) => document.querySelectorAll('[aria-label="Machines"] tbody tr').length === 1 && document.querySelector('[aria-label="Machines"] tbody').innerText.includes(h), world.machine);
  check(true, 'machines without the label');

  await page.goto(link({ page: 'host', host: world.machine }));
  await page.locator('.timeline canvas').waitFor();
  await settled(page);
  check(await has(page, 'Ended in order'), "a machine's page says when its run ended");
  const before = await page.locator('[aria-label="Process tree"]').innerText();
  check(before.includes('explorer.exe'), 'the process tree');
  check((await page.locator('.chart').count()) === 4 && (await page.locator('.chart canvas').count()) >= 2, 'what used processor, disk, network and files');
  const axis = await page.locator('.chart [data-axis]').first().getAttribute('data-axis');
  check(/^2024-05-03 10:00:/.test(axis), `times below a chart are UTC and in one form: ${axis}`);
  const whole = page.url(), plot = page.locator('.chart .u-over').first();
  await plot.scrollIntoViewIfNeeded();
  const area = await plot.boundingBox();
  await page.mouse.move(area.x + area.width * 0.25, area.y + 40);
  await page.mouse.down();
  await page.mouse.move(area.x + area.width * 0.75, area.y + 40, { steps: 5 });
  await page.mouse.up();
  await page.waitForFunction(() => /from=.*to=/.test(location.search));
  const [a, b] = ['from', 'to'].map((n) => Date.parse(new URL(page.url()).searchParams.get(n))), info = await (await fetch(`${world.url}api/v1/hosts/${world.machine}`)).json();
  const share = (b - a) / (Date.parse(info.end) - Date.parse(info.begin));
  check(Math.abs(share - 0.5) < 0.02, `dragging over half of a chart makes that the range: ${share}`);
  await page.goto(whole); // not back: what the narrower range had would still be there until the answers come
  await page.locator('.timeline canvas').waitFor();
  await settled(page);
  const box = await page.locator('.timeline canvas').boundingBox();
  const old = await cursor(page);
  await page.mouse.click(box.x + box.width * 0.98, box.y + 8);
  await page.waitForFunction((o) => document.querySelector('.timeline canvas').getAttribute('aria-valuetext') !== o, old);
  await page.waitForFunction((n) => document.querySelector('[aria-label="Process tree"]').innerText.includes(n), world.process.name);
  await settled(page);
  const after = await page.locator('[aria-label="Process tree"]').innerText();
  check(after !== before, `the tree at another time has ${world.process.name}`);
  await page.waitForFunction(() => /at=/.test(location.search));
  check(true, 'the link has the cursor');
  await picture(page, 'host');
  await accessible(page, 'Host');
  const address = page.url();
  await page.goto(address);
  await page.locator('.timeline canvas').waitFor();
  await page.waitForFunction((t) => document.querySelector('[aria-label="Process tree"]')?.innerText === t, after);
  check(true, 'a link brings one back to the same tree');

  await page.getByLabel('Process', { exact: true }).fill(world.process.name);
  await page.waitForFunction(() => /q=/.test(location.search));
  await page.locator('[aria-label="Process tree"] a').first().click();
  await page.getByRole('heading', { level: 1, name: world.process.name }).waitFor();
  await settled(page);
  check((await rows(page, 'Modules').count()) > 3, 'modules of a process');
  check((await rows(page, 'Threads').count()) > 0, 'threads of a process');
  check((await rows(page, 'Files').count()) > 0, 'files of a process');
  check((await page.getByRole('heading', { level: 2 }).allInnerTexts()).map((t) => t.split(' ')[0]).join() === 'Children,Connections,Modules,Threads,Files,Registry', 'what the page of a process has');
  check((await page.locator('dl.facts a').count()) === 2, 'its machine and its parent');
  await picture(page, 'process');
  await accessible(page, 'Process');

  await page.goto(link({ page: 'security', tab: 'autostart', host: world.machine, from: '2001-01-01T00:00:00Z', to: '2001-01-02T00:00:00Z' }));
  await page.locator('main p.notice').filter({ hasText: 'nothing' }).first().waitFor();
  check(await has(page, 'the flag REGISTRY'), 'an empty tab names what the session does not record');
  await page.goto(link({ page: 'security', tab: 'connections', host: world.machine }));
  await rows(page, 'Connections').first().waitFor();
  await page.getByRole('link', { name: world.remote }).first().click();
  await page.waitForFunction((r) => location.search.includes('remote=' + encodeURIComponent(r).replaceAll('%20', '+')), world.remote);
  await settled(page);
  await page.waitForFunction((r) => [...document.querySelectorAll('[aria-label="Connections"] tbody tr')].every((t) => t.innerText.includes(r)), world.remote);
  check((await rows(page, 'Connections').count()) > 0, 'connections to one address');
  await picture(page, 'security');
  await accessible(page, 'Security');
  await rows(page, 'Connections').first().locator('a').nth(1).click();
  await page.locator('dl.facts').waitFor();
  check(await has(page, 'Command line'), "a connection leads to its process");

  await detections(page);
  await page.goto(link({ page: 'host', host: world.holed }));
  await page.locator('.timeline canvas').waitFor();
  await settled(page);
  check(await has(page, '1 gap, shaded'), 'a gap is reported');
  const red = await page.locator('.timeline canvas').evaluate((c) => {
    const d = c.getContext('2d').getImageData(0, 19 * devicePixelRatio, c.width, 1).data;
    let n = 0;
    for (let i = 0; i < d.length; i += 4) if (d[i] > d[i + 2] + 30 && d[i + 3]) n++;
    return n;
  });
  check(red > 5, `a gap is shaded (${red} points)`);
  await picture(page, 'gaps');

  await page.goto(link({ page: 'events' }));
  await page.getByLabel('Class', { exact: true }).fill('TcpIp/ConnectIPV4');
  await page.waitForFunction(() => /class=/.test(location.search));
  await page.getByLabel('Fields (with a class)').fill('dport=443');
  await page.getByLabel('Fields (with a class)').press('Enter');
  await page.waitForFunction(() => /where=/.test(location.search));
  await settled(page);
  await rows(page, 'Events').filter({ hasText: '443' }).first().waitFor();
  await page.waitForFunction(() => [...document.querySelectorAll('[aria-label="Events"] tbody tr')].every((r) => r.innerText.includes('443')));
  check((await rows(page, 'Events').count()) > 0, 'events by class and field');
  await picture(page, 'events');
  await accessible(page, 'Events');
  const csv = await page.getByRole('link', { name: 'CSV' }).getAttribute('href');
  check(csv.includes('where=dport%3D443') && csv.includes('format=csv'), 'the export is of what is shown');
  await page.getByLabel('Columns').fill('time,daddr');
  await page.waitForFunction(() => [...document.querySelectorAll('[aria-label="Events"] thead th')].map((t) => t.innerText).join() === 'time,daddr');
  check(/columns=time%2Cdaddr/.test(page.url()), 'chosen columns');
  await page.getByLabel('Columns').fill('');
  await page.waitForFunction(() => document.querySelectorAll('[aria-label="Events"] thead th').length > 5);
  await page.getByLabel('Save this search as').fill('web');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.goto(link({ page: 'events' }));
  await page.getByRole('link', { name: 'web', exact: true }).click();
  await page.waitForFunction(() => /where=/.test(location.search));
  check(true, 'a saved search');
  await page.goto(link({ page: 'events' }));
  await page.getByLabel('Machine', { exact: true }).pressSequentially(world.machine, { delay: 60 });
  await page.waitForFunction((h) => location.search.includes('host=' + h), world.machine);
  await page.waitForFunction((h) => { const found = [...document.querySelectorAll('[aria-label="Events"] tbody tr')]; return found.length && found.every((r) => r.innerText.startsWith(h)); }, world.machine);
  check((await page.getByLabel('Machine', { exact: true }).inputValue()) === world.machine, "a machine's name is typed letter by letter");
  await page.goto(link({ page: 'events', from: '2030-01-01T00:00:00Z' }));
  await page.getByText(/^events are stored from 20\d\d-\d\d-\d\d .* to 20\d\d-/).waitFor();
  await page.goto(link({ page: 'events', host: world.holed, from: '2030-01-01T00:00:00Z' }));
  await page.getByText(/^events are stored from 2024-05-03 10:00:0.* to 2024-05-03 /).waitFor();
  check(await has(page, 'no event fits'), 'a search that finds nothing says from when to when events are stored');
  await overTime(page);
  await page.goto(link({ page: 'events', live: '1' }));
  await page.getByText('events as they are stored').waitFor();
  check(true, 'the live tail opens');

  await page.goto(link({ page: 'host', host: world.holed }));
  await page.getByRole('link', { name: 'Flame graph' }).click();
  await page.locator('.flame canvas').waitFor();
  await settled(page);
  const flame = await page.locator('.flame canvas').boundingBox();
  const said = () => page.locator('.flame canvas').getAttribute('aria-label');
  await page.mouse.move(flame.x + 20, flame.y + 27);
  await page.waitForFunction(() => !/: all,/.test(document.querySelector('.flame canvas').getAttribute('aria-label')));
  await picture(page, 'profile');
  await accessible(page, 'Profile');
  await page.locator('.flame canvas').focus();
  const chosen = await said();
  await page.keyboard.press('ArrowDown');
  await page.waitForFunction((o) => document.querySelector('.flame canvas').getAttribute('aria-label') !== o, chosen);
  check(/ of /.test(await said()), 'a flame graph, and a frame chosen by keys');
  await page.keyboard.press('Enter');
  await page.getByText('Escape goes back').waitFor();
  await page.keyboard.press('Escape');
  await search(page, said);
  const exports = () => page.locator('.export a').allInnerTexts().then((all) => all.join());
  check((await exports()) === 'folded,speedscope,pprof,chrome,firefox', 'a profile as a file for other tools');
  await page.getByRole('button', { name: 'Second half against first' }).click();
  await page.getByText('on the other side').waitFor();
  check(/diff=1/.test(page.url()), 'a difference of two ranges');
  check((await exports()) === 'folded,speedscope,pprof', 'a difference is offered in the forms that have room for one');
  await page.getByRole('button', { name: 'No difference' }).click();
  await page.getByRole('button', { name: 'Compare', exact: true }).click();
  const compared = page.waitForResponse((r) => new URL(r.url()).searchParams.get('other_host') === world.machine && r.ok());
  await page.getByLabel('Compared with machine').fill(world.machine);
  const sides = await (await compared).json();
  check(sides.other.hosts.join() === world.machine && sides.hosts.join() === world.holed, 'a difference of two machines');
  await page.getByText('on the other side').waitFor();
  await page.route('**/api/v1/counters*', (r) => r.fulfill({ json: { items: [{ counter: 'Cache<Misses>', samples: 5, hosts: 1 }], next: null, ending: null, damaged: 0 } }));
  await page.goto(link({ page: 'profile', host: world.holed }));
  await page.getByLabel('What counts').locator('option', { hasText: 'counter Cache<Misses>' }).waitFor({ state: 'attached' });
  const counted = page.waitForRequest((r) => new URL(r.url()).searchParams.get('weight') === 'pmc:Cache<Misses>');
  await page.getByLabel('What counts').selectOption('pmc:Cache<Misses>');
  await counted;
  check(/weight=pmc/.test(page.url()), "a profile's weight may be a counter that the machines' data names");
  await page.unroute('**/api/v1/counters*');
  await page.goto(link({ page: 'profile', host: world.holed, weight: 'pmc:Other' }));
  check((await page.getByLabel('What counts').inputValue()) === 'pmc:Other', 'a weight that only the link names is shown');
  let asked = 0;
  const count = (r) => { asked += r.url().includes('/api/v1/') && !r.url().includes('/tail'); };
  for (const name of ['profile', 'host', 'security', 'events', 'ledger']) {
    await page.goto(link({ page: name, host: world.holed, range: '7d' }));
    await page.getByRole('heading', { level: 1 }).waitFor();
    await settled(page);
    asked = 0;
    page.on('request', count);
    await page.waitForTimeout(1500);
    page.off('request', count);
    check(asked === 0, `${name}: the last seven days are asked for once${asked ? `, not ${asked} times more` : ''}`);
  }
  await page.goto(link({ page: 'queries', query: 'top-processes-by-cpu' }));
  await rows(page, 'Processes with the most samples of the processor').first().waitFor();
  const field = page.getByRole('textbox', { name: /One SELECT/ });
  const write = async (sql) => { // by keys: fill would change the text without the editor
    await page.locator('.editor').getByRole('textbox').focus();
    await page.keyboard.press('Control+a');
    await page.keyboard.type(sql);
    await page.keyboard.press('Escape'); // the list of completions
  };
  await write("SELECT '<i>x</i>' AS a, 1 + 1 AS b");
  await page.getByRole('button', { name: 'Ask' }).click();
  await rows(page, 'Answer').first().waitFor();
  check((await rows(page, 'Answer').first().innerText()).includes('<i>x</i>'), 'SQL is answered, as text');
  check((await field.boundingBox()).width > 900, `the field of SQL is as wide as the page: ${(await field.boundingBox()).width}`);
  await page.getByText('Tables and columns').click();
  await page.getByRole('button', { name: 'processes', exact: true }).waitFor();
  check(/parent_image_name/.test(await page.locator('.tables dl').innerText()), 'the tables of SQL with their columns');
  await accessible(page, 'Queries');
  await page.getByRole('button', { name: 'processes', exact: true }).click();
  await page.waitForFunction(() => document.querySelector('.editor').shadowRoot.querySelector('.cm-content').innerText.trim() === 'SELECT * FROM processes LIMIT 100');
  check(true, 'a table that is chosen');
  await write('SELECT pid FROM processes JOIN (SELECT 1 FROM processes LIMIT 30)');
  await page.getByRole('button', { name: 'Ask' }).click();
  await page.getByText('the first 1000 rows; a file has all').waitFor();
  const all = await page.evaluate(async (u) => (await (await fetch(u, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ sql: 'SELECT 30 * count(*) FROM processes' }) })).json()).rows[0][0], world.url + 'api/v1/sql');
  for (const [form, name] of [['csv', 'CSV'], ['jsonl', 'JSON lines']]) {
    const coming = page.waitForEvent('download');
    await page.locator('form.sql').getByRole('button', { name, exact: true }).click();
    const file = await coming, lines = readFileSync(await file.path(), 'utf8').trim().split('\n');
    check(file.suggestedFilename() === 'answer.' + form && lines.length === all + (form === 'csv' ? 1 : 0), `an answer as ${form}: ${lines.length} lines, ${all} rows`);
  }
  await narrow(page);
  await times(page);
  await page.goto(link({ page: 'ledger', host: world.holed }));
  await settled(page);
  check(await has(page, 'missing'), 'the ledger names the gap');
  await picture(page, 'ledger');
  await accessible(page, 'Ledger');
  await page.context().close();
}

// ---- how many events a search finds, over time ----
async function overTime(page) {
  const bars = page.locator('.bars button'), range = () => ['from', 'to'].map((n) => new URL(page.url()).searchParams.get(n)).join();
  const shown = () => bars.evaluateAll((all) => all.map((b) => Number(b.dataset.count)));
  const isSum = (n) => page.waitForFunction((want) => [...document.querySelectorAll('.bars button')].reduce((sum, b) => sum + Number(b.dataset.count), 0) === want, n);
  const { items } = await (await fetch(`${world.url}api/v1/events/counts?host=${world.holed}&buckets=60`)).json(), total = items.reduce((n, b) => n + b.count, 0);
  await page.goto(link({ page: 'events', host: world.holed }));
  await isSum(total);
  check((await shown()).join() === items.map((b) => b.count).join() && items.length > 10 && items.length <= 60, `a bar for each of ${items.length} buckets`);
  const fullest = items.reduce((a, b) => (b.count > a.count ? b : a));
  await bars.nth(items.indexOf(fullest)).click();
  await isSum(fullest.count);
  await settled(page);
  check(range() === [fullest.begin, fullest.end].join(), `a bar narrows the range to its bucket: ${range()}`);
  check((await rows(page, 'Events').count()) === Math.min(100, fullest.count), `the page has the bucket's events: ${await rows(page, 'Events').count()} of ${fullest.count}`);
  await page.goBack();
  await isSum(total);
  await bars.first().focus();
  for (const key of ['End', 'Home', 'ArrowRight', 'Shift+ArrowRight', 'Shift+ArrowRight']) await page.keyboard.press(key);
  check((await page.locator('.bars .marked').count()) === 3 && (await page.evaluate(() => document.activeElement.getAttribute('aria-label'))).endsWith(`: ${items[3].count} ${items[3].count === 1 ? 'event' : 'events'}`), 'keys: three bars are marked, and the last one is read');
  await page.keyboard.press('Enter');
  await isSum(items[1].count + items[2].count + items[3].count);
  check(range() === [items[1].begin, items[3].end].join(), `keys: the range of the marked bars: ${range()}`);
  await page.goBack();
  await isSum(total);
  const [a, b] = [await bars.nth(4).boundingBox(), await bars.nth(6).boundingBox()];
  await page.mouse.move(b.x + b.width / 2, b.y + b.height / 2);
  await page.mouse.down();
  await page.mouse.move(a.x + a.width / 2, a.y + a.height / 2, { steps: 6 });
  await page.mouse.up();
  await isSum(items[4].count + items[5].count + items[6].count);
  check(range() === [items[4].begin, items[6].end].join(), `the range of the bars that one drags over: ${range()}`);
  const found = (await (await fetch(`${world.url}api/v1/events/counts?host=${world.holed}&q=explorer.exe`)).json()).items.reduce((n, b) => n + b.count, 0);
  await page.goto(link({ page: 'events', host: world.holed, q: 'explorer.exe' }));
  await rows(page, 'Events').first().waitFor();
  check((await bars.count()) === 0 && found > 0, 'a part of any field is not counted over all times unasked');
  await page.getByRole('button', { name: 'Count them over time' }).click();
  await isSum(found);
}

// ---- a flame graph's search, and a function's callers and callees, against the sums of the stacks that the API has ----
async function search(page, said) {
  const address = new URL(page.url()), profile = await (await fetch(`${world.url}api/v1/profile?host=${world.holed}&weight=cpu`)).json();
  const names = profile.nodes.map(([, frame]) => (frame < 0 ? profile.processes[-1 - frame] : profile.frames[frame].label)), stacks = [];
  profile.nodes.forEach(([, , self], node) => {
    const path = [];
    for (let n = node; n >= 0; n = profile.nodes[n][0]) path.unshift(names[n]);
    if (self) stacks.push([path, self]);
  });
  const share = (value, of) => ((100 * value) / of).toFixed(1) + ' %', sum = (some) => some.reduce((n, [, self]) => n + self, 0);
  const part = profile.modules.find((m) => stacks.some(([path]) => path.filter((n) => n.startsWith(m.name)).length > 1)).name.slice(0, 5).toUpperCase();
  const hit = stacks.filter(([path]) => path.some((n) => n.toUpperCase().includes(part)));
  const different = new Set(names.filter((n) => n.toUpperCase().includes(part)));
  await page.getByLabel('Find functions or modules').fill(part);
  const status = page.locator('.tools [role=status]');
  await status.waitFor();
  check((await status.innerText()).startsWith(`${different.size} name`) && (await status.innerText()).endsWith(', ' + share(sum(hit), profile.total)), `a search in the flame graph: ${part}, ${await status.innerText()}; ${different.size} names, ${share(sum(hit), profile.total)}`);
  await page.waitForFunction((p) => { const found = [...document.querySelectorAll('[aria-label="Functions"] tbody tr')]; return found.length && found.every((r) => r.innerText.toUpperCase().includes(p)); }, part);
  await page.locator('.flame canvas').focus();
  await page.keyboard.press('n');
  await page.waitForFunction(() => /, found$/.test(document.querySelector('.flame canvas').getAttribute('aria-label')));
  const first = await said();
  await page.keyboard.press('n');
  await page.waitForFunction((o) => document.querySelector('.flame canvas').getAttribute('aria-label') !== o, first);
  check(/, found$/.test(await said()), `the next frame that was found: ${await said()}`);
  await page.keyboard.press('a');
  await page.waitForFunction(() => /function=/.test(location.search));
  const callers = new Map(), callees = new Map(), it = new URL(page.url()).searchParams.get('function');
  const inside = stacks.filter(([path]) => path.includes(it));
  for (const [path, self] of inside) {
    const at = path.indexOf(it);
    if (at) callers.set(path[at - 1], (callers.get(path[at - 1]) ?? 0) + self);
    if (path[at + 1]) callees.set(path[at + 1], (callees.get(path[at + 1]) ?? 0) + self);
  }
  for (const [label, want] of [['Callers', callers], ['Callees', callees]]) {
    const shown = (await page.locator(`.scroll[aria-label="${label}"] tbody tr`).allInnerTexts()).map((r) => r.split('\t').slice(1).join());
    check(shown.sort().join('; ') === [...want].map(([n, v]) => `${share(v, sum(inside))},${n}`).sort().join('; ') && (label === 'Callees' || shown.length), `${label} of ${it}: ${shown.join('; ').slice(0, 300)}`);
  }
  check((await page.locator('.sandwich canvas').count()) === 2 && (await page.locator('.sandwich [role=status]').innerText()).includes(`${share(sum(inside), profile.total)} of all`), 'both graphs of a function, and its share');
  await accessible(page, 'callers and callees');
  await page.locator('.scroll[aria-label="Callers"] a').first().click();
  await page.waitForFunction((o) => new URLSearchParams(location.search).get('function') !== o, it);
  check(true, 'a caller leads to its own callers');
  await page.getByRole('link', { name: 'Close', exact: true }).click();
  await page.locator('.sandwich').waitFor({ state: 'detached' });
  await page.goto(address.href);
  await page.locator('.flame canvas').waitFor();
  await settled(page);
}

// ---- as wide as a telephone ----
async function narrow(page) {
  await page.setViewportSize({ width: 400, height: 800 });
  for (const state of [{ page: 'host', host: world.holed }, { page: 'queries' }, { page: 'fleet' }, { page: 'events', host: world.holed }, { page: 'ledger', host: world.holed }, { page: 'profile', host: world.holed, function: BUSY }]) {
    await page.goto(link(state));
    await settled(page);
    const head = (await page.locator('header').boundingBox()).height, wide = await page.evaluate(() => document.documentElement.scrollWidth);
    check(head <= 150 && wide <= 400, `${state.page} on 400 pixels: a header of ${head}, as wide as ${wide}`);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}

// ---- what rules matched ----
async function detections(page) {
  const d = world.detection;
  await page.goto(link({ page: 'detections' }));
  await rows(page, 'Detections').first().waitFor();
  const row = await rows(page, 'Detections').first().innerText();
  check((await rows(page, 'Detections').count()) === 1 && [d.title, d.level, world.machine, 'x.exe (4)', 'open', d.tags[0]].every((t) => row.includes(t)), `the queue: ${row}`);
  await accessible(page, 'Detections');
  await page.getByLabel('State').selectOption('closed');
  await page.getByText('nothing was detected that fits').waitFor();
  await page.getByLabel('State').selectOption('all');
  await page.getByLabel('Level').selectOption('high');
  await page.getByRole('link', { name: d.title }).click();
  await page.getByRole('heading', { level: 1, name: d.title }).waitFor();
  await rows(page, 'Fields').first().waitFor();
  check((await rows(page, 'Fields').allInnerTexts()).join('\n') === Object.entries(d.fields).map((f) => f.join('\t')).join('\n'), 'the fields of a detection, as text');
  const chain = rows(page, 'The process and its parents');
  check((await chain.allInnerTexts()).join('\n') === d.chain.map((p) => [p.image_name, p.pid, '', '', p.command_line].join('\t')).join('\n') &&
    (await chain.first().getByRole('link').getAttribute('href')).includes('instance=1'), `the process and its parents: ${await chain.allInnerTexts()}`);
  check((await page.locator('pre.rule').innerText()).trim() === d.text.trim(), "the rule's text beside them");
  const facts = await page.locator('dl.facts').innerText();
  check([d.rule, d.source, d.tags[0], world.machine].every((t) => facts.includes(t)), `facts of a detection: ${facts}`);
  await accessible(page, 'a detection');
  let sent;
  await page.route('**/api/v1/detections/*', (r) => (r.request().method() === 'POST' ? (sent = r.request().postDataJSON(), r.fulfill({ json: {} })) : r.continue()));
  await page.getByLabel('Comment').fill('ours');
  const again = page.waitForResponse((r) => r.request().method() === 'GET' && /detections\/1$/.test(r.url()));
  await page.getByRole('button', { name: 'Close', exact: true }).click();
  await again;
  check(JSON.stringify(sent) === JSON.stringify({ state: 'closed', comment: 'ours' }), `a detection is closed, and asked for again: ${JSON.stringify(sent)}`);
  await page.unroute('**/api/v1/detections/*');
  await page.getByRole('link', { name: 'The machine around it' }).click();
  await page.locator('.timeline canvas').waitFor();
  const around = new URL(page.url()).searchParams;
  check(around.get('host') === world.machine && around.get('from') === '2024-05-03T09:55:00.0000000Z' && around.get('at').startsWith('2024-05-03T10:00:00'), `the machine around it: ${page.url()}`);
}

// ---- times as people write them, which the collector reads ----
async function times(page) {
  const dialog = page.getByRole('dialog', { name: 'Time range' }), from = dialog.getByLabel('From', { exact: true }), given = () => new URL(page.url()).searchParams.get('from') ?? '';
  const shown = page.getByRole('button', { name: /^Time range: / });
  const write = async (text) => {
    const old = given();
    await shown.click();
    await from.fill(text);
    await from.press('Enter');
    await page.waitForFunction((o) => (new URLSearchParams(location.search).get('from') ?? '') !== o, old);
    await dialog.waitFor({ state: 'detached' });
    return given();
  };
  const ask = async (sql) => (await (await fetch(world.url + 'api/v1/sql', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ sql, host: world.holed }) })).json()).rows[0][0];
  await page.goto(link({ page: 'events', host: world.holed }));
  await settled(page);
  const first = await ask('SELECT time_text(min(time)) FROM events'), later = await ask('SELECT time_text(min(time) + 1500000000) FROM events');
  check((await write('start')) === first, `From "start" is the machine's first event: ${given()}, expected ${first}`);
  check((await write('+1500ms')) === later, `From "+1500ms" is that long after it: ${given()}, expected ${later}`);
  check((await shown.innerText()) === `from ${later.slice(0, 10)} ${later.slice(11, 23)}`, `the range in words: ${await shown.innerText()}`);
  await page.keyboard.press('t');
  check((await from.inputValue()) === later, 'the field shows the time that was meant');
  await accessible(page, 'the time range');
  await page.keyboard.press('Escape');
  check((await write('2020-07-29 00:07')) === '2020-07-29T00:07:00.0000000Z', 'From without a zone is UTC: ' + given());
  const hour = Date.parse(await write('-1h')) - Date.now() + 3600e3;
  check(Math.abs(hour) < 60e3, `From "-1h" is an hour ago: ${hour} ms beside it`);
  const day = Date.parse(await write('yesterday'));
  check(day % 86400e3 === 0 && Date.now() - day >= 86400e3 && Date.now() - day < 2 * 86400e3 + 60e3, 'From "yesterday" is its midnight: ' + given());
  const kept = given();
  await shown.click();
  await from.fill('yesterdy');
  await from.press('Enter');
  const said = await dialog.getByRole('alert').innerText();
  check(/'yesterdy': expected a time such as/.test(said) && given() === kept, `a mistyped time is reported and changes nothing: ${said}`);
  await from.fill('2020-07-29 00:08');
  await dialog.getByLabel('To', { exact: true }).fill('2020-07-29 00:07');
  await dialog.getByRole('button', { name: 'Apply' }).click();
  await dialog.getByText('From is after To').waitFor();
  check(given() === kept, 'a range that ends before it begins changes nothing');
  await dialog.getByLabel('From (calendar)').fill('2020-07-29T00:06:30');
  await dialog.getByRole('button', { name: 'Apply' }).click();
  await dialog.waitFor({ state: 'detached' });
  const span = () => ['range', 'from', 'to'].map((n) => (new URL(page.url()).searchParams.get(n) ?? '').slice(-17)).join();
  check(span() === ',00:06:30.0000000Z,00:07:00.0000000Z' && (await shown.innerText()) === '2020-07-29 00:06:30 – 00:07', `a range out of a calendar: ${span()}, ${await shown.innerText()}`);
  for (const [key, name, meant] of [[',', 'Earlier', ',00:06:00.0000000Z,00:06:30.0000000Z'], ['.', 'Later', ',00:06:30.0000000Z,00:07:00.0000000Z'], ['z', 'Twice as wide', ',00:06:15.0000000Z,00:07:15.0000000Z']]) {
    await page.keyboard.press(key);
    const byKey = span();
    await page.goBack();
    await page.getByRole('button', { name, exact: true }).click();
    check(byKey === meant && span() === meant, `${name} by key and by button: ${byKey}, ${span()}`);
  }
  await page.keyboard.press('t');
  await dialog.getByRole('button', { name: 'last 6h' }).press('Enter');
  await dialog.waitFor({ state: 'detached' });
  check(span() === '6h,,' && (await shown.innerText()) === 'last 6h', `a quick range: ${span()}`);
  await page.getByRole('link', { name: 'Profile', exact: true }).click();
  check(span() === '6h,,', 'another page has the same range');
  await page.goto(link({ page: 'host', host: world.holed, from: 'start', to: 'end' }));
  await page.waitForFunction((f) => new URLSearchParams(location.search).get('from') === f, first);
  await page.locator('.timeline canvas').waitFor();
  await settled(page);
  check(true, 'a link may have such times');
  problems.splice(0, problems.length, ...problems.filter((p) => !/status of 400/.test(p))); // the mistyped time
}

// ---- answers that are not whole ----
async function incomplete() {
  const page = await open({});
  for (const [route, state, empty] of [['hosts', { page: 'fleet' }, 'no machine has sent'], ['events', { page: 'events', host: world.machine }, 'no event fits'], ['alerts', { page: 'ledger' }, 'every ledger adds up']]) {
    const address = new RegExp(`/api/v1/${route}([?]|$)`);
    await page.route(address, (r) => r.fulfill({ contentType: 'application/json', body: '{"items":[],"next":null,"ending":"time","damaged":0}' }));
    await page.goto(link(state));
    await page.getByText('incomplete: the question ended at its limit of time').first().waitFor();
    check(!(await has(page, empty)), `${route} ended at a limit: the page does not say "${empty}"`);
    await page.unroute(address);
  }
  await page.context().close();
}

// ---- what an attacker called things ----
async function hostile() {
  const page = await open({});
  for (const state of [{ page: 'home', by: 'host' }, { page: 'home', by: 'labels.owner' }, { page: 'home', by: '<b>' }, { page: 'waits', host: world.hostile }, { page: 'waits', host: world.hostile, pid: '<b>' }, { page: 'disk', host: world.hostile }, { page: 'events', filters: '["<b>==<script>"]', field: '"<b>' }, { page: 'events', filters: '{', field: 'name' }, { page: 'host', host: world.hostile }, { page: 'security', host: world.hostile }, { page: 'events', host: world.hostile, class: 'Process/DCStart' },
    { page: 'host', host: '../../etc/passwd' }, { page: 'host', host: '<img src=x onerror=alert(1)>' }, { page: 'events', where: "x'; DROP TABLE hosts --=1", class: '"><script>alert(1)</script>' },
    { page: 'process', host: world.hostile, stream: '<b>', instance: '-1' }, { page: '__proto__' }, { page: 'constructor' }, { from: 'x', to: '\u001b[31m' }]) {
    await page.goto(link(state));
    await settled(page);
    check((await page.locator('#pwn, main script, main img, main svg').count()) === 0, `nothing was made of names: ${JSON.stringify(state)}`);
  }
  problems.splice(0, problems.length, ...problems.filter((p) => !/status of 40[04]/.test(p))); // asked for on purpose
  await page.goto(link({ page: 'host', host: world.hostile }));
  await page.waitForFunction((n) => document.querySelector('[aria-label="Process tree"]')?.innerText.includes(n), world.hostile_name);
  check(true, 'markup in a name is shown as text');
  await page.context().close();
}

// ---- by keys alone, in the dark ----
async function byKeys() {
  const page = await open({ colorScheme: 'dark' });
  const press = async (...keys) => { for (const k of keys) await page.keyboard.press(k); };
  const tabTo = async (text) => { // and opens it
    for (let i = 0; i < 80 && (await page.evaluate(() => document.activeElement.textContent)) !== text; i++) await press('Tab');
    await press('Enter');
  };
  await page.goto(link({ page: 'fleet' }));
  await page.getByRole('link', { name: world.machine, exact: true }).waitFor();
  await press('/');
  await page.keyboard.type(world.machine);
  await page.waitForFunction(() => /q=/.test(location.search));
  await settled(page);
  await tabTo(world.machine);
  await page.locator('.timeline canvas').waitFor();
  await settled(page);
  check(/page=host/.test(page.url()), 'keys: a machine is opened');
  await press('c');
  await page.waitForFunction(() => document.querySelector('[aria-label="Process tree"]')?.innerText.includes('explorer.exe'));
  const old = await cursor(page), tree = await page.locator('[aria-label="Process tree"]').innerText();
  await press('Home');
  await page.waitForFunction((o) => document.querySelector('.timeline canvas').getAttribute('aria-valuetext') !== o, old);
  await page.waitForFunction((t) => document.querySelector('[aria-label="Process tree"]').innerText !== t, tree);
  const first = await page.locator('[aria-label="Process tree"]').innerText();
  await press('End', 'Shift+ArrowLeft', 'ArrowRight');
  await page.waitForFunction((t) => document.querySelector('[aria-label="Process tree"]').innerText !== t, first);
  check(tree.length > 0, 'keys: the tree changes with the cursor');
  await press('/');
  await page.keyboard.type(world.process.name);
  await page.waitForFunction(() => /q=/.test(location.search));
  await settled(page);
  await tabTo(world.process.name);
  await page.getByRole('heading', { level: 1, name: world.process.name }).waitFor();
  check(true, 'keys: a process is found by name and opened');
  // the machine with a gap: the gap, one of its processes' flame graph, a connection and whose it is
  await press('g', 'f');
  await page.getByRole('link', { name: world.holed, exact: true }).first().waitFor();
  await tabTo(world.holed);
  await page.locator('.timeline canvas').waitFor();
  await settled(page);
  check(await has(page, '1 gap, shaded'), 'keys: a gap is reported');
  await press('/');
  await page.keyboard.type(BUSY);
  await page.waitForFunction(() => /q=/.test(location.search));
  await tabTo(BUSY);
  await page.getByRole('heading', { level: 1, name: BUSY }).waitFor();
  await tabTo('Its flame graph');
  await page.locator('.flame canvas').waitFor();
  await settled(page);
  await press('c');
  const all = await page.locator('.flame canvas').getAttribute('aria-label');
  await press('ArrowDown', 'ArrowDown');
  await page.waitForFunction((o) => document.querySelector('.flame canvas').getAttribute('aria-label') !== o, all);
  check(/pid=\d/.test(page.url()), "keys: a process's flame graph");
  await press('g', 's');
  await page.getByRole('heading', { level: 1, name: 'Security' }).waitFor();
  await settled(page);
  await accessible(page, 'Security in the dark');
  await tabTo('Connections');
  await rows(page, 'Connections').first().waitFor();
  await settled(page);
  const to = await rows(page, 'Connections').first().locator('a').last().innerText();
  await tabTo(to);
  await page.waitForFunction((r) => location.search.includes('remote=' + encodeURIComponent(r)), to.split(' ')[0]);
  await page.waitForFunction((r) => [...document.querySelectorAll('[aria-label="Connections"] tbody tr')].every((t) => t.innerText.includes(r)), to.split(' ')[0]);
  const who = await rows(page, 'Connections').first().locator('a').nth(1).innerText();
  await tabTo(who);
  await page.getByRole('heading', { level: 1, name: who }).waitFor();
  await rows(page, 'Connections').filter({ hasText: to.split(' ')[0] }).first().waitFor();
  check(true, 'keys: a connection is followed to its process');
  await page.evaluate(() => { // where the focus is at the moment when the page is there
    const watch = new MutationObserver(() => {
      if (document.querySelector('h1')?.textContent !== 'Events') return;
      window.focusOfEvents = document.activeElement.id;
      watch.disconnect();
    });
    watch.observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  await press('g', 'e');
  await page.getByRole('heading', { level: 1, name: 'Events' }).waitFor();
  const focus = await page.evaluate(() => window.focusOfEvents);
  check(focus === 'main', `keys: the content has the focus as soon as it is there, so that no letter typed next is lost: ${focus}`);
  await press('/');
  await page.keyboard.type('explorer.exe');
  await press('Enter');
  await page.waitForFunction(() => /q=explorer/.test(location.search));
  await page.waitForFunction(() => { // the earlier rows stay until the answer comes
    const found = [...document.querySelectorAll('[aria-label="Events"] tbody tr')];
    return found.length && found.every((r) => r.innerText.includes('explorer.exe'));
  });
  check(true, 'keys: events are searched');
  // the collector gives up for the moment, as it does after some seconds: nothing was found, and there is more to look at
  await page.route((u) => u.pathname === '/api/v1/events' && !u.searchParams.has('cursor'), async (r) => {
    const answer = await r.fetch({ url: r.request().url().replace('limit=100', 'limit=1') }), data = await answer.json();
    await r.fulfill({ json: { ...data, items: [], ending: 'time' } });
  });
  await page.goto(link({ page: 'events', q: 'explorer.exe' }));
  await rows(page, 'Events').first().waitFor();
  check(/cursor=/.test(page.url()), 'a search that found nothing yet goes on by itself');
  await page.unrouteAll();
  await press('Escape');
  await page.evaluate(() => document.activeElement.blur());
  await press('?');
  await page.getByRole('dialog').waitFor();
  await accessible(page, 'the list of keys');
  await press('Escape');
  await page.goto(link({ page: 'host', host: world.machine }));
  await page.locator('.timeline canvas').waitFor();
  await settled(page);
  await picture(page, 'host-dark');
  await accessible(page, 'Host in the dark');
  await page.context().close();
}

try {
  await byMouse();
  await incomplete();
  const page = await open({ colorScheme: 'light' });
  await views({ page, world, check, link, settled, rows, accessible, picture });
  await page.context().close();
  await hostile();
  await byKeys();
} catch (e) {
  check(false, `the walk through the pages: ${e.stack}`);
}
await finish();
