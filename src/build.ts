/**
 * Builds the files of the package into `dist/`. `node --import tsx src/build.ts` builds all of them, `… src/build.ts server`
 * only `dist/server.js`, which runs the service. This file is not part of the program, and alone needs more than Node.
 */

import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { minify } from '@swc/core';
import { type BuildOptions, build, type Plugin } from 'esbuild';
import { Texts } from './build-texts.ts';
import { makeTexts } from './commands/all-commands.ts';
import { exitCodes } from './config/exit-codes.ts';
import { packed, packedPage } from './http/page/build.ts';
import { eventSchema } from './journal/line-schema.ts';
import { allContracts, makeContract } from './service/contract.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');

/** A stack trace or a diff points at a line that can be shown, not at one of 300,000 characters. */
const LINE_CHARACTERS = 1_000;

const common: BuildOptions = {
  // What is served and printed as it is; the code that makes it is left out.
  define: {
    ASSETLOG_PAGE: await packedPage(),
    ASSETLOG_CONTRACTS: packed(JSON.stringify(allContracts())),
    ASSETLOG_HELP: JSON.stringify(JSON.stringify(makeTexts())),
  },
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  minify: true,
  // Node 14 to 18 have to parse the file to run the check of their version. Static blocks are not lowered, since esbuild would
  // make WeakMaps of the private members beside them, which cost a fifth of the time of a report.
  supported: { 'logical-assignment': false },
  lineLimit: LINE_CHARACTERS,
  logLevel: 'warning',
};

/**
 * Code that refuses a Node older than the package's `engines`. It is in ES5 and comes first, so that an older Node runs it before
 * it reaches anything that it lacks.
 * @param refuse the code that reports the problem, which is in the variable `problem`
 */
function versionCheck(refuse: string): string {
  const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const [, oldest = '', major, minor] = /^>=((\d+)\.(\d+))$/.exec(engines.node) ?? [];
  if (oldest === '') throw new Error(`engines.node is ${engines.node}; give the oldest version, such as >=20.19`);
  const isOld = `v[0]<${major}||v[0]==${major}&&v[1]<${minor}`;
  const problem = `'assetlog needs Node ${oldest} or newer; this is '+process.versions.node`;
  return `(function(v){if(${isOld}){var problem=${problem};${refuse}}})(process.versions.node.split('.'));`;
}

const REFUSE_TO_RUN = `process.stderr.write(problem+'\\n');process.exit(${exitCodes.configuration})`;

/**
 * Names of members that are shortened in the program, besides those that end in their unit, such as those of the limits. They are
 * never read or written as text: no option, member of a JSON object or field of a log line has such a name.
 */
const shortened = [
  ...['activity', 'argument', 'beginAnew', 'bodyTypes', 'carriageReturns', 'checkHeld', 'choices', 'collectGarbage'],
  ...['complain', 'configuration', 'conflicts', 'decision', 'deploymentIn', 'diskFailed', 'endpoints', 'features'],
  ...['findReadable', 'findRecorder', 'flagOnly', 'followedBy', 'heldBytes', 'initial', 'isComplete', 'isCounted'],
  ...['keyMemory', 'limits', 'lineBytes', 'makeSpace', 'namesDeployment', 'notices', 'onConflict', 'onRecorded'],
  ...['openDisk', 'operands', 'progressBytes', 'queueEventBytes', 'removedLast', 'skipSpace', 'stretches'],
  ...['syncFolder', 'takenBy', 'takesKeys', 'tokenHeaders', 'tokensOf', 'tryLater', 'unseededCrc'],
];

/**
 * Makes a module of variables of each module of Node, so that the program calls `join` instead of a member of a module, and a
 * script that is CommonJS as well as ESM needs no `require`. What is not imported is dropped.
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
 * Builds a script that is executable, and valid as CommonJS and as ESM, so that it runs with any `package.json` beside it. The
 * commands that a service does not need become one compressed text, see `load-commands.ts`.
 */
async function buildServer(): Promise<void> {
  const texts = new Texts();
  const modules = await split(texts);
  const { './all-commands.js': commands = '' } = modules;
  const shared = [...commands.matchAll(/import\{([^}]*)\}from"\.\/chunk\.js"/g)].map(([, names]) => names);
  const later = {
    ...modules,
    './chunk.js': 'module.exports = shared;',
    './later.js': "import { commands, texts } from './all-commands.js'; loaded({ commands, texts });",
  };
  const { code: text } = await minified(await bundle(later, './later.js', {}));
  // Before the comment with the source map, which is the last line.
  const importing = "\nimport * as ASSETLOG_SHARED from './shared.js';$&";
  const now = {
    ...modules,
    './shared.js': `export {${shared.join(',').replace(/ as [\w$]+/g, '')}} from './chunk.js';`,
    './server.js': `${modules['./server.js']}`.replace(/\n\/\/#/, importing),
  };
  const define = { ASSETLOG_COMMANDS: packed(text), ASSETLOG_TEXTS: texts.packed() };
  const { code, map } = await minified(await bundle(now, './server.js', define));
  const head = `#!/usr/bin/env node\n${versionCheck(REFUSE_TO_RUN)}\n`;
  writeFileSync(join(dist, 'server.js'), `${head}${code}\n//# sourceMappingURL=server.js.map\n`);
  chmodSync(join(dist, 'server.js'), 0o755);
  writeFileSync(join(dist, 'server.js.map'), JSON.stringify(movedDown(JSON.parse(map), head.split('\n').length - 1)));
}

/** Modules by the names with which they import each other: `{ './server.js': 'import{a as b}from"./chunk.js";…' }`. */
type Modules = Record<string, string>;

/** @returns the program in three modules: what a service needs, the commands that are loaded later, and what both need */
async function split(texts: Texts): Promise<Modules> {
  const { outputFiles } = await build({
    ...common,
    entryPoints: ['src/server.ts'],
    outdir: 'dist',
    format: 'esm',
    splitting: true,
    lineLimit: 0, // a text that is broken in two lines could not be numbered
    chunkNames: '[name]',
    plugins: [builtins, texts.plugin],
    mangleProps: new RegExp(`(Ms|Max|(first|passed|next)Seq)$|^(${shortened.join('|')})$`),
    sourcemap: 'inline',
    sourcesContent: false,
    write: false,
  });
  const modules = Object.fromEntries(
    outputFiles.map(({ path, text }) => {
      return [`./${basename(path)}`, texts.number(text)];
    }),
  );
  const names = Object.keys(modules).sort().join(' ');
  if (names !== './all-commands.js ./chunk.js ./server.js') throw new Error(`the program was split in ${names}`);
  return modules;
}

/** Joins modules to one script in one scope, with a source map. */
async function bundle(modules: Modules, entry: string, define: Readonly<Record<string, string>>): Promise<Script> {
  const held: Plugin = {
    name: 'modules',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^\.\// }, ({ path }) => ({ path, namespace: 'modules', sideEffects: false }));
      onLoad({ filter: /./, namespace: 'modules' }, ({ path }) => ({ contents: modules[path] ?? '' }));
    },
  };
  const { outputFiles } = await build({
    ...common,
    define,
    entryPoints: [entry],
    outfile: 'dist/server.js',
    format: 'iife',
    plugins: [held],
    sourcemap: 'external',
    sourcesContent: false,
    write: false,
  });
  const textOf = (ending: string) => outputFiles.find(({ path }) => path.endsWith(ending))?.text ?? '';
  return { code: textOf('.js'), map: textOf('.map') };
}

/** A script and its source map, as JSON. */
interface Script {
  readonly code: string;
  readonly map: string;
}

/** Minifies a second time: it works on expressions across statements, which saves 2 % of the bytes. */
async function minified({ code, map }: Script): Promise<Script> {
  const { code: shorter, map: next = '' } = await minify(code, {
    compress: { ecma: 2020, passes: 3, toplevel: true, keep_fargs: false, inline: 0, unsafe_arrows: true },
    mangle: true,
    format: { ecma: 2020, max_line_len: LINE_CHARACTERS },
    sourceMap: { content: map } as unknown as boolean, // the types lack the map of the input
  });
  return { code: shorter, map: next };
}

/** @returns a source map (version 3) whose code has so many more lines at its beginning: a semicolon is a line */
function movedDown({ mappings, ...map }: { readonly mappings: string }, lines: number): object {
  return { ...map, mappings: ';'.repeat(lines) + mappings };
}

/** Builds the service for tests in JavaScript, as CommonJS, which both `import` and `require` can load. */
async function buildEmbedded(): Promise<void> {
  await build({
    ...common,
    entryPoints: ['src/embed.ts'],
    outfile: 'dist/embed.cjs',
    format: 'cjs',
    banner: { js: versionCheck('throw new Error(problem)') },
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

/** Writes the documents for tools: the OpenAPI document of a local service, and the JSON Schema of a journal line. */
function writeDocuments(): void {
  const write = (name: string, value: object) =>
    writeFileSync(join(dist, name), `${JSON.stringify(value, undefined, 2)}\n`);
  const local = { server: 'http://127.0.0.1:3000', tokenHeader: undefined, takesKeys: true, test: false };
  write('openapi.json', makeContract(local));
  write('event.schema.json', eventSchema());
}

mkdirSync(dist, { recursive: true });
await buildServer();
if (process.argv[2] !== 'server') {
  await buildEmbedded();
  writeDocuments();
}
