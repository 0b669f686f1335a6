// What the scripts that walk through the dashboard share: a browser, its pages, checks. A check prints a line "ok WHAT" or "FAILED WHAT".
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.cwd(), 'package.json'));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const PATIENCE = 180_000;

export const world = JSON.parse(readFileSync(process.argv[2], 'utf8'));
export const check = (good, what) => console.log(`${good ? 'ok' : 'FAILED'} ${what.replaceAll('\n', ' ')}`);
const browser = await chromium.launch({
  executablePath: world.chromium,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
/** What pages wrote to the console as errors or warnings. */
export const problems = [];
const outside = [];
export async function open(options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', timezoneId: 'America/New_York', ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.on('console', (m) => ['error', 'warning'].includes(m.type()) && problems.push(m.text()));
  page.on('pageerror', (e) => problems.push(e.message));
  page.on('dialog', (d) => { problems.push('a dialog: ' + d.message()); d.dismiss(); });
  page.on('request', (r) => r.url().startsWith(world.url) || r.url().startsWith('data:') || outside.push(r.url()));
  return page;
}
export const link = (state) => world.url + '?' + new URLSearchParams(state);
export const settled = async (page) => {
  await page.waitForLoadState('networkidle');
  await page.waitForFunction(() => !/asking the collector/.test(document.body.innerText) && !document.querySelector('[aria-busy=true]'));
};
// axe's rules run in the page by the debugger's door, which Content-Security-Policy does not close. It would copy the editor's style sheets into
// style elements, for one rule about turned screens; the policy refuses these.
export async function accessible(page, what) {
  const found = await page.evaluate(axe + ';axe.run(document, {resultTypes: ["violations"], preload: false}).then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html.slice(0, 90)).slice(0, 3).join(" | ")))');
  check(found.length === 0, `axe finds nothing on ${what}${found.length ? ': ' + found.join('; ') : ''}`);
}
export const rows = (page, label) => page.locator(`[aria-label="${label}"] tbody tr`);
/** The last checks: nothing is wrong on the console, no request left the collector. */
export async function finish() {
  check(problems.length === 0, `no error on the console${problems.length ? ': ' + problems.slice(0, 5).join('; ') : ''}`);
  check(outside.length === 0, `nothing is asked of others${outside.length ? ': ' + outside.slice(0, 3).join(' ') : ''}`);
  await browser.close();
}
