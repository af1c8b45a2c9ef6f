/** Sends to a plain upstream: what each answer leads to, and which events are sent again. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { segmentName } from '../../../src/journal/segments.ts';
import { diskWith, FIRST, makeLines, segment } from '../../support/segments.ts';
import { eventually, upTo } from '../../support/tools.ts';
import { Model } from '../../world/destination.ts';
import { failingCall, type SimulatedDisk, systemError } from '../../world/simulated-disk.ts';
import { cursorOf, gone, lettersOf, openLetters, saveCursor, sendAll, seqsOf, startPipe } from '../scripted.ts';

/** The lines that follow those of the first file. */
function segmentAfter(disk: SimulatedDisk, count: number): Buffer {
  const last = JSON.parse(disk.text(FIRST).trimEnd().split('\n').at(-1)!);
  return makeLines(count, { seq: last.seq + 1, crc: Number.parseInt(last.crc, 16) }).bytes;
}

test('after 20 refusals in a row forwarding stops at the last one, and SIGHUP continues it', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 30) });
  const upstream = new Model('api', (_, seq) => (seq > 1 && seq < 26 ? 'refused' : 'record'));
  const bench = startPipe(disk, 30, () => upstream, { limits: { forwardStoppedMs: 60_000 } });
  await bench.until('stopped');
  assert.deepEqual([bench.pipe.status.why, bench.pipe.status.seq], ['refusals', 20]);
  assert.match(bench.pipe.status.reason ?? '', /20 events in a row were refused, the last one is 21/);
  bench.pipe.tryNow();
  await bench.finish();
  assert.deepEqual(seqsOf(await lettersOf(disk)), upTo(25, 2));
  assert.deepEqual(upstream.recorded, [1, ...upTo(30, 26)]);
});

test('an event in doubt is sent three times at most, and its dead letter says what became of it', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 6) });
  const upstream = new Model('api');
  upstream.answer = (_, seq) => {
    if (seq === 2 && upstream.requests.filter((other) => other === 2).length === 1) return 'in doubt';
    return seq === 4 ? 'lost' : 'record';
  };
  const { pipe, log } = await sendAll(disk, 6, () => upstream);
  assert.deepEqual(upstream.requests, [1, 2, 2, 3, 4, 4, 4, 5, 6]);
  const letters = (await lettersOf(disk)).map((letter) => [...seqsOf([letter]), letter.outcome, letter.became]);
  assert.deepEqual(letters, [
    [2, 'in doubt', 'taken'],
    [4, 'in doubt', 'given up'],
  ]);
  assert.deepEqual([pipe.status.dead_letters, (await openLetters(disk)).open], [1, 1]);
  const logged = log.filter(({ message }) => /dead letters/.test(`${message}`));
  assert.doesNotMatch(JSON.stringify(logged), /answers 502/);
});

test('removed events between an event in doubt and the next recorded one have a dead letter too', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 3), ...gone(4, 7, 'lost'), [segmentName(8)]: segment(8, 2) });
  const upstream = new Model('api', (_, seq) => (seq === 3 ? 'in doubt' : 'record'));
  await sendAll(disk, 9, () => upstream);
  assert.deepEqual(upstream.recorded, [1, 2, 8, 9]);
  assert.deepEqual(
    (await lettersOf(disk)).map((letter) => [letter.outcome, seqsOf([letter])]),
    [
      ['in doubt', [3]],
      ['removed', upTo(7, 4)],
    ],
  );
  const { seq, sending } = await cursorOf(disk);
  assert.deepEqual([seq, sending], [9, undefined]);
});

test('in an outage with answers in doubt no event is given up', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 6) });
  const upstream = new Model('api', (_, seq) => (seq > 2 && upstream.requests.length < 30 ? 'in doubt' : 'record'));
  const bench = await sendAll(disk, 6, () => upstream);
  const seen = new Set(upstream.requests.slice(0, 30));
  assert.deepEqual([...seen], [1, 2, 3, 4], 'one further at most');
  const letters = await lettersOf(disk);
  const there = new Set([...upstream.recorded, ...seqsOf(letters)]);
  assert.deepEqual([...there].sort(), upTo(6));
  for (const seq of seqsOf(letters)) assert.ok(seq === 3 || seq === 4, `${seq} was never in doubt`);
  const problems = bench.log.filter(({ level, reason }) => level === 'warn' && reason === 'answers 502');
  assert.equal(problems.length, 3, 'waiting, suspect and the first dead letter, once each');
});

test('an event in doubt without a next event waits, and is sent again when one follows', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 3) });
  const upstream = new Model('api', (_, seq) => (seq === 3 && upstream.requests.length < 6 ? 'in doubt' : 'record'));
  const bench = startPipe(disk, 3, () => upstream);
  await bench.until('suspect');
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.deepEqual(upstream.requests, [1, 2, 3, 3, 3]);
  disk.put(FIRST, Buffer.concat([disk.bytes(FIRST)!, segmentAfter(disk, 1)]));
  bench.progress.recorded(disk.folder, 5);
  await bench.finish();
  assert.deepEqual(upstream.requests, [1, 2, 3, 3, 3, 3, 4], 'the outage may be over, so first the same again');
  assert.deepEqual(upstream.recorded, upTo(4));
  assert.deepEqual(seqsOf(await lettersOf(disk)), [3], 'it may be there twice');
});

test('with inDoubt once an event in doubt is given up after a pause, and not sent again [forwarder-7]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const upstream = new Model('api', (_, seq) => (seq === 2 || seq === 3 ? 'lost' : 'record'));
  await sendAll(disk, 5, () => upstream, { destination: { inDoubt: 'once' } });
  assert.deepEqual([upstream.requests, seqsOf(await lettersOf(disk))], [upTo(5), [2, 3]]);
});

test('the next event, sent to find out about one in doubt, has its dead letter too when the process dies [forwarder-22]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 6) });
  const upstream = new Model('api');
  upstream.answer = (_, seq) => {
    if (seq === 4) disk.fault = () => new Promise<never>(() => {});
    return seq === 3 ? 'in doubt' : 'record';
  };
  startPipe(disk, 6, () => upstream);
  await eventually('4 is recorded', () => upstream.recorded.includes(4));
  const [after, next] = [disk.afterCrash(), new Model('api')];
  await sendAll(after, 6, () => next);
  assert.deepEqual([next.recorded, seqsOf(await lettersOf(after))], [upTo(6, 3), [3, 4]]);
});

test('an event in flight when the process died is sent again and named once, if any call of a start fails', async () => {
  for (let failing = 1; ; failing += 1) {
    const disk = diskWith({ [FIRST]: segment(1, 5) });
    await saveCursor(disk, { seq: 2, sending: 4, kind: 'api' });
    const letters = await openLetters(disk);
    await letters.append({ time: '2026-11-20T15:19:45.266Z', outcome: 'removed', reason: 'before', first: 3, last: 3 });
    const upstream = new Model('api');
    const { fault, struck } = failingCall(failing, 'once');
    disk.fault = () => (upstream.requests.length === 0 ? fault() : undefined);
    await sendAll(disk, 5, () => upstream);
    const named = (await lettersOf(disk)).filter(({ outcome }) => outcome === 'in doubt');
    assert.deepEqual([upstream.recorded, seqsOf(named)], [upTo(5, 3), [3, 4]], `call ${failing}`);
    assert.match(named[0]!.reason, /stopped without a reply/);
    if (struck() === 0) return assert.ok(failing > 10, `${failing}`);
  }
});

test('a stop gives a request in flight some time, and then its event is saved as being sent', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const upstream = new Model('api');
  upstream.answer = (_, seq) => {
    if (seq < 3) return 'record';
    const signal = upstream.signals.at(-1)!;
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve('in doubt')));
  };
  const bench = startPipe(disk, 5, () => upstream);
  await eventually('3 is on its way', () => upstream.requests.at(-1) === 3);
  await bench.pipe.close();
  const cursor = await cursorOf(disk);
  assert.deepEqual([cursor.seq, cursor.sending], [2, 3]);
});

test('a stop without space for a dead letter leaves the recorded event saved as being sent', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 6) });
  // Event 3 is given up once event 4 was taken.
  const upstream = new Model('api', (_, seq) => (seq === 3 ? 'in doubt' : 'record'));
  let writes = 0;
  disk.fault = (call, name) => {
    if (call !== 'create' || name !== 'dead-upstream.jsonl') return undefined;
    writes += 1;
    return systemError('ENOSPC', name);
  };
  const bench = startPipe(disk, 6, () => upstream);
  await eventually('a letter was tried again', () => writes > 1);
  await bench.pipe.close();
  const { seq, sending } = await cursorOf(disk);
  assert.deepEqual([seq, sending, upstream.recorded.includes(4)], [2, 4, true]);
});

test('after a stop that follows a failed request no event is saved as being sent', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const upstream = new Model('api', (what) => (what === 'send' ? 'again' : 'record'));
  const bench = startPipe(disk, 5, () => upstream, {
    limits: { forwardRetryMs: 60_000, forwardRetryMsMax: 60_000 },
  });
  await bench.until('waiting');
  assert.match(bench.pipe.status.reason ?? '', /answers 503/);
  await bench.pipe.close();
  const cursor = await cursorOf(disk);
  assert.deepEqual([cursor.seq, cursor.sending], [0, undefined]);
});
