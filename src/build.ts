/**
 * Builds the files of the package into `dist/`. `node --import tsx src/build.ts` builds all of them, `… src/build.ts server`
 * only `dist/server.js`, which runs the service. This file is not part of the program. It is the only file that needs more
 * than Node.
 */

import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build, type Plugin } from 'esbuild';
import { packPrinted } from './commands/printed/build.ts';
import { exitCodes } from './config/exit-codes.ts';
import { startService } from './embed.ts';
import { packPage } from './http/page/build.ts';
import { eventSchema } from './journal/line/line-schema.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');

const common: BuildOptions = {
  // Compiles without the `strict` of `tsconfig.json`, which would repeat the directive of the banner in each module.
  tsconfigRaw: { compilerOptions: { target: 'es2023', verbatimModuleSyntax: true } },
  define: { ASSETLOG_PAGE: JSON.stringify(await packPage()), ASSETLOG_PRINTED: JSON.stringify(packPrinted()) },
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  minify: true,
  // Node 14 to 18 have to parse the file to run the check of their version. Static blocks are not lowered, since esbuild would
  // then turn private members into WeakMaps, which cost a fifth of the time of a report.
  supported: { 'logical-assignment': false },
  // So that a stack trace or a diff points at a line that can be shown, and not at one of 400,000 characters.
  lineLimit: 1_000,
  logLevel: 'warning',
};

/**
 * The directive that makes the whole file strict, which must come first, and code that refuses a Node older than the package's
 * `engines`. That code is ES5, so that an older Node runs it before it reaches syntax that it does not support.
 * @param refuse the code that reports the problem, which is in the variable `problem`
 */
function versionCheck(refuse: string): string {
  const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const [, oldest = '', major, minor] = /^>=((\d+)\.(\d+))$/.exec(engines.node) ?? [];
  if (oldest === '') throw new Error(`engines.node is ${engines.node}; give the oldest version, such as >=20.19`);
  const isOld = `v[0]<${major}||v[0]==${major}&&v[1]<${minor}`;
  const problem = `'assetlog needs Node ${oldest} or newer; this is '+process.versions.node`;
  return `'use strict';(function(v){if(${isOld}){var problem=${problem};${refuse}}})(process.versions.node.split('.'));`;
}

const REFUSE_TO_RUN = `process.stderr.write(problem+'\\n');process.exit(${exitCodes.configuration})`;

/**
 * Turns each module of Node into a module of variables, so that the program calls `join` instead of a member of a module, and
 * a script that is CommonJS as well as ESM needs no `require`. Unused imports are dropped.
 */
const builtins: Plugin = {
  name: 'builtins',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(load$|node:)/ }, ({ path }) => ({ path, namespace: 'builtins', sideEffects: false }));
    onLoad({ filter: /^load$/, namespace: 'builtins' }, () => ({
      contents: 'export const load = process.getBuiltinModule;',
    }));
    onLoad({ filter: /^node:/, namespace: 'builtins' }, async ({ path }) => {
      const names = Object.keys(await import(path)).filter((name) => name !== 'default');
      const variables = names.map((name) => `export const ${name} = /* @__PURE__ */ (() => all.${name})();\n`);
      const all = `import { load } from 'load';\nconst all = load('${path}');\nexport default all;\n`;
      return { contents: all + variables.join('') };
    });
  },
};

/**
 * Builds a script that is executable, and valid as CommonJS and as ESM, so that it runs next to any `package.json`. Modules
 * that the source loads with `import()` run when they are first needed.
 */
async function buildServer(): Promise<void> {
  const path = join(dist, 'server.js');
  await build({
    ...common,
    entryPoints: ['src/server.ts'],
    outfile: path,
    format: 'iife',
    banner: { js: `#!/usr/bin/env node\n${versionCheck(REFUSE_TO_RUN)}` },
    plugins: [builtins],
    sourcemap: 'linked',
    sourcesContent: false,
  });
  chmodSync(path, 0o755);
}

/** Builds the service for tests in JavaScript, as CommonJS, which both `import` and `require` can load. */
async function buildEmbedded(): Promise<void> {
  await build({
    ...common,
    entryPoints: ['src/embed.ts'],
    outfile: 'dist/embed.cjs',
    format: 'cjs',
    banner: { js: versionCheck('throw new Error(problem)') },
    plugins: [builtins],
    inject: ['src/embed/timers.ts'],
  });
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

/** Writes the documents for tools: the OpenAPI document, which a local service serves, and the JSON Schema of a journal line. */
async function writeDocuments(): Promise<void> {
  const write = (name: string, value: object) =>
    writeFileSync(join(dist, name), `${JSON.stringify(value, undefined, 2)}\n`);
  await using service = await startService();
  const served = (await (await fetch(`${service.url}/openapi.json`)).json()) as object;
  write('openapi.json', { ...served, servers: [{ url: 'http://127.0.0.1:3000' }] });
  write('event.schema.json', eventSchema());
}

mkdirSync(dist, { recursive: true });
await buildServer();
if (process.argv[2] !== 'server') {
  await buildEmbedded();
  await writeDocuments();
}
