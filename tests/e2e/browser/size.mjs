// Times of a large fleet's pages: prints "paint MS WHAT" and "act MS WHAT" lines.
// usage: node size.mjs WORLD.json    WORLD: {url, chromium, first, last, some}
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const { chromium } = createRequire(join(process.cwd(), 'package.json'))('playwright-core');
const world = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const browser = await chromium.launch({
  executablePath: world.chromium,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
page.setDefaultTimeout(120_000);

// Milliseconds in the page from what one does (the first click, key or input) until a condition holds and is painted.
async function timed(kind, what, begin, condition, argument) {
  await page.evaluate(([source, arg]) => {
    window.waiting = new Promise((done) => {
      const holds = new Function('arg', `return (${source})(arg)`), deeds = ['click', 'keydown', 'input'];
      const on = (event) => {
        const start = event.timeStamp;
        const look = () => (holds(arg) ? requestAnimationFrame(() => setTimeout(() => done(performance.now() - start))) : requestAnimationFrame(look));
        deeds.forEach((deed) => removeEventListener(deed, on, true));
        requestAnimationFrame(look);
      };
      deeds.forEach((deed) => addEventListener(deed, on, true));
    });
  }, [String(condition), argument]);
  await begin();
  console.log(`${kind} ${(await page.evaluate(() => window.waiting)).toFixed(0)} ${what}`);
}
async function painted(what, address, condition) {
  await page.goto(address, { waitUntil: 'commit' });
  await page.waitForFunction(condition, null, { polling: 'raf' });
  const ms = await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now())))));
  const first = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0);
  console.log(`paint ${first.toFixed(0)} ${what}: first paint`);
  console.log(`paint ${ms.toFixed(0)} ${what}: the rows are there`);
}
// more than a screen shows: of a long table what one sees is painted first
const rows = () => document.querySelectorAll('main tbody tr').length > 30;
await painted('warming up', world.url + '?page=fleet', rows);
await painted('Fleet', world.url + '?page=fleet', rows);
await timed('act', 'Fleet: search for a machine', () => page.getByLabel('Machine', { exact: true }).fill(world.some), (some) => [...document.querySelectorAll('main tbody tr')].length === 10 && document.querySelector('main tbody').innerText.includes(some), world.some);
await page.getByLabel('Machine', { exact: true }).fill('');
await page.waitForFunction(rows);
const sort = () => page.getByRole('button', { name: 'Machine', exact: false }).first().click();
const begins = (name) => document.querySelectorAll('main tbody tr').length > 30 && document.querySelector('main tbody tr').innerText.startsWith(name);
await sort();
await page.waitForFunction(() => document.querySelector('th[aria-sort=ascending]'));
await timed('act', 'Fleet: sort by name, descending', sort, begins, world.last);
await painted('Events', world.url + '?page=events', rows);
const before = await page.locator('main tbody tr').first().innerText();
await timed('act', 'Events: the next page', () => page.getByRole('button', { name: 'Next page' }).click(), (old) => document.querySelectorAll('main tbody tr').length > 30 && document.querySelector('main tbody tr').innerText !== old, before);
await page.goto(world.url + '?page=events');
await page.waitForFunction(rows);
await timed('act', 'Events: one class', () => page.locator('main tbody tr a[href*="class="]').first().click(), () => /class=/.test(location.search) && !document.querySelector('thead')?.innerText.includes('provider_name') && document.querySelectorAll('main tbody tr').length > 0);
await painted('Host', world.url + '?page=host&host=' + world.first, () => document.querySelector('.timeline canvas') && document.querySelectorAll('.tree tbody tr').length > 5);
await browser.close();
