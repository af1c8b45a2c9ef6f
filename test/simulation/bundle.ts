/** The simulation as one file, which plain Node runs: the loader of tsx answers each `import()` from another thread, in real time. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { build } from 'esbuild';
import { type Mutant, mutate } from '../faults/mutants/mutant.ts';
import { root } from '../support/program.ts';
import type { Outcome } from './life.ts';

/** The modules of Node that have time, chance and connections, the one that reads files of operators, and the one that asks sockets. */
const replaced: Readonly<Record<string, string>> = {
  'node:timers/promises': 'timers-promises.ts',
  'node:crypto': 'crypto.ts',
  'node:net': 'net.ts',
  'config/files.ts': 'files.ts',
  'journal/lock/protocol.ts': 'protocol.ts',
};

/** The modules of Node that reach the system: their functions end the simulation. */
const refused: readonly string[] = [
  'node:fs',
  'node:fs/promises',
  'node:http',
  'node:https',
  'node:child_process',
  'node:worker_threads',
];

/** Longer than any life takes; a broken source may run in a circle. */
const LIFE_MS_MAX = 120_000;

/** @returns a module with the names of another one, whose functions throw and whose other values are as they are */
function refusing(path: string): string {
  const real = process.getBuiltinModule(path) as object;
  const names = Object.keys(real).filter((name) => name !== 'default');
  return [
    `const real = process.getBuiltinModule(${JSON.stringify(path)});`,
    'const refuse = (name) => () => {',
    `  process.stderr.write(\`the simulation reached the system: ${path} \${name}\\n\`);`,
    '  process.exit(2);',
    '};',
    "const stand = (name) => (typeof real[name] === 'function' && !/^[A-Z]/.test(name) ? refuse(name) : real[name]);",
    ...names.map((name) => `export const ${name} = stand(${JSON.stringify(name)});`),
    `export default { ${names.join(', ')} };`,
  ].join('\n');
}

/** How a life ended: 0 if every promise was kept, 1 if one is broken, 2 if the simulation itself went wrong. */
export interface Lived {
  readonly code: number;
  /** What the process printed. */
  readonly text: string;
  /** The same, read; undefined if the simulation went wrong before it printed anything. */
  readonly outcome: Outcome | undefined;
}

export interface LiveOptions {
  /** After that the process is killed. */
  readonly msMax?: number;
  /** Whether nothing is shown of what it writes to standard error, and no source map is read for it, in a third of the time of a start. */
  readonly quiet?: boolean;
}

const here = join(root, 'test/simulation');

/**
 * @param outfile where the file is written
 * @param mutant what is broken in the source on purpose
 * @throws Error if the mutant no longer applies, or the source is no program with it
 */
export async function bundleSimulation(outfile: string, mutant?: Mutant): Promise<void> {
  mkdirSync(dirname(outfile), { recursive: true });
  await build({
    entryPoints: [join(here, 'simulation.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: `node${process.versions.node}`,
    sourcemap: 'inline',
    sourcesContent: false,
    logLevel: mutant === undefined ? 'warning' : 'silent',
    define: { ASSETLOG_PAGE: '""' },
    plugins: [
      {
        name: 'replaced',
        setup(building) {
          building.onResolve({ filter: /^node:|\/(files|protocol)\.ts$/ }, ({ path, importer }) => {
            if (importer.startsWith(join(here, 'replaced'))) return undefined;
            const name = path.startsWith('node:') ? path : relative(join(root, 'src'), join(dirname(importer), path));
            const file = replaced[name];
            if (file !== undefined) return { path: join(here, 'replaced', file) };
            return refused.includes(name) ? { path: name, namespace: 'refused' } : undefined;
          });
          if (mutant !== undefined) {
            const broken = join(root, 'src', mutant.file);
            building.onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) =>
              path === broken ? { contents: mutate(readFileSync(path, 'utf8'), mutant), loader: 'ts' } : undefined,
            );
          }
          building.onLoad({ filter: /.*/, namespace: 'refused' }, ({ path }) => ({ contents: refusing(path) }));
        },
      },
    ],
  });
}

/** Lives one life in a process of its own. @param args such as `['--seed', '7', '--steps', '100000']` */
export async function live(
  bundle: string,
  args: readonly string[],
  { msMax = LIFE_MS_MAX, quiet = false }: LiveOptions = {},
): Promise<Lived> {
  const child = spawn(process.execPath, [...(quiet ? [] : ['--enable-source-maps']), bundle, ...args], {
    stdio: ['ignore', 'pipe', quiet ? 'ignore' : 'inherit'],
    timeout: Math.max(1, Math.ceil(Math.min(msMax, LIFE_MS_MAX))),
    killSignal: 'SIGKILL',
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (piece) => {
    text += piece;
  });
  const [code] = await once(child, 'close');
  // Another code than these is that of a Node that found the life unfinished, or of a signal.
  return { code: code === 0 || code === 1 ? code : 2, text, outcome: text === '' ? undefined : JSON.parse(text) };
}
