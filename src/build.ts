/**
 * Builds the files of the package into `dist/`. `node --import tsx src/build.ts` builds all of them, `… src/build.ts server`
 * only `dist/server.js`, which runs the service. This file is not part of the program, and alone needs more than Node.
 */

import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build } from 'esbuild';
import { openApi } from './http/openapi.ts';
import { eventSchema } from './journal/line-schema.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');

const common: BuildOptions = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  minify: true,
  lineLimit: 120, // so that a stack trace or a diff points at a short line, not at one of 140,000 characters
  logLevel: 'warning',
};

/** Builds a script that is valid as CommonJS and as ESM, so that it runs with any `package.json` beside it. */
async function buildServer(): Promise<void> {
  await build({
    ...common,
    entryPoints: ['src/server.ts'],
    outfile: 'dist/server.js',
    format: 'iife',
    banner: { js: 'var require=process.getBuiltinModule;' },
    sourcemap: true,
    sourcesContent: false,
  });
}

/** Builds the service for tests in JavaScript, as CommonJS, which both `import` and `require` can load. */
async function buildEmbedded(): Promise<void> {
  await build({ ...common, entryPoints: ['src/embed.ts'], outfile: 'dist/embed.cjs', format: 'cjs' });
  writeTypes();
}

/** Writes `dist/embed.d.cts`. One file is enough, since the exported types of `embed.ts` refer to no other file. */
function writeTypes(): void {
  const types = join(dist, 'types');
  const compiler = createRequire(import.meta.url).resolve('typescript/package.json');
  execFileSync(
    process.execPath,
    [
      join(dirname(compiler), 'bin/tsc'),
      ...['--ignoreConfig', '--noCheck', '--strict', '--exactOptionalPropertyTypes', '--allowImportingTsExtensions'],
      ...['--target', 'es2023', '--module', 'nodenext', '--types', 'node'],
      ...['--declaration', '--emitDeclarationOnly', '--rootDir', 'src', '--outDir', types, 'src/embed.ts'],
    ],
    { cwd: root, stdio: 'inherit' },
  );
  renameSync(join(types, 'embed.d.ts'), join(dist, 'embed.d.cts'));
  rmSync(types, { recursive: true });
}

/** Writes the documents for tools: the OpenAPI document of a local service, and the JSON Schema of a journal line. */
function writeDocuments(): void {
  const write = (name: string, value: object) =>
    writeFileSync(join(dist, name), `${JSON.stringify(value, undefined, 2)}\n`);
  write('openapi.json', openApi({ server: 'http://127.0.0.1:3000', lineSchema: eventSchema() }));
  write('event.schema.json', eventSchema());
}

mkdirSync(dist, { recursive: true });
await buildServer();
if (process.argv[2] !== 'server') {
  await buildEmbedded();
  writeDocuments();
}
