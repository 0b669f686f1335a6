// Speedscope in a real browser, with a file that `etwcollector profile` wrote. Prints a line "ok WHAT" or "FAILED WHAT" a check.
// usage: node speedscope.mjs WORLD.json    (in a folder whose node_modules has what package-lock.json names)
// WORLD: {url: of speedscope's page, with the profile's after #, name: of the profile, frames: [names], chromium}
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const { chromium } = createRequire(join(process.cwd(), 'package.json'))('playwright-core');
const world = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const check = (good, what) => console.log(`${good ? 'ok' : 'FAILED'} ${what.replaceAll('\n', ' ')}`);
const browser = await chromium.launch({
  executablePath: world.chromium,
  args: ['--no-sandbox', '--use-gl=angle', '--use-angle=swiftshader', '--enable-unsafe-swiftshader', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
const problems = [], outside = [];
page.setDefaultTimeout(60_000);
page.on('console', (m) => m.type() === 'error' && problems.push(m.text()));
page.on('pageerror', (e) => problems.push(e.message));
page.on('dialog', (d) => { problems.push('a dialog: ' + d.message()); d.dismiss(); });
page.on('request', (r) => r.url().startsWith(new URL(world.url).origin) || /^(data|blob):/.test(r.url()) || outside.push(r.url()));
await page.goto(world.url);
const opened = await page.getByText('Sandwich').waitFor().then(() => true, () => false);
check(opened, 'speedscope shows the profile');
if (opened) {
  await page.getByText('Sandwich').click();
  await page.locator('table tr:visible').nth(1).waitFor();
  const shown = await page.locator('body').innerText();
  const missing = world.frames.filter((name) => !shown.includes(name));
  check(missing.length === 0, `its table names the functions that the profile spends most in${missing.length ? ', but not ' + missing.join(', ') : ''}`);
  check((await page.title()).includes(world.name), `its title is the profile's: ${await page.title()}`);
}
check(problems.length === 0, `no error on the console ${problems.join(' | ')}`);
check(outside.length === 0, `nothing is asked of others ${outside.join(' ')}`);
await browser.close();
