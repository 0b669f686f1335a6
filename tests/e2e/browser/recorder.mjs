// A machine's recorder in a real browser: how far it reaches, the command that signs the page's window, run as it is shown, the signed request
// handed in, and what became of it. Prints a line "ok WHAT" or "FAILED WHAT" a check.
// usage: node recorder.mjs WORLD.json
// WORLD: {url, chromium, host, from, to, reach, operate, read, folder, path, refusals: [[text, reason]]}
import { execFileSync } from 'node:child_process';
import { accessible, check, finish, link, open, problems, rows, world } from './tools.mjs';

const as = async (token) => {
  const page = await open({ ignoreHTTPSErrors: true, httpCredentials: { username: 'anybody', password: token } });
  page.setDefaultTimeout(60_000);
  await page.goto(link({ page: 'host', host: world.host, from: world.from, to: world.to }));
  await page.getByText('Fetch this window').click();
  return page;
};
const handIn = async (page, text) => {
  await page.getByLabel('The signed request, in base64').fill(text);
  await page.getByRole('button', { name: 'Hand in' }).click();
};

const page = await as(world.operate);
const main = () => page.locator('main').innerText();
check((await main()).includes(`from ${world.reach}`), `how far the recorder reaches: ${world.reach}`);
const command = await page.getByLabel('Command that signs').innerText();
check(command.includes(`--host ${world.host} --from ${world.from} --to ${world.to} `), `the command has the page's window: ${command}`);
await accessible(page, 'a machine with a recorder');
const signed = execFileSync('/bin/sh', ['-c', command], { cwd: world.folder, env: { ...process.env, PATH: world.path }, encoding: 'utf8' });
for (const [text, reason] of world.refusals) {
  await handIn(page, text);
  await page.getByRole('alert').filter({ hasText: reason }).waitFor();
  check(true, `refused: ${reason}`);
}
check((await rows(page, 'Requests').count()) === 0, 'a refused request is in no table');
await handIn(page, signed);
await page.getByRole('status').filter({ hasText: /request \d+ waits for the machine/ }).waitFor();
await page.locator('[aria-label="Requests"] tbody tr', { hasText: 'sent' }).waitFor();
const row = (await rows(page, 'Requests').first().innerText()).split('\t');
check(row[2] === 'sent' && /^[\d,.]+ ?\w* events in \d+ batches, /.test(row[3]), `what became of the request: ${row}`);
console.log(`row ${JSON.stringify(row)}`);
await rows(page, 'Requests').first().getByRole('link').click();
check(page.url().includes(encodeURIComponent(world.from)), 'the row leads to its window');

const reader = await as(world.read);
await reader.locator('[aria-label="Requests"] tbody tr', { hasText: 'sent' }).waitFor();
check(true, 'a token that reads sees what became of it');
await handIn(reader, signed);
await reader.getByRole('alert').filter({ hasText: /scope|token/ }).waitFor();
check(true, 'a token that reads hands in nothing');
// the refusals are answers with a status, which Chromium writes to the console
problems.splice(0, problems.length, ...problems.filter((p) => !/Failed to load resource.*\b(400|401|403)\b/.test(p)));
await finish();
