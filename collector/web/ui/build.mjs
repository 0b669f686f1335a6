// Builds the dashboard: bundles src/ with esbuild, compresses each file, and writes all of them as C arrays.
// usage: node build.mjs SOURCE_DIR OUT.c    (in a folder whose node_modules has what package-lock.json names)
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { constants, gzipSync } from 'node:zlib';

const [source, out] = process.argv.slice(2);
const MOST_BYTES = 100_000; // of all files, compressed
const esbuild = createRequire(join(process.cwd(), 'package.json'))('esbuild');

const built = await esbuild.build({
  entryPoints: { app: join(source, 'src/main.jsx') },
  bundle: true,
  minify: true,
  write: false,
  format: 'esm',
  target: ['chrome110', 'firefox110', 'safari16'],
  outdir: 'out',
  jsxFactory: 'element',
  jsxFragment: 'Fragment',
  inject: [join(source, 'src/jsx.js')],
  nodePaths: [join(process.cwd(), 'node_modules')],
  legalComments: 'eof',
  logLevel: 'warning',
});
const files = built.outputFiles.map((f) => ['/' + f.path.split('/').pop(), Buffer.from(f.contents)]);
files.push(['/', readFileSync(join(source, 'index.html'))], ['/icon.svg', readFileSync(join(source, 'icon.svg'))]);
files.push(['/api/v1/openapi.json', readFileSync(join(source, '../openapi.json'))]);

const TYPES = { js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8', svg: 'image/svg+xml', json: 'application/json' };
let text = '/* The dashboard\'s files, as build.mjs made them. See assets.h. */\n#include "collector/web/assets.h"\n\n';
let rows = '', total = 0;
files.sort().forEach(([path, data], i) => {
  const packed = gzipSync(data, { level: constants.Z_BEST_COMPRESSION });
  if (!path.endsWith('.json')) total += packed.length;
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
if (total > MOST_BYTES) {
  console.error(`the dashboard has ${total} bytes compressed; at most ${MOST_BYTES} are meant`);
  process.exit(1);
}
writeFileSync(out, text);
console.log(`the dashboard: ${total} bytes compressed`);
