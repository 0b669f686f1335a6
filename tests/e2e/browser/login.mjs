// A token in a real browser: asked for as a password, and what its holder sees then. Prints a line "ok WHAT" or "FAILED WHAT" a check.
// usage: node login.mjs WORLD.json    WORLD: {url, chromium, token, wrong, seen, unseen}
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const { chromium } = createRequire(join(process.cwd(), 'package.json'))('playwright-core');
const world = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const check = (good, what) => console.log(`${good ? 'ok' : 'FAILED'} ${what.replaceAll('\n', ' ')}`);
const browser = await chromium.launch({
  executablePath: world.chromium,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
async function open(password) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, ...(password && { httpCredentials: { username: 'anybody', password } }) });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  return [page, await page.goto(world.url).catch((e) => ({ status: () => (/ERR_INVALID_AUTH_CREDENTIALS/.test(e.message) ? 401 : 0) }))];
}
for (const [password, what] of [[undefined, 'without a token'], [world.wrong, 'with a wrong token']]) {
  const [page, answer] = await open(password);
  check(answer.status() === 401, `${what}: ${answer.status()}`);
  check((await page.locator('nav').count()) === 0, `${what}: no dashboard`);
}
const [page, answer] = await open(world.token);
const problems = [];
page.on('pageerror', (e) => problems.push(e.message));
check(answer.status() === 200, `with a token: ${answer.status()}`);
await page.getByRole('link', { name: world.seen, exact: true }).first().waitFor();
// the list and the sums above it come by answers of their own
await page.waitForFunction(() => /\b1 machines/.test(document.querySelector('main').innerText)).catch(() => {});
const first = await page.locator('main').innerText();
check(!first.includes(world.unseen), 'Home shows nothing of other machines');
check(/\b1 machines/.test(first), `Home counts the machines of the group: ${first.slice(0, 80)}`);
await page.getByRole('link', { name: 'Events', exact: true }).click();
await page.locator('main tbody tr').first().waitFor();
const hosts = new Set(await page.locator('main tbody tr td:first-child').allInnerTexts());
check(hosts.size === 1 && hosts.has(world.seen), `Events shows ${[...hosts]}`);
await page.goto(world.url + '?page=host&host=' + world.unseen);
await page.getByRole('alert').first().waitFor();
check(/this token reads hosts/.test(await page.locator('main').innerText()), "another machine's page says why it is empty");
check(problems.length === 0, `no error: ${problems}`);
await browser.close();
