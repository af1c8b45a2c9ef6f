import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { newToken } from '../../src/deployments/tokens.ts';
import { atMostEvery, createNotices, oncePerName, openLog } from '../../src/telemetry/log.ts';
import { eventually } from '../support/tools.ts';

function collect(level: Parameters<typeof createNotices>[0], terminal: boolean) {
  const lines: string[] = [];
  return { lines, notices: createNotices(level, terminal, (line) => lines.push(line), limits) };
}

test('a program gets each entry as one JSON object on a line', () => {
  const { lines, notices } = collect('info', false);
  notices.warn('a torn end was cut off', { file: 'x', byte: 7, kept: undefined });
  const { time, ...rest } = JSON.parse(lines[0] ?? '');
  assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual(rest, { level: 'warn', message: 'a torn end was cut off', file: 'x', byte: 7 });
  assert.ok(lines[0]?.endsWith('\n'));
});

test('a terminal gets the short form', () => {
  const { lines, notices } = collect('info', true);
  notices.info('started', { url: 'http://x', absent: undefined, key: ['a', 'b'] });
  assert.match(lines[0] ?? '', /^\d\d:\d\d:\d\d info {2}started {2}url="http:\/\/x" {2}key=\["a","b"\]\n$/);
});

test('an entry that is less severe than the level is not written', () => {
  for (const [level, expected] of [
    ['error', 1],
    ['warn', 2],
    ['info', 3],
    ['debug', 4],
  ] as const) {
    const { lines, notices } = collect(level, false);
    notices.error('');
    notices.warn('');
    notices.info('');
    notices.debug('');
    assert.equal(lines.length, expected, level);
    assert.equal(notices.isDebug, level === 'debug');
  }
});

test('text of a client can neither forge a line nor hide part of a line', () => {
  const hostile = 'a\nb\r\u001b[31m\u0085\u2028\u2029\u202e\u200f\u2066\u007f\ufeff\ud800\u{e0001}';
  for (const terminal of [true, false]) {
    const { lines, notices } = collect('info', terminal);
    notices.info(hostile, { path: hostile });
    const line = lines[0] ?? '';
    assert.doesNotMatch(line.slice(0, -1), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
    if (!terminal) assert.equal(JSON.parse(line).path, hostile);
  }
});

test('a name is new once, and a limited number of names is remembered', () => {
  const isNew = oncePerName(2);
  assert.deepEqual(['a', 'a', 'b', 'c', 'b', 'c'].map(isNew), [true, false, true, false, false, false]);
});

test('the same reason is logged once in an interval, independently of other reasons', (t) => {
  let now = 5;
  t.mock.method(performance, 'now', () => now);
  const mayLog = atMostEvery(1_000);
  assert.deepEqual([mayLog('a'), mayLog('a'), mayLog('b')], [true, false, true]);
  now += 999;
  assert.equal(mayLog('a'), false);
  now += 1;
  assert.deepEqual([mayLog('a'), mayLog('b'), mayLog('a')], [true, true, false]);
});

test('each value is cut, and shows no part of a token at the cut', () => {
  const long = 'x'.repeat(1_000_000);
  for (const terminal of [true, false]) {
    const { lines, notices } = collect('info', terminal);
    const token = `${'x'.repeat(limits.logTextCharactersMax - 20)}${newToken().token}${long}`;
    notices.with({ long }).warn('a', { token, list: [long, long], many: Array(100_000).fill('name') });
    assert.doesNotMatch(lines.join(''), /asl_/);
    assert.ok((lines[0] ?? '').length < 5 * limits.logTextCharactersMax, `${lines[0]?.length}`);
  }
  const { lines, notices } = collect('info', false);
  notices.info('a', { list: ['b', 'c'], text: 'x'.repeat(limits.logTextCharactersMax) });
  assert.deepEqual(JSON.parse(lines[0] ?? '').list, ['b', 'c']);
  assert.doesNotMatch(lines[0] ?? '', /…/);
});

test('entries that clients cause have one rate limit for each level, and the rest is counted', async () => {
  const lines: string[] = [];
  const few = { ...limits, refusalLinesMax: 2, activityMs: 200 };
  const notices = createNotices('info', false, (line) => lines.push(line), few);
  const { rated } = notices.with({ deployment: 'prod' });
  for (let at = 0; at < 10; at += 1) {
    rated.warn('a');
    notices.rated.warn('b');
  }
  rated.error('c');
  notices.warn('of the service itself');
  const shown = () => lines.map((line) => JSON.parse(line)).map(({ message, count }) => count ?? message);
  assert.deepEqual(shown(), ['a', 'b', 'c', 'of the service itself']);
  await eventually('the rest is counted', () => lines.length === 5);
  assert.equal(shown().at(-1), 18);
});

test('a log that nothing reads keeps a bounded number of bytes, and later logs how many lines it dropped [log-3]', async () => {
  const pipe = new PassThrough({ highWaterMark: 1_000 });
  const { notices } = openLog('info', false, pipe, { ...limits, logWaitingBytesMax: 10_000 });
  for (let at = 0; at < 1_000; at += 1) notices.info('a', { text: 'x'.repeat(100) });
  assert.ok(pipe.writableLength + pipe.readableLength < 13_000, `${pipe.writableLength} bytes wait`);
  let text = '';
  pipe.setEncoding('utf8').on('data', (more) => {
    text += more;
  });
  await eventually('the count is written', () => text.includes('dropped'));
  const entries = text.trim().split('\n');
  const { level, count } = JSON.parse(entries.at(-1) ?? '');
  assert.deepEqual([level, count + entries.length - 1], ['error', 1_000]);
  notices.info('b');
  await eventually('lines are written again', () => text.includes('"b"'));
});
