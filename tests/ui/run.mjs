// Bundles the dashboard's component tests with its source, and runs them.
// usage: node run.mjs UI_BUILD PACKAGES    UI_BUILD: has the packages of the dashboard; PACKAGES: those of package-lock.json beside this file
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [uiBuild, packages] = process.argv.slice(2), here = dirname(fileURLToPath(import.meta.url)), out = join(packages, 'out');
const esbuild = createRequire(join(uiBuild, 'package.json'))('esbuild');
const files = readdirSync(here).filter((f) => /\.test\.tsx?$/.test(f));
await esbuild.build({
  entryPoints: files.map((f) => join(here, f)), outdir: out, outExtension: { '.js': '.mjs' }, bundle: true, format: 'esm', platform: 'node', packages: 'bundle',
  tsconfig: join(here, '../../collector/web/ui/tsconfig.json'), nodePaths: [join(uiBuild, 'node_modules'), join(packages, 'node_modules')], logLevel: 'warning',
  external: ['canvas'], banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
});
const done = spawnSync(process.execPath, ['--test', '--test-reporter=tap', ...files.map((f) => join(out, f.replace(/\.tsx?$/, '.mjs')))], { stdio: 'inherit' });
process.exit(done.status ?? 1);
