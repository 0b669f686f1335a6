// Reads pages of the dashboard in a real browser: the texts that a person sees in tables, facts, tiles and notes, the sums that charts say of themselves, and the counts of bars.
// usage: node read.mjs PAGES.json    (in a folder whose node_modules has what package-lock.json names)
// PAGES: {chromium, pages: [{name, url}]}; prints {name: {tables: {label: {head, rows}}, facts, tiles, charts, bars, headings, notes, cursor}}
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.cwd(), 'package.json'));
const { chromium } = require('playwright-core');
const { chromium: program, pages } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'] });
const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce' });
const found = {};
await Promise.all(pages.map(async ({ name, url, press }) => {
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  await page.goto(url);
  await page.locator('main h1').waitFor();
  if (press) await page.getByRole('button', { name: press, exact: true }).click();
  await page.waitForLoadState('networkidle');
  // busy: rows of a long table are painted afterwards
  await page.waitForFunction(() => !/asking the collector/.test(document.body.innerText) && !document.querySelector('[aria-busy=true]'));
  found[name] = await page.evaluate(() => {
    const text = (e) => e.textContent.trim();
    const all = (selector, of = document) => [...of.querySelectorAll(selector)];
    return {
      tables: Object.fromEntries(all('main [aria-label]').filter((e) => e.querySelector('table')).map((e) => [e.getAttribute('aria-label'),
        { head: all('thead th', e).map(text), rows: all('tbody tr', e).map((r) => all('td', r).map((e) => e.textContent)) }])),
      facts: Object.fromEntries(all('main .facts > div').map((e) => [text(e.querySelector('dt')), text(e.querySelector('dd'))])),
      tiles: all('main .tiles li').map(text),
      charts: Object.fromEntries(all('main .chart').map((e) => [text(e.querySelector('h2')), e.querySelector('[data-total]')?.dataset.total ?? null])),
      bars: all('main .bars button').map((e) => Number(e.dataset.count)),
      headings: all('main h2').map(text),
      notes: all('main .note').map(text),
    };
  });
  await page.close();
}));
await browser.close();
console.log(JSON.stringify(found));
