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
import { texts as commandTexts } from './commands/all-commands.ts';
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
    ASSETLOG_HELP: JSON.stringify(JSON.stringify(commandTexts())),
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
 * Names of members that are shortened: those that end in their unit, such as those of the limits. They are never read or written
 * as text: no option, member of a JSON object or field of a log line has such a name.
 */
const SHORTENED = /(Ms|Max|(first|passed|next)Seq)$/;

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
 * Builds a script that is executable, and valid as CommonJS and as ESM, so that it runs with any `package.json` beside it. What
 * the source loads with `import()` becomes one compressed script, which `loadLater` of `http/packed.ts` runs: the file is a quarter
 * smaller, and a service that only records starts without it.
 */
async function buildServer(): Promise<void> {
  const { now, later, entries } = await split();
  const shared = [...namesImportedBy(later)].filter(([path]) => path in now);
  const { code: laterCode } = await minified(await bundle(laterModules(later, entries, shared), './later.js', {}));
  const { code, map } = await minified(
    await bundle(nowModules(now, shared), './server.js', { ASSETLOG_LATER: packed(laterCode) }),
  );
  const head = `#!/usr/bin/env node\n${versionCheck(REFUSE_TO_RUN)}\n`;
  writeFileSync(join(dist, 'server.js'), `${head}${code}\n//# sourceMappingURL=server.js.map\n`);
  chmodSync(join(dist, 'server.js'), 0o755);
  writeFileSync(join(dist, 'server.js.map'), JSON.stringify(movedDown(JSON.parse(map), head.split('\n').length - 1)));
}

/** Modules by the names with which they import each other: `{ './server.js': 'import{a as b}from"./chunk-1.js";…' }`. */
type Modules = Readonly<Record<string, string>>;

/** The program in modules: what each start needs, what is loaded later, and of that the modules that are named in an `import()`. */
interface Split {
  readonly now: Modules;
  readonly later: Modules;
  readonly entries: readonly string[];
}

async function split(): Promise<Split> {
  const { outputFiles, metafile } = await build({
    ...common,
    entryPoints: ['src/server.ts', 'src/http/packed.ts'],
    outdir: 'dist',
    format: 'esm',
    splitting: true,
    lineLimit: 0, // an import that is broken in two lines would not be found
    entryNames: '[name]',
    chunkNames: '[name]-[hash]',
    plugins: [builtins],
    mangleProps: SHORTENED,
    sourcemap: 'inline',
    sourcesContent: false,
    metafile: true,
    write: false,
  });
  const entries = new Set<string>();
  const reached = new Set<string>();
  const reach = (path: string): void => {
    if (reached.has(path)) return;
    reached.add(path);
    for (const imported of metafile.outputs[path]?.imports ?? []) {
      if (imported.kind === 'dynamic-import') entries.add(`./${basename(imported.path)}`);
      else reach(imported.path);
    }
  };
  reach('dist/server.js');
  reach('dist/packed.js');
  const modulesOf = (isNow: boolean): Modules => {
    const files = outputFiles.map(({ path, text }) => [basename(path), text] as const);
    const some = files.filter(([name]) => reached.has(`dist/${name}`) === isNow);
    return Object.fromEntries(some.map(([name, text]) => [`./${name}`, text]));
  };
  return { now: modulesOf(true), later: modulesOf(false), entries: [...entries] };
}

/** What the later modules import of the others: modules with names, such as `['./chunk-1.js', 'a,b']`. */
type Shared = readonly (readonly [path: string, names: string])[];

/** Those of the script that is loaded later. It gets the modules that it shares as `shared`, and hands out its own to `loaded`. */
function laterModules(later: Modules, entries: readonly string[], shared: Shared): Modules {
  const imports = entries.map((path, at) => `import * as entry${at} from '${path}';`);
  const exported = entries.map((path, at) => `'${path}': entry${at}`);
  return {
    ...later,
    ...Object.fromEntries(shared.map(([path]) => [path, `module.exports = shared['${path}'];`])),
    './later.js': `${imports.join('')} loaded({ ${exported} });`,
  };
}

/** Those of the program, which load the others with `loadLater` instead of `import()`. */
function nowModules(now: Modules, shared: Shared): Modules {
  const wired = Object.entries(now).map(([path, code]) => {
    const called = code.replaceAll('import("./', 'loadLater("./');
    const loads = called === code ? code : withImport(called, "{ loadLater } from './packed.js'");
    const isLoader = code.includes('ASSETLOG_SHARED');
    return [path, isLoader ? withImport(loads, "* as ASSETLOG_SHARED from './shared.js'") : loads];
  });
  return {
    ...Object.fromEntries(wired),
    ...Object.fromEntries(
      shared.map(([path, names], at) => [`./shared${at}.js`, `export { ${names} } from '${path}';`]),
    ),
    './shared.js': shared.map(([path], at) => `export * as '${path}' from './shared${at}.js';`).join(''),
  };
}

/** @returns what modules import by name, such as `a,b`, by the module that exports it */
function namesImportedBy(modules: Modules): Map<string, string> {
  const found = new Map<string, Set<string>>();
  for (const code of Object.values(modules)) {
    for (const [, names = '', path = ''] of code.matchAll(/import\{([^}]*)\}from"([^"]*)"/g)) {
      const known = found.get(path) ?? found.set(path, new Set()).get(path)!;
      for (const name of names.split(',')) known.add(name.replace(/ as .*/, ''));
    }
  }
  return new Map([...found].map(([path, names]) => [path, [...names].join(',')]));
}

/** @returns a module that imports one thing more. It goes before the comment with the source map, which is the last line */
function withImport(code: string, imported: string): string {
  return code.replace(/\n\/\/#/, `\nimport ${imported};$&`);
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
    logOverride: { 'ignored-bare-import': 'silent' }, // the split leaves such imports of modules that have no side effects
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
