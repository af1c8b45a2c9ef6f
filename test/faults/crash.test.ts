/**
 * SIGKILL at every point: before the first call of a kind, before the second, before the third, until what is done goes
 * through untouched. After each the next start comes up at once and has every acknowledged event once.
 *
 * The page cache outlives the process, so this says nothing about syncs; `order.test.ts` does.
 */

import assert from 'node:assert/strict';
import { appendFileSync, cpSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { segmentName } from '../../src/journal/segments.ts';
import { eventsIn, newFolder, type Running, startService } from '../support/program.ts';
import { each, withoutPrlimit, withoutStrace } from '../support/tools.ts';
import { ask, post } from '../support/wire.ts';
import { assertOnce, report } from './load.ts';
import { underStrace } from './strace.ts';

const [FIRST, SECOND, THIRD] = [segmentName(1), segmentName(2), segmentName(3)];
const [COPY, ASIDE] = [`${FIRST}.rewrite`, `${FIRST}.torn`];
const TORN = '{"seq":3,"torn';
const CLEAN_STOP = '.stopped-cleanly';
const START_MS = 5_000;
const AT_ONCE = 2;
/** More than any operation has calls of a kind on its files. */
const CALLS_MAX = 20;
/** Fills a file of 4096 bytes. */
const FILLING = JSON.stringify({ metadata: { filling: 'x'.repeat(5_000) } });
const [UNLINK, RENAME] = ['?unlink,?unlinkat', '?rename,?renameat,?renameat2'];

interface Operation {
  readonly name: string;
  readonly skip?: string | false;
  /** Makes the folder as it is before, `data`, which does not exist yet. @returns the keys of what is acknowledged in it */
  readonly prepare?: (t: TestContext, data: string) => Promise<string[]>;
  /** What is done to the service; the kill may break it off. Where it is absent the start is what is killed. */
  readonly act?: (service: Running, send: (key: string, body?: string) => Promise<void>) => Promise<void>;
  /** What has to be true of the folder in the end, besides. */
  readonly check?: (data: string) => void;
  /** What runs the program under strace. */
  readonly under?: readonly string[];
  /** Kinds of calls, and the names in `data` on which they count; `.` is the folder itself, none is any file. */
  readonly points: readonly (readonly [calls: string, ...names: string[]])[];
}

const operations: readonly Operation[] = [
  {
    name: 'the first start, which makes the folder',
    points: [
      ['mkdir', '.'],
      ['fsync', '..', '.'],
      ['openat', FIRST],
    ],
  },
  {
    name: 'a start after an unclean stop that left a torn end',
    prepare: prepareTorn,
    check: assertKept,
    points: [
      ['openat', FIRST, ASIDE, COPY],
      ['pwrite64', ASIDE, COPY],
      ['fdatasync', ASIDE, COPY],
      ['fsync', '.'],
      [UNLINK, COPY],
      [RENAME, COPY],
    ],
  },
  {
    name: 'a start after a clean stop',
    prepare: (t, data) => prepareStopped(t, data, 'SIGTERM'),
    points: [
      ['openat', FIRST],
      [UNLINK, CLEAN_STOP],
      ['fsync', '.'],
    ],
  },
  {
    name: 'a batch',
    act: async (_, send) => {
      for (const key of ['a', 'b']) await send(key);
    },
    points: [
      ['statx', FIRST], // also what comes between the write and the reply
      ['pwrite64', FIRST],
    ],
  },
  {
    name: 'a rotation',
    act: async (_, send) => {
      for (const key of ['a', 'b', 'c']) await send(key, FILLING);
    },
    points: [
      ['openat', SECOND, THIRD],
      ['fsync', '.'],
      ['close', FIRST, SECOND],
      ['pwrite64', SECOND, THIRD],
    ],
  },
  {
    name: 'the cut after a short write',
    skip: withoutPrlimit,
    under: ['prlimit', '--fsize=600'],
    act: async (_, send) => {
      await send('a');
      await send('b', FILLING);
    },
    points: [['ftruncate', FIRST]],
  },
  {
    name: 'a stop',
    act: async (service, send) => {
      await send('a');
      await service.kill('SIGTERM');
    },
    points: [['close', FIRST], ['openat', CLEAN_STOP], ['fsync', '.'], [UNLINK]],
  },
];

async function prepareStopped(t: TestContext, data: string, signal: NodeJS.Signals): Promise<string[]> {
  const service = await startService(t, { data });
  const keys = ['before-1', 'before-2'];
  for (const key of keys) assert.equal(await report(service.port, key), 200);
  await service.kill(signal);
  return keys;
}

async function prepareTorn(t: TestContext, data: string): Promise<string[]> {
  const keys = await prepareStopped(t, data, 'SIGKILL');
  appendFileSync(join(data, FIRST), TORN);
  return keys;
}

function assertKept(data: string): void {
  const aside = readdirSync(data).filter((name) => name.startsWith(ASIDE));
  assert.ok(
    aside.some((name) => readFileSync(join(data, name), 'utf8') === TORN),
    `${aside} do not have the torn end`,
  );
}

/** @returns whether there was such a call; the keys that were acknowledged before it are added to `acknowledged` */
async function killAt(
  t: TestContext,
  data: string,
  {
    operation,
    point: [calls, ...names],
    when,
  }: { operation: Operation; point: Operation['points'][number]; when: number },
  acknowledged: Set<string>,
): Promise<boolean> {
  const strace = underStrace(t, {
    calls: [calls],
    inject: [`${calls}:signal=KILL:when=${when}`],
    paths: names.map((name) => join(data, name)),
  });
  const { under, env = {} } = strace.options;
  const options = { data, args: ['--segment-bytes', '4096'], under: [...under, ...(operation.under ?? [])], env };
  try {
    const service = await startService(t, options);
    await operation.act?.(service, async (key, body) => {
      const status = await ask(service.port, post(`/report_asset_observation/${key}`, body)).then(
        (reply) => reply.status,
        () => 0,
      );
      if (status === 200) acknowledged.add(key);
    });
    await service.kill('SIGKILL');
  } catch (error) {
    assert.match(String(error), /ended with null/, 'a start ends by the kill or not at all');
  }
  return strace.calls().some(({ result }) => Number.isNaN(result));
}

/** A start without a fault. */
async function assertComesUp(t: TestContext, data: string, acknowledged: ReadonlySet<string>): Promise<void> {
  const started = performance.now();
  const service = await startService(t, { data });
  assert.ok(performance.now() - started < START_MS);
  assert.equal(await report(service.port, 'after'), 200);
  await service.kill('SIGKILL');
  assertOnce(eventsIn(data), [...acknowledged, 'after']);
}

for (const operation of operations) {
  test(`a kill at any point of ${operation.name} loses and doubles nothing`, {
    skip: withoutStrace || (operation.skip ?? false),
  }, async (t) => {
    const template = join(newFolder(t), 'data');
    const before = (await operation.prepare?.(t, template)) ?? [];
    await each(operation.points, AT_ONCE, async (point) => {
      for (let when = 1; ; when += 1) {
        const data = join(newFolder(t), 'data');
        if (operation.prepare !== undefined) copyFolder(template, data);
        const acknowledged = new Set(before);
        const killed = await killAt(t, data, { operation, point, when }, acknowledged);
        await assertComesUp(t, data, acknowledged);
        operation.check?.(data);
        if (!killed) {
          assert.ok(when > 1, `there is no ${point.join(' ')} to be killed at`);
          return;
        }
        assert.ok(when < CALLS_MAX, `${point.join(' ')} does not come to an end`);
      }
    });
  });
}

/** Without the sockets of the processes that died, which can not be copied. */
function copyFolder(from: string, to: string): void {
  mkdirSync(to);
  cpSync(from, to, { recursive: true, filter: (path) => !basename(path).startsWith('.lock-') });
}
