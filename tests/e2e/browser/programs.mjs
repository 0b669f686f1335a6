// The page of programs' results in a real browser. Prints a line "ok WHAT" or "FAILED WHAT" a check.
// usage: node programs.mjs WORLD.json    WORLD: {url, chromium, tables: {name: rows}, table, newest: [cells], lines: [label], value, others}
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.cwd(), 'package.json'));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const world = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const check = (good, what) => console.log(`${good ? 'ok' : 'FAILED'} ${what.replaceAll('\n', ' ')}`);
const browser = await chromium.launch({
  executablePath: world.chromium,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce' })).newPage();
const problems = [];
page.setDefaultTimeout(60_000);
page.on('console', (m) => ['error', 'warning'].includes(m.type()) && problems.push(m.text()));
page.on('pageerror', (e) => problems.push(e.message));
const rows = (label) => page.locator(`[aria-label="${label}"] tbody tr`);
const accessible = async (what) => {
  const found = await page.evaluate(axe + ';axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html.slice(0, 90)).slice(0, 3).join(" | ")))');
  check(found.length === 0, `axe finds nothing on ${what}: ${found.join('; ')}`);
};

await page.goto(world.url + '?page=programs');
await rows('Tables').first().waitFor();
const listed = Object.fromEntries((await rows('Tables').allInnerTexts()).map((t) => t.split('\t')).map(([name, , count]) => [name, Number(count)]));
check(JSON.stringify(listed) === JSON.stringify(world.tables), `the tables and their rows: ${JSON.stringify(listed)}, ${JSON.stringify(world.tables)}`);
await page.getByRole('link', { name: world.table, exact: true }).click();
await rows('Rows').first().waitFor();
check(/table=/.test(page.url()), 'the link has the table');
// not with the next answer, which comes each 30 s
await page.waitForFunction((t) => document.querySelector('[aria-label=Tables] a[aria-current]')?.innerText === t, world.table, { timeout: 10_000 });
const first = (await rows('Rows').first().innerText()).split('\t').slice(1);
check(world.newest.some((r) => r.join() === first.join()), `the newest row: ${first}, of ${JSON.stringify(world.newest.slice(0, 3))}`);
await page.locator('.chart canvas').waitFor();
const labels = (await page.locator('.chart .u-legend .u-label').allInnerTexts()).slice(1);
check(labels.length === world.lines.length && labels.every((l) => world.lines.includes(l)), `the lines with the greatest values: ${labels}, ${world.lines}`);
await page.locator('.chart summary').click();
const numbers = await rows('Over time').allInnerTexts();
check(numbers.some((t) => t.split('\t').includes(String(world.value))), `the chart's numbers have the greatest value ${world.value}`);
await accessible('Programs');
await page.goto(world.url + '?page=programs&table=' + world.others);
await rows('Rows').filter({ hasText: '(others)' }).first().waitFor();
check((await rows('Rows').allInnerTexts()).some((t) => t.includes('(others)')), 'the sum of keys without room has its name');
await page.goto(world.url + '?page=programs&range=5m');
await page.locator('main p.notice', { hasText: 'no program has given results' }).waitFor();
check(true, 'the notice of a range without results');
check(problems.length === 0, `no error: ${problems}`);
await browser.close();
