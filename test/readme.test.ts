/**
 * The pages of documentation: their examples run, and their tables, numbers and links agree with the source. In an example
 * `# → ` is what it prints; a `bash` block is only shown.
 */

import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { TEST_COMMAND } from '../.ci/stages.ts';
import { commands } from '../src/commands/all-commands.ts';
import { limits, limitsFor } from '../src/config/limits.ts';
import { asksForHelp, readOptions } from '../src/config/options.ts';
import { readDeployments } from '../src/deployments/file.ts';
import { eventSchema } from '../src/journal/line/line-schema.ts';
import { encodeBatch } from '../src/journal/line/record.ts';
import { decisions } from '../src/journal/open/recovery.ts';
import { writeDeployments } from './support/deployments.ts';
import { alertRules, filesOfBin, HANDBOOK, type PageName, page, pagePaths } from './support/handbook.ts';
import { local } from './support/hostile/forms.ts';
import { groupsFor, hostedGroups } from './support/hostile/table.ts';
import { literalsIn } from './support/literals.ts';
import { newFolder, program, type Running, root, run, startService } from './support/program.ts';
import { FIRST, START } from './support/segments.ts';
import { sources } from './support/sources.ts';

const FRONT = 'README.md';
const ARCHITECTURE = 'src/README.md';
const TESTS = 'test/README.md';
const SPEED = 'test/bench/NOTES.md';
const CONTRIBUTING = '.github/CONTRIBUTING.md';
/** Pages of several tasks, which begin with a list of their headings. */
const long = [ARCHITECTURE, TESTS, SPEED, CONTRIBUTING];
const paths = [FRONT, '.github/SECURITY.md', ...filesOfBin.filter((path) => path.endsWith('.md')), ...long];
const pages: ReadonlyMap<string, string> = new Map(paths.map((path) => [path, readFileSync(join(root, path), 'utf8')]));
/** All pages of the handbook. */
const handbook = [HANDBOOK, ...pagePaths].map((path) => pages.get(path)).join('\n');
const textOf = (path: string) => pages.get(path) ?? '';
/** Each line of a page outside of its blocks of code. */
const proseOf = (path: string) =>
  textOf(path)
    .replace(/^```.*?^```$/gms, '')
    .split('\n');
/** A text as one line, so that a phrase is found wherever its lines are broken. */
const inOneLine = (text: string) => text.replace(/\s+/g, ' ');
const wordsOf = (path: string) => inOneLine(textOf(path));

function missing(): string | false {
  for (const tool of ['bash', 'curl', 'jq', 'grep', 'sed']) {
    try {
      execFileSync(tool, ['--version'], { stdio: 'ignore' });
    } catch {
      return `${tool} is not installed`;
    }
  }
  return false;
}

test('each example prints what its page says', { skip: missing(), timeout: 300_000, concurrency: 4 }, async (t) => {
  const running: Promise<void>[] = [];
  let count = 0;
  for (const [path, text] of pages) {
    const examples = examplesOf(text);
    count += examples.length;
    if (examples.length === 0) continue;
    running.push(
      t.test(path, async (own) => {
        const folder = newFolder(own);
        await runExamples(folder, await startService(own, { data: join(folder, 'assetlog-data') }), examples);
      }),
    );
  }
  await Promise.all(running);
  assert.ok(count >= 15, `${count} examples`);
});

function examplesOf(text: string): string[] {
  return [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) => block);
}

/** Runs the examples of a page in their order, in one folder and beside one service. */
async function runExamples(folder: string, service: Running, examples: readonly string[]): Promise<void> {
  const assetlog = program.map((word) => `'${word}'`).join(' ');
  for (const example of examples) {
    const expected = [...example.matchAll(/^# → (.*)$/gm)].map(([, line]) => line);
    const script = example.replaceAll('127.0.0.1:3000', `127.0.0.1:${service.port}`);
    // Replies end without a newline, so an echo after each curl puts them on lines of their own.
    const { stdout } = await promisify(execFile)(
      'bash',
      ['-euc', `curl() { command curl "$@"; echo; }\nassetlog() { ${assetlog} "$@"; }\n${script}`],
      { cwd: folder },
    );
    assert.deepEqual(stdout.trimEnd().split('\n'), expected, example);
  }
}

/** The words of a command line up to a pipe, a redirection, a comment or another command, without their quotes. */
function shellWords(line: string): string[] {
  const words = line.match(/^(?: ?(?!\d>)(?:'[^']*'|"[^"]*"|[^\s'"|&;<>()#])+)*/)?.[0] ?? '';
  return (words.match(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g) ?? []).map((word) => word.replaceAll(/['"]/g, ''));
}

test('each command line on the pages and in the help is valid', () => {
  const helps = Object.values(commands).map(({ notes }) => notes.flat().join('\n'));
  let count = 0;
  for (const text of [...pages.values(), ...helps]) {
    const lines = text.replaceAll(/\\\n\s*|^ *summary: .*/gm, '').matchAll(/\b(?:assetlog|server\.js) ([^\n`]+)/g);
    for (const [line, rest = ''] of lines) {
      const [first = '', ...more] = shellWords(rest);
      const [name, args] = first.startsWith('--') ? ['serve', [first, ...more]] : [first, more];
      const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
      if (command === undefined || first === '--version') continue;
      // A value may be a placeholder: DATE, 300$1.
      const anyValue = Object.entries(command.options).map(([option, form]) => [option, { ...form, parse: () => '' }]);
      const read = readOptions(args, {}, Object.fromEntries(anyValue), command.operands);
      assert.ok(
        read.kind === 'valid' || asksForHelp(args, command.options, command.operands),
        `${line}: ${JSON.stringify(read)}`,
      );
      count += 1;
    }
  }
  assert.ok(count >= 90, `${count} command lines`);
});

test('the command that CI runs as the tests is on a line of its own on the front page', () => {
  assert.ok(textOf(FRONT).split('\n').includes(TEST_COMMAND), TEST_COMMAND);
});

test('the program that the front page installs is the one that npm start runs', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const [, file] = /^install -D -m 755 (\S+) ~\/\.local\/bin\/assetlog$/m.exec(textOf(FRONT)) ?? [];
  assert.equal(scripts.start, `node ${file}`);
});

test('the picture of a terminal is what a terminal shows of the first reports', { skip: missing() }, async (t) => {
  const folder = newFolder(t);
  const [first = ''] = examplesOf(textOf(FRONT));
  await runExamples(folder, await startService(t, { data: join(folder, 'assetlog-data') }), [first]);
  const { stdout } = await run(['events', '--table', '--data', join(folder, 'assetlog-data')]);
  const picture = /^```console\n\$ assetlog events\n(.*?)^```$/ms.exec(textOf(FRONT))?.[1];
  const timeless = (text = '') => text.replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, 'TIME');
  assert.equal(timeless(picture), timeless(stdout));
});

test('the front page fits 200 lines', () => {
  const count = textOf(FRONT).trimEnd().split('\n').length;
  assert.ok(count <= 200, `${count} lines`);
});

test('prose is wrapped at 110 columns', () => {
  const tooLong = [...pages.keys()].flatMap((path) =>
    proseOf(path)
      .filter((line) => line.length > 110 && !line.startsWith('|') && canBeBroken(line))
      .map((line) => `${path}: ${line}`),
  );
  assert.deepEqual(tooLong, []);
});

test('a page of the handbook is one task: a title, its result, the task in at most 400 lines, and what is next', () => {
  const wrong = pagePaths.flatMap((path) => {
    const lines = textOf(path).trimEnd().split('\n');
    const next = [...(/^Next: (.*)$/.exec(lines.at(-1) ?? '')?.[1] ?? '').matchAll(/\]\([^)]+\)/g)];
    const mistakes = [
      !/^# [^\n]+\n\n[A-Z\x60`]/.test(textOf(path)) && 'does not begin with a title and a sentence',
      lines.length > 400 && `has ${lines.length} lines`,
      (next.length < 1 || next.length > 3) && 'does not end with a line "Next: " of one to three links',
    ];
    return mistakes.filter(Boolean).map((mistake) => `${path} ${mistake}`);
  });
  assert.deepEqual(wrong, []);
});

/** Whether a line has a space, after its marker of a list, that is not inside of code. */
function canBeBroken(line: string): boolean {
  const text = line.replace(/^\s*(?:[-*]|\d+\.)?\s*/, '').replace(/`[^`]*`/g, '');
  return !line.startsWith('#') && text.trimEnd().includes(' ');
}

test('every link leads to a file and a heading, and a long page links its own headings before the first', () => {
  const headings = new Map([...pages.keys()].map((path) => [path, headingsOf(path)]));
  const broken: string[] = [];
  for (const path of pages.keys()) {
    for (const [, link = ''] of proseOf(path)
      .join('\n')
      .matchAll(/\]\(([^)\s]+)\)/g)) {
      const [file = '', anchor] = link.split('#');
      if (/^\w+:/.test(file)) continue;
      const target = file === '' ? path : posix.join(dirname(path), file);
      const known = existsSync(join(root, target)) && statSync(join(root, target)).isFile();
      if (!known || (anchor !== undefined && !headings.get(target)?.includes(anchor))) broken.push(`${path}: ${link}`);
    }
    if (!long.includes(path)) continue;
    const beginning = textOf(path).split('\n## ', 1)[0] ?? '';
    for (const anchor of headings.get(path) ?? []) {
      if (!beginning.includes(`(#${anchor})`)) broken.push(`${path} does not list #${anchor}`);
    }
  }
  assert.deepEqual(broken, []);
});

/** The anchors of a page's sections, as GitHub makes them of headings. */
function headingsOf(path: string): string[] {
  const titles = proseOf(path).flatMap((line) => /^##+ (.*)$/.exec(line)?.[1] ?? []);
  return titles.map((title) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

test('the pages are written in plain terms', () => {
  const dialect =
    /\b(is|are|was) told\b|\bin vain\b|\bwhoever\b|\bnobody\b|\bsomebody\b|\bbehind it\b|\bgo(?:es)? on\b/gi;
  const found = [...pages.keys()].flatMap((path) =>
    (wordsOf(path).match(dialect) ?? []).map((words) => `${path}: ${words}`),
  );
  assert.deepEqual(found, []);
});

test('the limits on the pages are those of the source', () => {
  const [KIB, MIB] = [1024, 1024 * 1024];
  const { headBytesMax, headersMax, headersMs, requestMs, bodyBytesMax, discardBytesMax, discardMs } = limits;
  const { drainMs, lastSyncMs, lastCallMs } = limits;
  const stopSeconds = (drainMs + lastSyncMs + lastCallMs) / 1000;
  const named: readonly [PageName, string][] = [
    ['http', `request line and headers over ${headBytesMax / KIB} KiB, or more than ${headersMax} headers`],
    ['http', `headers not complete in ${headersMs / 1000} s, request not complete in ${requestMs / 1000} s`],
    ['http', `a body over ${bodyBytesMax / MIB} MiB`],
    ['http', `a body over ${limits.largeBodyBytes / KIB} KiB`],
    ['http', `${discardBytesMax / MIB} MiB or ${discardMs / 1000} s`],
    ['http', `more than ${limits.uploadBytesMax / MIB} MiB of bodies`],
    ['http', `idle for ${limits.idleMs / 1000} s, or whose client reads no replies for ${limits.unreadMs / 1000} s`],
    ['http', `none has been idle for ${limits.evictableMs / 1000} s`],
    ['http', `The ${limits.unansweredMax}th unanswered request`],
    ['http', `of thousands of chunks under ${limits.bodyPieceBytes} bytes`],
    ['install', `a stop takes at most ${stopSeconds} s`],
    ['operate', `A stop takes at most ${stopSeconds} s: ${drainMs / 1000} s for uploads, ${lastSyncMs / 1000} s for`],
    ['operate', `for the disk, ${lastCallMs / 1000} s for a system call`],
    ['size', 'With less than 512 MiB of memory'],
    ['size', `At most ${limits.openJournalsMax.toLocaleString('en')} journals`],
    ['fleet', `A connection is kept for ${limits.forwardKeptMs / 1000} s`],
    ['fleet', `A hub knows ${limits.forwardSourcesMax.toLocaleString('en')} journals`],
    ['alarms', `At most ${limits.alarmsMax.toLocaleString('en')}** alarms are open`],
    ['alarms', `becomes stale for ${limits.alarmGraceMs / 60_000} minutes`],
    ['repair', `a write takes over ${limits.diskAnswerMs / 1000} s`],
    ['repair', `at most ${limits.tornBytesMax / MIB} MiB (one write has at most ${limits.batchBytesMax / MIB})`],
    ['repair', `backoff (${limits.openRetryMs / 1000} s to ${limits.openRetryMsMax / 1000} s)`],
    ['repair', `first ${limits.damageReportsMax} bad ranges`],
    ['repair', `first ${limits.repairListMax.toLocaleString('en')} removed ranges`],
    ['watch', `beyond ${limits.queueBytesMax / MIB} MiB (less in little memory) a report gets 503`],
    ['secure', `gets ${limits.failuresMax} of them in a minute`],
    ['secure', `At most ${limits.openJournalsMax.toLocaleString('en')}`],
    ['secure', `read again within ${limits.deploymentsCheckMs / 1000} s`],
    ['secure', `waits for up to ${limits.openWaitMs / 1000} s`],
    ['read-http', `hold at most ${limits.readBytesMax / MIB} MiB for their clients`],
    ['read-http', `each client ${(3 * limits.readTurnBytes) / 1024} KiB of them`],
  ];
  for (const [name, words] of named) assert.ok(inOneLine(page(name)).includes(words), `${name}: ${words}`);
  assert.equal(limitsFor(512 * MIB), limits);
  assert.notDeepEqual(limitsFor(511 * MIB), limits);
});

test('the lines on the front page are valid against the schema', () => {
  const isLine = new Ajv2020().compile(eventSchema());
  const lines = textOf(FRONT).match(/^\{"seq":.*\}$/gm) ?? [];
  assert.equal(lines.length, 3);
  for (const line of lines) assert.ok(isLine(JSON.parse(line)), `${line}: ${JSON.stringify(isLine.errors)}`);
});

test('a journal of a later version, whose lines have more members, verifies, lists and starts', async (t) => {
  const data = newFolder(t);
  const { bytes } = encodeBatch(['"type":"AssetObservation","asset_key":["a"],"later":[1]'], START, new Date());
  writeFileSync(join(data, FIRST), bytes);
  assert.equal((await run(['verify', '--data', data])).code, 0);
  assert.equal((await run(['events', '--data', data])).stdout, bytes.toString());
  const service = await startService(t, { data });
  assert.deepEqual(service.events()[0]?.['later'], [1]);
});

test('the table of findings is the one of the source', () => {
  const kindsOf = new Map<string, string[]>();
  for (const [kind, { why, ...columns }] of Object.entries(decisions)) {
    const cells = Object.values(columns).join(' | ');
    kindsOf.set(cells, [...(kindsOf.get(cells) ?? []), kind]);
  }
  for (const [cells, kinds] of kindsOf) {
    const row = `\n| ${kinds.join(', ')} | ${cells} | `;
    assert.ok(page('repair').includes(row), row);
  }
});

test('the deployments file on the page is valid', () => {
  const [file = ''] = [...page('secure').matchAll(/^```json\n(\{\n.*?)^```$/gms)].map(([, text = '']) => text);
  const read = readDeployments(file);
  assert.deepEqual(read.kind === 'invalid' ? read.problems : [...read.value.tokensOf.keys()], ['prod']);
});

test('every metric is in the table, and every metric of a page or an alert exists', async (t) => {
  const service = await startService(t, { args: [...writeDeployments(t, ['prod']).args, '--deployment-metrics'] });
  const text = await (await fetch(`${service.url}/metrics`)).text();
  const [, table = ''] = /\n\| metric \|(.*?)\n\n/s.exec(page('watch')) ?? [];
  const namesIn = (of: string, pattern: RegExp) => [...new Set([...of.matchAll(pattern)].map(([, name]) => name))];
  const served = namesIn(text, /^# TYPE (\S+) /gm);
  assert.deepEqual(namesIn(table, /`((?:assetlog|process)_\w+)`/g).sort(), served.toSorted());
  const used = namesIn(handbook + alertRules, /\b(assetlog_\w+?)(?:_bucket)?\b(?!\.py| import)/g);
  assert.deepEqual(
    used.filter((name) => !served.includes(name)),
    [],
  );
});

test('the architecture has a row for each folder, and every file that it names is there', () => {
  const page = textOf(ARCHITECTURE);
  const rows = [...page.matchAll(/^\| `([\w/-]+)\/` \|/gm)].map(([, path]) => path);
  const folders = new Set([...sources.keys()].map((path) => dirname(path)).filter((path) => path !== '.'));
  assert.deepEqual(rows.toSorted(), [...folders].sort());
  const named = [...page.matchAll(/`([\w-]+(?:\/[\w-]+)*\.ts)`/g)].map(([, path = '']) => path);
  assert.deepEqual(
    named.filter((path) => !sources.has(path) && !existsSync(join(root, path))),
    [],
  );
});

test('every file of the source begins with a comment on its content', () => {
  const withoutHead = [...sources].filter(([, text]) => {
    const own = text.replace(/^\/\/\/.*\n/, '');
    return !own
      .replace(/^import [^;]*;\n/gm, '')
      .trimStart()
      .startsWith('/**');
  });
  assert.deepEqual(
    withoutHead.map(([path]) => path),
    [],
  );
});

test('each name that the architecture places in a file is in that file', () => {
  const named = [...textOf(ARCHITECTURE).matchAll(/`(\w+)` in `([\w/-]+\.ts)`/g)];
  assert.ok(named.length >= 5);
  for (const [words, name = '', path = ''] of named)
    assert.match(sources.get(path) ?? '', RegExp(`\\b${name}\\b`), words);
});

test('every promise names the test to read, and every test that it names exists', () => {
  const [, table = ''] = /\n\| promise \|(.*?)\n\n/s.exec(textOf(TESTS)) ?? [];
  const columns = table
    .split('\n')
    .slice(2)
    .map((row) => row.split(' | ')[1] ?? '');
  for (const tests of columns) {
    const [, title = '', name = ''] =
      /^\*([^*]+)\*: `([\w/-]+)`/.exec(tests) ?? assert.fail(`no test to read: ${tests}`);
    const titles = literalsIn(readFileSync(join(root, 'test', `${name}.test.ts`), 'utf8')).map(({ text }) => text);
    assert.ok(
      titles.map((text) => text.replace(/ \[[a-z-]+-\d+\]$/, '')).includes(title),
      `${name} has no test "${title}"`,
    );
  }
  const named = columns.flatMap((tests) => [...tests.matchAll(/`([\w/-]+)`/g)].map(([, name]) => name));
  const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' });
  assert.ok(named.length > 30);
  assert.deepEqual(
    named.filter((name) => !files.includes(`${name}.test.ts`)),
    [],
  );
});

test('every test file that a page names exists', () => {
  const named = [...pages.values()].flatMap((text) => text.match(/\btest\/[\w/.-]+\.(?:ts|go|sh)\b/g) ?? []);
  assert.ok(named.length > 10);
  assert.deepEqual(
    named.filter((path) => !existsSync(join(root, path))),
    [],
  );
});

test('the order of imports on the page is the one that is enforced', () => {
  const house = readFileSync(join(root, 'test/house.test.ts'), 'utf8');
  for (const [name, form] of [
    ['order', /^event < .* < server\.ts/],
    ['forwardOrder', /^position\.ts .* < forwarder\.ts/],
  ] as const) {
    const [, array = ''] = new RegExp(`const ${name}:.*?= \\[\\n(.*?)\\n\\];`, 's').exec(house) ?? [];
    const rows = array.split('\n');
    const order = rows.map((row) => row.replace(/^\s*\[|\],?$|'/g, '').replaceAll(', ', ' | ')).join(' < ');
    assert.match(order, form);
    assert.ok(textOf(ARCHITECTURE).includes(`\n${order}\n`), order);
  }
});

test('the counts of hostile inputs are those of the table', () => {
  const groups = Object.entries({ ...groupsFor(local), tokens: hostedGroups()['tokens'] ?? [] });
  const line = (cells: readonly unknown[]) => `\n| ${cells.join(' | ')} |\n`;
  const page = textOf(TESTS);
  assert.ok(page.includes(line(groups.map(([group]) => group))));
  const counts = groups.map(([, rows]) => rows.length);
  assert.ok(page.includes(line(counts)), line(counts));
  const all = counts.reduce((sum, count) => sum + count, 0);
  const words = wordsOf(TESTS);
  assert.ok(words.includes(`a table of ${all} hostile inputs`), `${all} in all`);
  assert.ok(words.includes(`The first ${all - (counts.at(-1) ?? 0)} are sent to a local service`));
  assert.ok(textOf(FRONT).includes(`[${all} hostile inputs]`), `${all} in all`);
});

test('the differences on the front page are rows of the whole table', () => {
  const [, front = ''] =
    /\n\| request \| Dagster \| assetlog \|\n\|---\|---\|---\|\n(.*?)\n\n/s.exec(textOf(FRONT)) ?? [];
  const rows = front.split('\n');
  assert.equal(rows.length, 3);
  for (const row of rows) assert.ok(textOf(TESTS).includes(`\n${row}\n`), row);
});
