/**
 * 32 followers of a service that is killed and started again under load: each has every acknowledged event once and in order,
 * whether it keeps up, reads slowly, or goes and comes back with the id of the last event that it got.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { rounds } from '../support/long.ts';
import { eventsIn, newFolder, startService } from '../support/program.ts';
import { StreamClient } from '../support/reading.ts';
import { eventually } from '../support/tools.ts';
import { startLoad } from './load.ts';

const FOLLOWERS = 32;
const KILLS = rounds({ long: 30, short: 4 });
const LOAD_MS = 1_500;

/** Follows from the first event on, and connects again whenever its stream ends. */
class Follower {
  readonly ids: string[] = [];
  readonly seqs: number[] = [];
  readonly others: string[] = [];
  readonly #urlOf: () => string;
  readonly #kind: 'quick' | 'slow' | 'leaving';
  #isOver = false;
  readonly ended: Promise<void>;

  constructor(urlOf: () => string, kind: 'quick' | 'slow' | 'leaving') {
    this.#urlOf = urlOf;
    this.#kind = kind;
    this.ended = this.#run();
  }

  end(): void {
    this.#isOver = true;
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      const last: Record<string, string> = this.seqs.length === 0 ? {} : { 'last-event-id': `${this.seqs.at(-1)}` };
      const stream = await StreamClient.open(`${this.#urlOf()}/events?after_seq=0`, last).catch(() => undefined);
      if (stream === undefined || stream.status !== 200) {
        stream?.close();
        await sleep(20);
        continue;
      }
      await this.#read(stream);
      stream.close();
    }
  }

  async #read(stream: StreamClient): Promise<void> {
    const untilMs = performance.now() + (this.#kind === 'leaving' ? 100 + Math.random() * 500 : 60_000);
    while (!this.#isOver && performance.now() < untilMs) {
      if (this.#kind === 'slow') stream.reply.pause();
      await sleep(this.#kind === 'slow' ? 50 : 10);
      if (this.#kind === 'slow') stream.reply.resume();
      if (this.#kind === 'slow') await sleep(2);
      this.#take(stream);
      if (stream.isEnded) return;
    }
    this.#take(stream);
  }

  #take(stream: StreamClient): void {
    for (const { id, event, data } of stream.events.splice(0)) {
      if (!event.startsWith('Asset')) {
        this.others.push(event);
        continue;
      }
      const line = JSON.parse(data);
      assert.equal(id, String(line.seq));
      this.seqs.push(line.seq);
      this.ids.push(line.id);
    }
  }
}

test('each follower has each acknowledged event once and in order, over kills of the service [faults-streams-1]', async (t) => {
  const data = newFolder(t);
  const args = ['--segment-bytes', '65536', '--log-level', 'error'];
  let service = await startService(t, { data, args });
  const acknowledged = new Set<string>();
  const kinds = ['quick', 'slow', 'leaving'] as const;
  const followers = Array.from({ length: FOLLOWERS }, (_, at) => new Follower(() => service.url, kinds[at % 3]!));
  for (let kill = 0; kill < KILLS; kill += 1) {
    const load = startLoad(service.port, { clients: 4, name: `r${kill}`, restMs: 2 });
    await sleep(LOAD_MS / 2 + Math.random() * LOAD_MS);
    await service.kill('SIGKILL');
    await load.stop();
    for (const key of load.acknowledged) acknowledged.add(key);
    service = await startService(t, { data, args });
  }
  const events = eventsIn(data) as { seq: number; id: string; asset_key: string[] }[];
  const last = events.length;
  try {
    await eventually(`the last event ${last}`, () => followers.every(({ seqs }) => (seqs.at(-1) ?? 0) >= last), 60_000);
  } finally {
    for (const follower of followers) follower.end();
    await Promise.all(followers.map(({ ended }) => ended));
  }
  const recorded = events.map(({ id }) => id);
  for (const [at, follower] of followers.entries()) {
    assert.deepEqual(follower.ids, recorded, `follower ${at}`);
    assert.deepEqual(follower.others, []);
  }
  const keys = new Set(events.map(({ asset_key }) => asset_key.join('/')));
  assert.equal(keys.size, last, 'each once');
  for (const key of acknowledged) assert.ok(keys.has(key), key);
  assert.ok(acknowledged.size > 100 * KILLS, `${acknowledged.size} were acknowledged`);
});
