/** The memory of `assetlog events` and `assetlog assets`, for a journal of any size. */

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { closeSync, linkSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { rounds } from '../../support/long.ts';
import { endWithPeak, memoryMib } from '../../support/memory.ts';
import { encodeMembers } from '../../support/plain-event.ts';
import { processorMsOf } from '../../support/processor-time.ts';
import { newFolder, program, root, run } from '../../support/program.ts';
import { FIRST, START } from '../../support/segments.ts';
import { eventually, HANG_MS } from '../../support/tools.ts';

/** A journal with lines of 64 KiB. */
function largeJournal(t: TestContext, bytesMin: number): string {
  const data = newFolder(t);
  const metadata = JSON.stringify({ text: 'x'.repeat(64 * 1024) });
  const members = Array.from({ length: 500 }, (_, at) =>
    encodeMembers({ type: 'AssetObservation', assetKey: [`a${at}`], metadata }),
  );
  let seq = 1;
  for (let bytes = 0; bytes < bytesMin; ) {
    const file = openSync(join(data, segmentName(seq)), 'w');
    const batch = encodeBatch(members, { seq, crc: 0 }, new Date());
    bytes += writeSync(file, batch.bytes);
    closeSync(file);
    seq = batch.chain.seq;
  }
  return data;
}

test('a reader that ends early ends the command with 0 and without a message, in any format', async (t) => {
  const data = largeJournal(t, 30_000_000);
  for (const words of ['events', 'events --csv', 'events --table', 'events --follow', 'assets']) {
    const script = `${program.map((word) => `'${word}'`).join(' ')} ${words} --data '${data}' | head -c 5 >/dev/null; exit "\${PIPESTATUS[0]}"`;
    const [code, stderr] = await new Promise<[unknown, string]>((resolve) => {
      execFile('bash', ['-c', script], { cwd: root, timeout: HANG_MS }, (error, _, stderr) =>
        resolve([error?.code ?? 0, stderr]),
      );
    });
    assert.deepEqual([code, stderr], [0, ''], words);
  }
});

test('memory does not grow with the journal, nor with a slow reader', {
  skip: process.platform !== 'linux' && 'needs /proc',
}, async (t) => {
  const data = largeJournal(t, rounds({ long: 300_000_000, short: 100_000_000 }));
  const commands = [
    ['events'],
    ['events', '--csv'],
    ['events', '--key', 'a7', '--last', '3', '--follow'],
    ['assets', '--json'],
  ];
  for (const args of commands) {
    const child = spawn(program[0] ?? '', [...program.slice(1), ...args, '--data', data], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => child.kill('SIGKILL'));
    const ended = endWithPeak(child);
    // Nothing is read at first: a command that does not wait for its reader fills memory now.
    await standstill(child.pid ?? 0);
    child.stdout.once('data', () => {
      if (args.includes('--follow')) child.kill('SIGTERM');
    });
    child.stdout.resume();
    const { code, peakMib } = await ended;
    assert.equal(code, 0, String(args));
    t.diagnostic(`${args}: ${peakMib} MiB`);
    assert.ok(peakMib > 30 && peakMib < 250, `${args}: ${peakMib} MiB`);
  }
});

/** Resolves when a process has started, and has then computed nothing for a while: it waits, or has ended. */
async function standstill(pid: number): Promise<void> {
  let before: number | undefined;
  let looks = 0;
  await eventually('it computes nothing', async () => {
    await sleep(50);
    const now = processorMsOf(pid);
    looks = now === before && memoryMib(pid) !== 0 ? looks + 1 : 0;
    before = now;
    return looks >= 6 || now === undefined;
  });
}

test('the events of 256 deployments are merged in little memory, and more deployments are refused', {
  skip: process.platform !== 'linux' && 'needs /proc',
}, async (t) => {
  const data = newFolder(t);
  const members = Array.from({ length: 6_000 }, () => encodeMembers({ type: 'AssetObservation', assetKey: ['a'] }));
  const { bytes } = encodeBatch(members, START, new Date());
  mkdirSync(join(data, 'd1'));
  writeFileSync(join(data, 'd1', FIRST), bytes);
  for (let number = 2; number <= 256; number += 1) {
    mkdirSync(join(data, `d${number}`));
    linkSync(join(data, 'd1', FIRST), join(data, `d${number}`, FIRST));
  }
  const child = spawn(program[0] ?? '', [...program.slice(1), 'events', data, '--limit', '10000'], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  let stderr = '';
  child.stderr?.on('data', (piece) => (stderr += piece));
  const { code, peakMib } = await endWithPeak(child);
  assert.equal(code, 0, stderr);
  t.diagnostic(`${peakMib} MiB`);
  assert.ok(peakMib > 30 && peakMib < 200, `${peakMib} MiB`);
  mkdirSync(join(data, 'more'));
  writeFileSync(join(data, 'more', FIRST), bytes);
  const refused = await run(['events', data]);
  assert.deepEqual([refused.code, refused.stdout], [2, '']);
  assert.match(
    refused.stderr,
    /^assetlog: at most 256 deployments can be merged; \S+ holds .* and 252 more; give one /,
  );
});
