/**
 * Sends lines of devices to their hub beside them, as a copy of a folder or a person would: what is there already and the next one,
 * lines after a gap, another event at the same seq, and lines that are not as they were. What a hub takes of it the oracle sees.
 */

import { crc32 } from 'node:zlib';
import { crcBefore } from '../../src/journal/line/chain.ts';
import { hex } from '../../src/journal/line/record.ts';
import type { Chance } from '../world/chance.ts';
import type { Network } from '../world/network.ts';
import { Incarnation, type World } from '../world/time.ts';
import type { Machine, MachineJournal } from './machine.ts';
import { linesThere } from './operator/checks.ts';
import { sourceOf } from './oracle/destinations.ts';
import type { SeenLine } from './oracle/journal-view.ts';
import type { Oracle } from './oracle/oracle.ts';
import { SITE, tokenOf } from './services.ts';

interface Parts {
  readonly world: World;
  readonly network: Network;
  readonly oracle: Oracle;
  readonly machines: readonly Machine[];
}

/** What is sent, as the text of whole lines. */
interface Sent {
  readonly first: number;
  readonly lines: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
}

const MEAN_MS = 3_000;
/** Those that send lines of others. */
const OF_OTHERS = ['hub', SITE];

export class Stranger {
  readonly name = 'stranger';
  isStopped = false;
  readonly #parts: Parts;
  readonly #process: Incarnation;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#process = new Incarnation(parts.world, this.name, { offsetMs: 0 });
    parts.world.plan(MEAN_MS, 'begins', () => void this.#run(), this.#process);
  }

  async #run(): Promise<void> {
    const { chance } = this.#process;
    while (!this.isStopped) {
      const { world, oracle, machines } = this.#parts;
      // Of a device that removes what it has not sent, a letter says so, and it does not hear that its hub has the event.
      const refusing = machines.filter(
        ({ name, config }) => !OF_OTHERS.includes(name) && config.whenBehind === 'refuse',
      );
      const journal = chance.oneOf(refusing.flatMap(({ journals }) => journals));
      for (const to of oracle.destinationsOf(journal).values())
        if ('machine' in to) await this.#send(journal, to, chance);
      await world.wait(chance.exponentialMs(MEAN_MS), 'pause');
    }
  }

  async #send(journal: MachineJournal, hub: MachineJournal, chance: Chance): Promise<void> {
    const { network, oracle } = this.#parts;
    const source = sourceOf(journal) ?? '';
    const lines = new Map(linesThere(oracle, journal).map((line) => [line.seq, line]));
    const there = linesThere(oracle, hub).filter(({ from }) => from?.[0] === source);
    const last = Math.max(...there.map(({ from }) => from![1]));
    const own = lines.get(last);
    if (own === undefined || there.every(({ id }) => id !== own.id)) return;
    const kind = chance.oneOf([overlap, gap, partOfGap, fork, afterAnother, changed]);
    const sent = kind(own, lines);
    if (sent === undefined) return;
    if (kind === partOfGap) {
      // It is taken if the hub has all others by then.
      oracle.history.leaveOut(hub, [lines.get(sent.first - 1)?.id ?? '']);
    }
    const [, deployment] = hub.name.split('/');
    const bytes = Buffer.from(sent.lines[0]!);
    const headers = { 'Content-Type': 'application/x-ndjson', 'Assetlog-Crc': hex(crcBefore(bytes, 0, bytes.length)) };
    const token = deployment && { name: hub.machine.config.tokenHeader, token: tokenOf(deployment) };
    const send = () =>
      network.clientOf(this.#process, this.name).call(new URL(`http://${hub.name}/forward/${source}/${sent.first}`), {
        method: 'PUT',
        headers: { ...headers, ...sent.headers },
        token: token || undefined,
        body: sent.lines.map((line) => `${line}\n`).join(''),
        timeoutMs: 5_000,
      });
    await Promise.allSettled(chance.happens(0.5) ? [send()] : [send(), send()]);
  }
}

type Lines = ReadonlyMap<number, SeenLine>;

/** @param own the last line that the hub has, as its journal has it */
function overlap({ seq }: SeenLine, lines: Lines): Sent {
  let first = seq;
  while (first > seq - 3 && lines.has(first - 1)) first -= 1;
  const some = Array.from({ length: seq + 2 - first }, (_, at) => lines.get(first + at)?.text ?? []);
  return { first, lines: some.flat() };
}

/** A later line than the next one. If the hub has all before it by then, it is after another one. */
function gap({ seq, text }: SeenLine): Sent {
  const first = seq + 2 + (seq % 2);
  const after = JSON.parse(withId(text, seq, 3)).id;
  return { first, lines: [withId(text, first, 6)], headers: { 'Assetlog-After': after } };
}

function partOfGap({ seq }: SeenLine, lines: Lines): Sent | undefined {
  const later = lines.get(seq + 3);
  const sent = later && { first: later.seq, lines: [later.text] };
  return sent && { ...sent, headers: { 'Assetlog-Lost': `${sent.first - 1}-${sent.first - 1}` } };
}

function fork({ seq, text }: SeenLine): Sent {
  const other = withId(text, seq, 1);
  return { first: seq, lines: [other, withId(other, seq + 1, 2)] };
}

function afterAnother({ seq, text }: SeenLine): Sent {
  const after = JSON.parse(withId(text, seq, 3)).id;
  return { first: seq + 1, lines: [withId(text, seq + 1, 4)], headers: { 'Assetlog-After': after } };
}

/** The crc is that of another event. */
function changed({ seq, text }: SeenLine): Sent {
  const crc = text.slice(text.lastIndexOf(',"crc":"'));
  const other = withId(text, seq + 1, 5);
  return {
    first: seq + 1,
    lines: [other.slice(0, -crc.length) + crc],
    headers: { 'Assetlog-Crc': text.slice(-10, -2) },
  };
}

/** @returns a line with another seq, and with an id that no event has, after the given line */
function withId(text: string, seq: number, more: number): string {
  const begin = text.slice(0, text.lastIndexOf(',"crc":"'));
  const other = begin.replace(/^\{"seq":\d+,"id":"(.{35})(.)/, (_, most: string, last: string) => {
    const changed = (Number.parseInt(last, 16) + more) % 16;
    return `{"seq":${seq},"id":"${most}${changed.toString(16)}`;
  });
  return `${other},"crc":"${crc32(other, Number.parseInt(text.slice(-10, -2), 16))
    .toString(16)
    .padStart(8, '0')}"}`;
}
