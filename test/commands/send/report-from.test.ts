/** Which lines are sent, in which order, and how the others are reported. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Delivery } from '../../../src/client/delivery.ts';
import { noFeatures } from '../../../src/client/features.ts';
import { itemReader } from '../../../src/commands/send/line-item.ts';
import { type LineRun, reportLines } from '../../../src/commands/send/report-from.ts';
import { limits } from '../../../src/config/limits.ts';
import { collectOutput } from '../../support/command-output.ts';

const LINE = '{"type":"observation","asset_key":"k"}';

async function* chunksOf(text: string | Buffer, bytes = 7): AsyncIterable<Buffer> {
  const all = Buffer.from(text);
  for (let at = 0; at < all.length; at += bytes) yield all.subarray(at, at + bytes);
}

interface RunResult {
  readonly code: number;
  readonly sent: readonly string[];
  readonly said: readonly string[];
  readonly complaints: readonly string[];
  readonly progress: readonly string[];
}

/** @param answers the delivery of each report that is sent; later reports are recorded */
async function runLines(
  chunks: AsyncIterable<Buffer>,
  { answers = [], ...more }: { answers?: readonly Delivery[] } & Partial<LineRun> = {},
): Promise<RunResult> {
  const { output, said, complaints, progress } = collectOutput();
  const sent: string[] = [];
  let busy = false;
  const send: LineRun['send'] = async function* (items) {
    for (const { single } of items) {
      const { endpoint, body } = single();
      assert.ok(!busy, 'two at a time');
      busy = true;
      await new Promise(setImmediate);
      busy = false;
      sent.push(`${endpoint.name} ${body}`);
      yield [answers[sent.length - 1] ?? ({ kind: 'recorded' } as const)];
    }
  };
  const stopped = new AbortController().signal;
  const read = itemReader(limits, false);
  const find = async () => ({ kind: 'found', features: noFeatures }) as const;
  const standard = { bytes: undefined, fromLine: 1, limits, runId: 'run', find };
  const code = await reportLines({ ...standard, chunks, read, send, stopped, ...more }, output);
  return { code, sent, said, complaints, progress };
}

test('empty lines, a byte order mark and CR LF are accepted', async () => {
  const { code, sent, complaints } = await runLines(chunksOf(`\ufeff${LINE}\r\n\r\n  \n${LINE}\n\n`));
  assert.deepEqual([code, sent.length, complaints], [0, 2, []]);
});

test('an invalid line is reported with its number and the reason, and the next line is sent', async () => {
  const lines = [
    LINE,
    'nonsense',
    '[1]',
    '{"asset_key":"k"}',
    '{"type":"toString"}',
    '{"type":"check","asset_key":"k","description":"d"}',
    '{"type":"observation","asset_key":"k","tags":{"a":"b"}}',
    LINE,
  ];
  const bytes = Buffer.concat([Buffer.from(`${lines.join('\n')}\n"`), Buffer.from([0xff]), Buffer.from('"\n\0\0\n')]);
  const { code, sent, said, complaints } = await runLines(chunksOf(bytes));
  assert.deepEqual(complaints, [
    'line 2: it is not valid JSON at column 1: nonsense is not a JSON value; a string needs double quotes',
    "line 3: it is not a JSON object; write each report on its own line, as jq -c '.[]' does",
    'line 4: its "type" is missing; write materialization, check, observation',
    'line 5: its "type" is "toString"; write materialization, check, observation',
    'line 6: a report of kind check has no "description"',
    'line 7: its "tags" can only have a "data_version"',
    'line 9: it is not UTF-8',
    'line 10: it is not valid JSON at column 1: expected a value, found U+0000',
  ]);
  assert.deepEqual([code, sent.length, said], [1, 2, ['2 recorded, 8 refused']]);
});

test('an input in UTF-16, or of JSON over several lines, is refused as a whole, and nothing of it is sent', async () => {
  const pretty = JSON.stringify(JSON.parse(LINE), undefined, 2);
  const own = 'write each report on its own line, as jq -c';
  for (const [input, problem] of [
    [Buffer.from(`\ufeff${LINE}\r\n`, 'utf16le'), 'the input is UTF-16; convert it: iconv -f UTF-16 -t UTF-8'],
    [Buffer.from(LINE, 'utf16le'), 'the input is UTF-16; convert it: iconv -f UTF-16 -t UTF-8'],
    [`\ufeff${pretty}\r\n${LINE}`, `the input has JSON over several lines; ${own} . does`],
    [`[\n${LINE}\n]\n`, `the input has JSON over several lines; ${own} '.[]' does`],
    [' [', `the input has JSON over several lines; ${own} '.[]' does`],
  ] as const) {
    for (const bytes of [1, 100_000]) await assert.rejects(runLines(chunksOf(input, bytes)), { message: problem });
  }
});

test('a line that is too long is reported, and is not held in memory [report-from-1]', async (t) => {
  async function* chunks() {
    for (let count = 0; count < 512; count += 1) yield Buffer.alloc(1024 * 1024, 'x');
    yield Buffer.from(`\n${LINE}`);
  }
  const before = process.memoryUsage().rss;
  const { code, sent, complaints } = await runLines(chunks());
  const grown = process.memoryUsage().rss - before;
  t.diagnostic(`${grown} bytes`);
  assert.deepEqual(complaints, [`line 1: it has more than ${limits.lineBytesMax} bytes`]);
  assert.deepEqual([code, sent.length], [1, 1]);
  assert.ok(grown < 200 * 1024 * 1024, `${grown} bytes more`);
});

test('a line can be as long as the limit, in chunks of any size', async () => {
  const lines = `${LINE}\n${LINE} \n${LINE}\n${LINE} `;
  for (const bytes of [1, 7, 100_000]) {
    const { sent, complaints } = await runLines(chunksOf(lines, bytes), {
      limits: { ...limits, lineBytesMax: LINE.length },
    });
    assert.equal(sent.length, 2);
    assert.deepEqual(
      complaints,
      [2, 4].map((line) => `line ${line}: it has more than ${LINE.length} bytes`),
    );
  }
});

test('the input is read ahead by one group of lines at most', async () => {
  let read = 0;
  async function* chunks() {
    for (; read < 10_000; read += 1) yield Buffer.from(`${LINE}\n`);
  }
  const lead: number[] = [];
  let sent = 0;
  const send: LineRun['send'] = async function* (submissions) {
    for (const _ of submissions) {
      await new Promise(setImmediate);
      lead.push(read - sent);
      sent += 1;
      yield [{ kind: 'recorded' }];
    }
  };
  const { code } = await runLines(chunks(), { send });
  assert.deepEqual([code, sent], [0, 10_000]);
  assert.ok(Math.max(...lead) <= 2 * limits.groupLinesMax + 2, `${Math.max(...lead)} lines ahead`);
});

test('progress is a bar if the size is known, and is removed before other output', async () => {
  async function* slow() {
    for (let count = 0; count < 3; count += 1) {
      await new Promise((resolve) => setTimeout(resolve, 110));
      yield Buffer.from(`${LINE}\n`);
    }
  }
  const known = await runLines(slow(), { bytes: 3 * (LINE.length + 1) });
  assert.match(known.progress[0] ?? '', /^\[#{10}\.{20}\] 3[23] % {2}0 recorded, 0 not, 0\/s, \d+ s left$/);
  assert.equal(known.progress.at(-1), '');
  const unknown = await runLines(slow());
  assert.match(unknown.progress[1] ?? '', /^1 recorded, 0 not, \d+\/s$/);
});
