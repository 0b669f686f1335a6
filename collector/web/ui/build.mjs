// Builds the dashboard: checks the types of src/, with those of the API's answers that openapi.json has, bundles it with esbuild, compresses
// each file, and writes all of them as C arrays.
// usage: node build.mjs SOURCE_DIR OUT.c    (in a folder whose node_modules has what package-lock.json names)
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { constants, gzipSync } from 'node:zlib';
import { typesOf } from './types.mjs';

const [source, out] = process.argv.slice(2);
const MOST_BYTES = 400_000, FIRST_BYTES = 100_000; // of all files, compressed; of those that every page loads
const esbuild = createRequire(join(process.cwd(), 'package.json'))('esbuild');

writeFileSync('answers.ts', typesOf(JSON.parse(readFileSync(join(source, '../openapi.json'), 'utf8'))));
// the packages are beside the build, not above the sources
writeFileSync('tsconfig.json', JSON.stringify({
  extends: join(source, 'tsconfig.json'),
  compilerOptions: { paths: { answers: ['./answers.ts'], '*': ['./node_modules/*'] } },
  include: [join(source, 'src')],
}));
const checked = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.json', '--pretty', 'false'], { stdio: 'inherit' });
if (checked.status !== 0) process.exit(1);

const built = await esbuild.build({
  // the editor is a file of its own: the pages without it do not load it
  entryPoints: { app: join(source, 'src/main.tsx'), editor: join(source, 'src/editor.ts') },
  bundle: true,
  splitting: true,
  minify: true,
  write: false,
  format: 'esm',
  target: ['chrome110', 'firefox110', 'safari16'],
  outdir: 'out',
  tsconfig: join(source, 'tsconfig.json'),
  nodePaths: [join(process.cwd(), 'node_modules')],
  legalComments: 'eof',
  logLevel: 'warning',
});
const made = built.outputFiles.map((f) => f.path.split('/').pop()).sort().join();
if (made !== 'app.css,app.js,editor.js') {
  console.error(`the build made ${made}: app.js and editor.js share code, for which there is no route (src/editor.ts)`);
  process.exit(1);
}
const files = built.outputFiles.map((f) => ['/' + f.path.split('/').pop(), Buffer.from(f.contents)]);
files.push(['/', readFileSync(join(source, 'index.html'))], ['/icon.svg', readFileSync(join(source, 'icon.svg'))]);
files.push(['/api/v1/openapi.json', readFileSync(join(source, '../openapi.json'))]);

const TYPES = { js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8', svg: 'image/svg+xml', json: 'application/json' };
let text = '/* The dashboard\'s files, as build.mjs made them. See assets.h. */\n#include "collector/web/assets.h"\n\n';
let rows = '', total = 0, first = 0;
files.sort().forEach(([path, data], i) => {
  const packed = gzipSync(data, { level: constants.Z_BEST_COMPRESSION });
  if (!path.endsWith('.json')) total += packed.length;
  if (!path.endsWith('.json') && path !== '/editor.js') first += packed.length;
  const bytes = (name, b) => {
    let lines = '';
    for (let at = 0; at < b.length; at += 32) lines += [...b.subarray(at, at + 32)].join(',') + ',\n';
    return `static const unsigned char ${name}${i}[] = {\n${lines}};\n`;
  };
  text += bytes('plain', data) + bytes('packed', packed);
  const hash = createHash('sha256').update(data).digest('hex').slice(0, 16);
  const type = TYPES[path.split('.').pop()] ?? 'text/html; charset=utf-8';
  rows += `    {"${path}", "${type}", "\\"${hash}\\"", plain${i}, sizeof plain${i}, packed${i}, sizeof packed${i}},\n`;
});
text += `const ec_asset EC_ASSETS[] = {\n${rows}    {0},\n};\n`;
if (total > MOST_BYTES || first > FIRST_BYTES) {
  console.error(`the dashboard has ${total} bytes compressed, ${first} without the editor; at most ${MOST_BYTES} and ${FIRST_BYTES} are meant`);
  process.exit(1);
}
writeFileSync(out, text);
console.log(`the dashboard: ${total} bytes compressed, ${first} without the editor`);
