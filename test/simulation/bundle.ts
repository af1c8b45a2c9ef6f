/** The simulation as one file, which plain Node runs: the loader of tsx answers each `import()` from another thread, in real time. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { build } from 'esbuild';
import { root } from '../support/program.ts';

/** The modules of Node that have time and chance, and the one that reads files of operators. */
const replaced: Readonly<Record<string, string>> = {
  'node:timers/promises': 'timers-promises.ts',
  'node:crypto': 'crypto.ts',
  'config/files.ts': 'files.ts',
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
}

const here = join(root, 'test/simulation');

/** @param outfile where the file is written */
export async function bundleSimulation(outfile: string): Promise<void> {
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
    logLevel: 'warning',
    define: { ASSETLOG_PAGE: '""' },
    plugins: [
      {
        name: 'replaced',
        setup(building) {
          building.onResolve({ filter: /^node:|\/files\.ts$/ }, ({ path, importer }) => {
            const name = path.startsWith('node:') ? path : relative(join(root, 'src'), join(dirname(importer), path));
            const file = replaced[name];
            if (file !== undefined) return { path: join(here, 'replaced', file) };
            return refused.includes(name) ? { path: name, namespace: 'refused' } : undefined;
          });
          building.onLoad({ filter: /.*/, namespace: 'refused' }, ({ path }) => ({ contents: refusing(path) }));
        },
      },
    ],
  });
}

/** Lives one life in a process of its own. @param args such as `['--seed', '7', '--steps', '100000']` */
export async function live(bundle: string, args: readonly string[]): Promise<Lived> {
  const child = spawn(process.execPath, ['--enable-source-maps', bundle, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (piece) => {
    text += piece;
  });
  const [code] = await once(child, 'close');
  return { code: code ?? 2, text };
}
