/** The README's shell examples, run in their order by one shell against one service; `# → ` is what they print. */

import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { type Config, options } from '../src/config/config.ts';
import { limits } from '../src/config/limits.ts';
import { flagOf, variableOf } from '../src/config/options.ts';
import { eventSchema } from '../src/journal/line-schema.ts';
import { decisions } from '../src/journal/recovery.ts';
import { groupsFor, hostedGroups, local } from './support/hostile.ts';
import { newFolder, program, root, startService } from './support/program.ts';
import { FIRST, flip, makeLines } from './support/segments.ts';

const readme = readFileSync(join(root, 'README.md'), 'utf8');
const examples = [...readme.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) => block);

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

test('the examples print what they say', { skip: missing() }, async (t) => {
  assert.ok(examples.length >= 6, `${examples.length} examples`);
  const folder = newFolder(t);
  const service = await startService(t, { data: join(folder, 'assetlog-data') });
  const { bytes, lines } = makeLines(3);
  mkdirSync(join(folder, 'broken-data'));
  writeFileSync(join(folder, 'broken-data', FIRST), flip(bytes, (lines[0]?.length ?? 0) + 99));
  const assetlog = program.map((word) => `'${word}'`).join(' ');
  for (const example of examples) {
    const expected = [...example.matchAll(/^# → (.*)$/gm)].map(([, line]) => line);
    const script = example.replaceAll('127.0.0.1:3000', `127.0.0.1:${service.port}`);
    // Replies end without a newline, so an echo behind each curl puts them on lines of their own.
    const { stdout } = await promisify(execFile)(
      'bash',
      ['-euc', `curl() { command curl "$@"; echo; }\nassetlog() { ${assetlog} "$@"; }\n${script}`],
      {
        cwd: folder,
      },
    );
    assert.deepEqual(stdout.trimEnd().split('\n'), expected, example);
  }
});

test('the options, limits and files that it names are those of the source', () => {
  for (const name of Object.keys(options) as (keyof Config)[]) {
    const row = readme.split('\n').find((line) => line.startsWith(`| \`--${flagOf(name)}\``)) ?? '';
    assert.ok(row.includes(`\`${variableOf(name)}\``), name);
    const { initial } = options[name];
    if (!Array.isArray(initial) && initial !== '' && initial !== undefined)
      assert.ok(row.includes(`\`${initial}\``), `${name}: ${initial}`);
  }
  const { headBytesMax, headersMax, headersMs, requestMs, bodyBytesMax, discardBytesMax, discardMs, uploadBytesMax } =
    limits;
  const words = [
    `${headBytesMax / 1024} KiB`,
    `${headersMax} headers`,
    `${headersMs / 1000} s`,
    `${requestMs / 1000} s`,
  ];
  words.push(
    `a body over ${bodyBytesMax / 1024 / 1024} MiB`,
    `${discardBytesMax / 1024 / 1024} MiB or ${discardMs / 1000} s`,
  );
  words.push(`more than ${uploadBytesMax / 1024 / 1024} MiB of bodies`);
  for (const word of words) assert.ok(readme.includes(word), word);
  const sources = execFileSync('ls', [join(root, 'src')], { encoding: 'utf8' })
    .trim()
    .split('\n');
  for (const name of sources) assert.ok(readme.includes(`| \`${name}\` |`), name);
});

test('the lines that it shows are lines by their schema', () => {
  const isLine = new Ajv2020().compile(eventSchema());
  const lines = readme.match(/^\{"seq":.*\}$/gm) ?? [];
  assert.equal(lines.length, 3);
  for (const line of lines) assert.ok(isLine(JSON.parse(line)), `${line}: ${JSON.stringify(isLine.errors)}`);
});

test('the counts of hostile inputs are those of the table', () => {
  const groups = Object.entries({ ...groupsFor(local), tokens: hostedGroups()['tokens'] ?? [] });
  const line = (cells: readonly unknown[]) => `\n| ${cells.join(' | ')} |\n`;
  assert.ok(readme.includes(line(groups.map(([group]) => group))));
  const counts = groups.map(([, rows]) => rows.length);
  assert.ok(readme.includes(line(counts)), line(counts));
  const all = counts.reduce((sum, count) => sum + count, 0);
  assert.ok(readme.includes(`a table of ${all} hostile inputs`), `${all} in all`);
  assert.ok(readme.includes(`The first ${all - (counts.at(-1) ?? 0)} are sent to a local service`));
});

test('the tables of findings and of mutants are those of the source', () => {
  for (const [kind, { afterCrash, afterStop, earlier, why }] of Object.entries(decisions)) {
    assert.ok(readme.includes(`\n| ${kind} | ${afterCrash} | ${afterStop} | ${earlier} | ${why} |\n`), kind);
  }
  const mutants = readFileSync(join(root, 'test/faults/mutants.ts'), 'utf8').matchAll(
    /breaks: '(.*)',\n\s*file: '(.*)'/g,
  );
  const promises = [...mutants].map(([, breaks, file]) => `| ${breaks} | \`${file}\` |`);
  assert.ok(promises.length > 30);
  for (const promise of promises) assert.ok(readme.includes(promise), promise);
});
