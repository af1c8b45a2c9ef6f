/** The structure of the source: which folder may import which, and which files may reach the system. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { test } from 'node:test';
import { build } from 'esbuild';

import { readPrinted } from '../src/commands/printed/build.ts';
import { version } from '../src/config/names.ts';
import { filesByTest } from './faults/mutants/mutant.ts';
import { typeScriptFiles } from './support/compiler.ts';
import { root } from './support/program.ts';
import { testFiles } from './support/run-tests.ts';
import { sources as allSources, isForBrowsers, isProgram } from './support/sources.ts';
import { foreign } from './support/words.ts';

/** From left to right: a folder, or a file of `src/` itself, imports only what is to its left, or files of its own folder. */
const order: readonly (readonly string[])[] = [
  ['event'],
  ['waiting'],
  ['config'],
  ['history'],
  ['telemetry'],
  ['journal', 'http', 'client'],
  ['assets'],
  ['deployments'],
  ['reading', 'test-mode', 'forward'],
  ['service'],
  ['service.ts'],
  ['commands', 'embed'],
  ['embed.ts'],
  ['server.ts'],
];

/** The same in `forward/`, but that of `hub/`, the receiving side, only the forwarder imports something. */
const forwardOrder: readonly (readonly string[])[] = [
  ['position.ts', 'settings.ts', 'source.ts', 'only.ts', 'headers.ts'],
  ['destinations', 'hub'],
  ['ledger'],
  ['folder.ts', 'acks.ts'],
  ['pipe'],
  ['alarms'],
  ['settings-file.ts'],
  ['journal-pipes.ts', 'by-hand.ts', 'erase.ts'],
  ['forwarder.ts'],
];

/** Of the program. What builds it is no part of it, and needs more than Node. */
const sources = new Map([...allSources].filter(([path]) => isProgram(path)));

function folderOf(path: string): string {
  return path.split('/', 1)[0] ?? '';
}

/** The paths below `src/` that a file imports. */
function importsOf(path: string): string[] {
  return importedBy(path, /(?:from |import\()'(\.[^']+)'/g);
}

/** Those that are loaded with the file: not types, and not what `import()` loads later. */
function loadedWith(path: string): string[] {
  return importedBy(path, /^(?:import|export) (?!type )[^;]*? from '(\.[^']+)'/gm);
}

function importedBy(path: string, pattern: RegExp): string[] {
  const found = (sources.get(path) ?? '').matchAll(pattern);
  return [...found].map(([, imported = '']) => posix.join(posix.dirname(path), imported));
}

function modulesOf(path: string): string[] {
  return [...(sources.get(path) ?? '').matchAll(/from '([^.'][^']*)'/g)].map(([, name = '']) => name);
}

test('a folder imports only folders to its left', () => {
  const wrong: string[] = [];
  for (const path of sources.keys()) {
    const own = order.findIndex((folders) => folders.includes(folderOf(path)));
    assert.notEqual(own, -1, `${path} is in no folder of the order`);
    const left = new Set(order.slice(0, own).flat());
    for (const imported of importsOf(path)) {
      const folder = folderOf(imported);
      if (folder !== folderOf(path) && !left.has(folder)) wrong.push(`${path} imports ${imported}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('a folder of forward/ imports only folders to its left, and only the forwarder imports hub/', () => {
  const roomOf = (path: string) => path.split('/')[1] ?? '';
  const wrong: string[] = [];
  for (const path of [...sources.keys()].filter((path) => path.startsWith('forward/'))) {
    const own = forwardOrder.findIndex((rooms) => rooms.includes(roomOf(path)));
    assert.notEqual(own, -1, `${path} is in no room of the order`);
    const left = new Set(forwardOrder.slice(0, own).flat());
    for (const imported of importsOf(path).filter((one) => one.startsWith('forward/'))) {
      const room = roomOf(imported);
      const isLeft = left.has(room) && (room !== 'hub' || roomOf(path) === 'forwarder.ts');
      if (room !== roomOf(path) && !isLeft) wrong.push(`${path} imports ${imported}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('a folder of commands/ imports only commands/cli, and commands/cli no other one', () => {
  const roomOf = (path: string) => (path.split('/').length > 2 ? path.split('/')[1] : undefined);
  const wrong: string[] = [];
  for (const path of [...sources.keys()].filter((path) => path.startsWith('commands/') && roomOf(path) !== undefined)) {
    for (const imported of importsOf(path).filter((one) => one.startsWith('commands/'))) {
      if (![roomOf(path), 'cli'].includes(roomOf(imported))) wrong.push(`${path} imports ${imported}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('code for browsers imports no Node, and sets text only as text', () => {
  const files = [...allSources].filter(([path]) => isForBrowsers(path));
  assert.ok(files.length > 5);
  for (const [path, text] of files) {
    for (const [, imported = ''] of text.matchAll(/from '([^']+)'/g)) {
      const folder = folderOf(posix.join(posix.dirname(path), imported));
      assert.ok(
        imported.startsWith('.') && ['http', 'event', 'history', 'config'].includes(folder),
        `${path} imports ${imported}`,
      );
      if (folder === 'http') assert.match(imported, /^\.\/[a-z-]+\.ts$/, `${path} imports ${imported}`);
    }
    assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b/, path);
  }
});

test('no file imports itself, also not through other files', () => {
  const done = new Set<string>();
  const visit = (path: string, before: readonly string[]) => {
    assert.ok(!before.includes(path), [...before, path].join(' -> '));
    if (done.has(path)) return;
    for (const imported of importsOf(path)) visit(imported, [...before, path]);
    done.add(path);
  };
  for (const path of sources.keys()) visit(path, []);
  assert.ok(done.size > 40);
});

test('a service that only records loads no forwarding, no test mode and no other commands', () => {
  const loaded = new Set(['server.ts']);
  for (const path of loaded) for (const imported of loadedWith(path)) loaded.add(imported);
  assert.ok(loaded.has('journal/disk.ts'));
  for (const path of [
    'forward/forwarder.ts',
    'forward/pipe/pipe.ts',
    'test-mode/test-mode.ts',
    'commands/send/report.ts',
  ]) {
    assert.ok(sources.has(path) && !loaded.has(path), path);
  }
});

test('nothing but Node is needed at run time', () => {
  for (const path of sources.keys()) for (const name of modulesOf(path)) assert.match(name, /^node:/, path);
  assert.equal(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).dependencies, undefined);
});

test('programs in Python are separate files, and their first line has the version', () => {
  for (const path of typeScriptFiles(root)) {
    const text = readFileSync(join(root, path), 'utf8');
    assert.doesNotMatch(text, /^ *(def \w+\(.*|(from [\w.]+ )?import [\w.]+(, [\w.]+)*|@\w+\.\w+.*)$/m, path);
  }
  const files = Object.entries(readPrinted());
  assert.ok(files.length >= 3);
  for (const [name, text] of files) {
    assert.match(text, RegExp(`^# .* assetlog ${version}: assetlog \\w+ >>? \\S+\\n`), name);
    assert.match(text, /[^\n]\n$/, name);
  }
});

test('only a few files reach the file system, sockets and the clock', () => {
  const allowed: Readonly<Record<string, readonly string[]>> = {
    'node:fs': [
      'config/descriptors.ts',
      'config/files.ts',
      'journal/copy.ts',
      'journal/disk.ts',
      'journal/entry.ts',
      'journal/lock/address.ts',
      'journal/lock/lock.ts',
      'journal/open/owner.ts',
      'test-mode/own-folder.ts',
    ],
    'node:fs/promises': [
      'config/files.ts',
      'journal/copy.ts',
      'journal/disk.ts',
      'journal/entry.ts',
      'journal/lock/lock.ts',
      'journal/open/mount.ts',
      'journal/open/owner.ts',
    ],
    'node:http': ['client/connection.ts', 'client/proxy.ts', 'http/socket/node-classes.ts', 'http/socket/replies.ts'],
    'node:net': [
      'config/client-address.ts',
      'config/files.ts',
      'forward/destinations/nats/client.ts',
      'http/origin.ts',
      'http/socket/connections.ts',
      'http/socket/exchanges.ts',
      'http/socket/listener.ts',
      'http/socket/node-classes.ts',
      'http/socket/streams.ts',
      'journal/lock/protocol.ts',
    ],
  };
  for (const [module, paths] of Object.entries(allowed)) {
    const users = [...sources.keys()].filter((path) => modulesOf(path).includes(module));
    assert.deepEqual(users, paths, module);
  }
  for (const path of [
    'http/handlers.ts',
    'http/router.ts',
    'event/json.ts',
    'event/json-bytes.ts',
    'event/json-parser.ts',
    'event/json-mistakes.ts',
    'http/request.ts',
    'http/origin.ts',
  ]) {
    const impure = /Date|performance|process\.|console\.|Math\.random/;
    assert.doesNotMatch(sources.get(path) ?? 'Date', impure, `${path} is not pure`);
  }
});

test('only one file asks for the platform', () => {
  const asking = /process\.platform|import \{[^}]*\bplatform\b[^}]*\} from 'node:os'/;
  const users = [...sources].filter(([, text]) => asking.test(text)).map(([path]) => path);
  assert.deepEqual(users, ['config/platform.ts']);
});

/** They follow a link, which the user of a folder may have put there. */
const FOLLOWING =
  /^(open|opendir|stat|readFile|writeFile|appendFile|copyFile|cp|truncate|chmod|chown|utimes|create\w+Stream)(Sync)?$/;

test('in journal/ one file opens files, and follows no link', () => {
  const used: Record<string, readonly string[]> = {};
  for (const [path, text] of sources) {
    if (!path.startsWith('journal/')) continue;
    const imports = text.matchAll(/^import \{([^}]*)\} from 'node:fs(?:\/promises)?'/gm);
    const names = [...imports].flatMap(([, names = '']) => names.split(',').map((name) => name.trim()));
    const following = names.filter((name) => FOLLOWING.test(name));
    if (following.length > 0) used[path] = following;
  }
  assert.deepEqual(used, {
    'journal/copy.ts': ['copyFile'], // of descriptors
    'journal/entry.ts': ['openSync', 'open'],
    'journal/lock/address.ts': ['openSync'], // of the folder
    'journal/open/mount.ts': ['readFile'], // of /proc
    'journal/open/owner.ts': ['chownSync', 'openSync'], // of a socket: O_PATH, with O_NOFOLLOW
  });
  const opened = [...(sources.get('journal/entry.ts') ?? '').matchAll(/\bopen\((.*?)[,)]\s(.*?)[,)]/g)];
  assert.deepEqual(
    opened.map(([, , flags]) => flags),
    ['flags | constants.O_NONBLOCK | constants.O_NOFOLLOW', 'constants.O_RDONLY | constants.O_DIRECTORY | flags'],
  );
});

test('importing a file has no effect, except for the entry', () => {
  for (const [path, text] of sources) {
    if (path === 'server.ts') continue;
    const code = text.replace(/^const \w+ = (?:String\.raw)?`[^`]*`;$/gm, ''); // a text may have lines in another language
    const statements = code.split('\n').filter((line) => /^[a-zA-Z]/.test(line));
    for (const line of statements) {
      assert.match(
        line,
        /^(import|export|const|function\*?|async function\*?|class|interface|type|declare const) /,
        `${path}: ${line}`,
      );
    }
  }
});

test('no class has a static block, since Node 14 could not parse it to print the version that it needs', () => {
  for (const [path, text] of sources) assert.doesNotMatch(text, /^\s*static \{/m, path);
});

/** Biome holds how complex and how long a function is: see `.biome.json`. */
test('a folder has at most 20 files', () => {
  const folders = [...allSources.keys()].map((path) => posix.dirname(path));
  const full = folders.filter((folder) => folders.filter((other) => other === folder).length > 20);
  assert.deepEqual([...new Set(full)], []);
});

test('engines cost at most 25,400 bytes of the program with --ack: NATS 10,800 of them, ClickHouse 9,200', async () => {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ['src/server.ts'],
    outfile: 'server.js',
    bundle: true,
    minify: true,
    platform: 'node',
    define: { ASSETLOG_PAGE: '""', ASSETLOG_PRINTED: '""' },
    metafile: true,
    write: false,
  });
  const inputs = Object.entries(metafile.outputs['server.js']?.inputs ?? {});
  const bytesOf = (...starts: readonly string[]) => {
    const found = inputs.filter(([path]) => starts.some((start) => path.startsWith(`src/forward/${start}`)));
    return found.reduce((sum, [, { bytesInOutput }]) => sum + bytesInOutput, 0);
  };
  const [nats, clickhouse] = [bytesOf('destinations/nats/'), bytesOf('destinations/clickhouse/')];
  assert.ok(nats > 0 && nats <= 10_800, `${nats} bytes`);
  assert.ok(clickhouse > 0 && clickhouse <= 9_200, `${clickhouse} bytes`);
  const shared = bytesOf('acks.ts', 'destinations/engine-url.ts', 'destinations/credentials.ts');
  assert.ok(shared > 0 && nats + clickhouse + shared <= 25_400, `${nats + clickhouse + shared} bytes`);
});

test('only entries, commands and options import the limits', () => {
  const taking = [...sources].filter(([, text]) =>
    /^import \{[^}]*(?<!type )\blimits\b[^}]*\} from '[^']*config\/limits/m.test(text),
  );
  const others = taking
    .map(([path]) => path)
    .filter((path) => !/^(server|embed|config\/options-of-service)\.ts$|^commands\//.test(path));
  assert.deepEqual(others, []);
});

test('the folder of a deployment is computed in one place', () => {
  const joining = [...sources]
    .filter(([, text]) => /\bjoin\([^(),]+, (?:deployment|name)\b/.test(text))
    .map(([path]) => path);
  const files = joining.filter(
    (path) => !/^journal\/(disk|entry)\.ts$|^journal\/lock\/|^journal\/open\/owner\.ts$/.test(path),
  ); // names of files
  assert.deepEqual(files, ['config/names.ts']);
});

test('only the files of journal/line know the bytes of a line', () => {
  const others = [...sources]
    .filter(([path]) => !/^journal\/line\/|^http\/page\/browser\/|^event\/encoded\.ts$/.test(path))
    .filter(([, text]) =>
      /\\\{"(?:seq|id)":|,"(?:id|time|from|recorded)":|\b(?:CRC|ID|TIME)_(?:MEMBER|TAIL|PREFIX)_BYTES\b|\bMETADATA_MEMBER\b/.test(
        text.replace(/^ *(?:\/?\*|\/\/).*$/gm, ''),
      ),
    )
    .map(([path]) => path);
  assert.deepEqual(others, []);
});

const COMMENT = /\/\*\*?([\s\S]*?)\*\/|((?:^\s*\/\/.*\n)+)|(?<=[\s;,{}()])\/\/ (.*)/gm;

/** The comments of a file, each as one line, and its texts of several words. */
function proseOf(source: string): string[] {
  const text = /'((?:[^'\\\n]|\\.)* (?:[^'\\\n]|\\.)*)'|`((?:[^`\\\n]|\\.)* (?:[^`\\\n]|\\.)*)`/g;
  const found = [...source.matchAll(COMMENT), ...source.replace(COMMENT, '').matchAll(text)];
  const lines = found.map((match) =>
    match
      .slice(1)
      .join('')
      .replace(/^[ \t]*(?:\*|\/\/) ?/gm, ''),
  );
  return lines.map((line) => line.replace(/\s+/g, ' ').trim());
}

test('comments, messages and test titles are written in plain words', () => {
  const isLeft = (path: string) => /^(?:src|test)\/(?:forward|reading|journal\/look|simulation)\//.test(path);
  const lists = ['test/readme.test.ts', 'test/support/words.ts'];
  const found = typeScriptFiles(root)
    .filter((path) => !isLeft(path) && !lists.includes(path))
    .flatMap((path) => {
      const prose = proseOf(readFileSync(join(root, path), 'utf8'));
      return foreign.flatMap(([rule, pattern]) =>
        prose.filter((text) => pattern.test(text)).map((text) => `${path}: ${rule}: ${text.slice(0, 200)}`),
      );
    });
  assert.equal(found.length, 0, found.join('\n'));
});

/** A name that only code has, such as `readKey`, `Disk.list` or `#file`; a word alone can also be of HTTP or a shell. */
const CODE_NAME = /[a-z\d][A-Z]|^[A-Z]\w*\.#?[a-z]|^#[a-z]/;

test('names in back-quotes in comments exist in the source', () => {
  const codes = [...allSources.values()].map((text) => text.replace(COMMENT, ''));
  const known = new Set(codes.flatMap((code) => code.match(/[\w$]+/g) ?? []));
  const unknown = [...allSources].flatMap(([path, text]) => {
    const quoted = (text.match(COMMENT) ?? []).flatMap(
      (comment) => comment.match(/(?<=`)#?[A-Za-z_$][#\w$.]*(?=(?:\(\))?`)/g) ?? [],
    );
    const names = quoted.filter((name) => CODE_NAME.test(name));
    const gone = names.filter((name) => name.match(/[\w$]+/g)?.some((part) => !known.has(part)));
    return gone.map((name) => `${path}: ${name}`);
  });
  assert.deepEqual(unknown, []);
});

test('a file or a test that a comment or a page of developers names exists', () => {
  const below = (name: string) =>
    readdirSync(join(root, name), { recursive: true, encoding: 'utf8' }).map((path) => posix.join(name, path));
  const paths = ['.ci', '.github', 'bin', 'src', 'test'].flatMap(below);
  const known = new Set(paths.flatMap((path) => path.split('/').map((_, at, parts) => parts.slice(at).join('/'))));
  const ids = filesByTest();
  const rooms = new Set([...readdirSync(join(root, 'src')), ...readdirSync(join(root, 'test'))]);
  const isKnown = (name: string) => ['', '.ts', '.test.ts'].some((end) => known.has(name + end));
  const missingIn = (text: string) => [
    ...(text.match(/(?<![\w/.*-])(?:[\w.-]+\/)*[\w-][\w.-]*\.(?:ts|py)\b/g) ?? []).filter((name) => !known.has(name)),
    ...(text.match(/(?<=`)[\w-]+(?:\/[\w-]+)+(?=`)/g) ?? []).filter(
      (name) => rooms.has(name.split('/', 1)[0]!) && !isKnown(name),
    ),
    ...(text.match(/(?<=\[)[a-z-]+-\d+(?=\])/g) ?? []).filter((id) => !ids.has(id)),
  ];
  const read = (path: string) => readFileSync(join(root, path), 'utf8');
  const texts = [
    ...typeScriptFiles(root).map((path) => [path, (read(path).match(COMMENT) ?? []).join('\n')]),
    ...paths.filter((path) => /^(?:\.github|src|test)\/.*\.md$/.test(path)).map((path) => [path, read(path)]),
  ];
  const missing = texts.flatMap(([path, text = '']) => missingIn(text).map((name) => `${path}: ${name}`));
  assert.deepEqual(missing, []);
});

/** `embed.ts` publishes its names, and wraps the first one. */
const PUBLISHED = ['startService', 'EventType'];

test('an exported name has one definition', () => {
  const files = new Map<string, string[]>();
  for (const [path, text] of sources) {
    for (const [, name = ''] of text.matchAll(
      /^export (?:async )?(?:function\*?|const|class|interface|type) (\w+)/gm,
    )) {
      files.set(name, [...(files.get(name) ?? []), path]);
    }
  }
  assert.ok(files.size > 500);
  const shared = [...files].filter(([name, paths]) => paths.length > 1 && !PUBLISHED.includes(name));
  assert.deepEqual(shared, []);
});

test('each test file is run by one of npm test, test:edges, test:engines and test:faults', () => {
  const all = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' });
  const run = ['coverage', 'edges', 'engines', 'faults'].flatMap((kind) => testFiles(kind));
  assert.deepEqual(run.sort(), all.filter((path) => path.endsWith('.test.ts')).sort());
  for (const path of testFiles('built')) assert.ok(testFiles('coverage').includes(path), path);
});
