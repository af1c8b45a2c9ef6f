/**
 * Counts the states that the services of a life were in. It knows them from outside: from log lines, replies, and what is written to
 * the disks. A state of a forwarder is written to its file whenever it changes.
 */

import { limits } from '../../src/config/limits.ts';
import type { Reply } from '../../src/http/message.ts';
import { verify } from '../../src/journal/look/verify.ts';
import type { Delivered } from '../world/network.ts';
import type { SimulatedDisk } from '../world/simulated-disk.ts';
import type { Machine } from './machine.ts';
import type { DoorState, EngineState, StateName, WayState } from './runner/expected.ts';

/** The states of a journal by the first words of the log line about them. */
const logged: Readonly<Record<string, StateName>> = {
  'journal open': 'journal open',
  'the disk refuses writes': 'journal refusing',
  'the disk does not answer': 'journal stalled',
  'the journal is full: ': 'journal used up',
  'the disk failed and the service ends': 'journal failed',
  'the disk is full; the service waits for space to open its journal': 'journal waiting for space',
  'reports get 503: retention would remove events': 'journal held back',
  'the line of an earlier report cannot be read': 'key unreadable',
  'the destination has all events, and reports are recorded': 'ack open',
  'reports get 503 until the destination has all events': 'ack closed',
  'the record of other journals is rebuilt from the whole journal': 'hub no snapshot',
  'this folder was restored or copied, and others have later events': 'hub restored',
  'an erase that was interrupted is finished': 'erase finished by a start',
};

const FORWARD = /^(?:\/[^/]+)?\/forward\/([^/]+)(?:\/(\d+))?$/;
const LETTERS = /(?:^|\/)dead-.*\.jsonl$/;
const STATE = /(?:^|\/)forward-.*\.state$/;

export class States {
  readonly counts: Record<string, number> = {};
  /** By process and key: how many requests with it are being handled. */
  readonly #open = new Map<string, number>();
  /** Requests that arrived while another one with their key was being handled. */
  readonly #joining = new WeakSet<Delivered>();
  /** By hub and source: the last seq that the hub said it has. */
  readonly #hubHas = new Map<string, number>();
  readonly #shown = new Map<string, string>();

  /** A start finds a disk as it is. */
  starting(disk: SimulatedDisk): void {
    this.#count('journal starting');
    // A copy, whose calls take no time and meet no fault.
    void verify(disk.afterCrash(), limits).then(({ findings, lastStop, segments }) => {
      if (segments.length === 0) this.#count('start in a new folder');
      else this.#count(lastStop === undefined ? 'start after a crash' : 'start after a stop');
      for (const { kind } of findings) this.#count(`finding ${kind}`);
    });
  }

  /** What an engine went through, a request of a command, or lines that were forwarded. */
  met(state: EngineState | DoorState | WayState): void {
    this.#count(state);
  }

  startFailed(): void {
    this.#count('start failed');
  }

  ended(code: number): void {
    if (code === 0) this.#count('journal closed');
  }

  logged(line: string): void {
    const { message, why } = JSON.parse(line);
    for (const [words, state] of Object.entries(logged)) if (message.startsWith(words)) this.#count(state);
    if (message === 'segment removed') this.#count(`retention ${why as '--retain-bytes'}`);
  }

  /** A process has written to a file of its disk. */
  written(folder: string, name: string, bytes: Buffer): void {
    if (STATE.test(name)) this.#shows(`${folder} ${name}`, JSON.parse(bytes.toString()));
    else if (LETTERS.test(name)) {
      for (const text of bytes
        .toString()
        .split('\n')
        .filter((one) => one.endsWith('}'))) {
        const { outcome, became } = JSON.parse(text);
        this.#count(`dead letter ${became === undefined ? outcome : `${outcome}, ${became}`}` as StateName);
      }
    }
  }

  received(machine: Machine, request: Delivered): void {
    const key = keyOf(request);
    if (key === undefined) return;
    const name = `${machine.process?.name} ${key}`;
    const open = this.#open.get(name) ?? 0;
    if (open > 0) this.#joining.add(request);
    this.#open.set(name, open + 1);
  }

  replied(machine: Machine, request: Delivered, reply: Reply): void {
    const { method, target, body } = request;
    const key = keyOf(request);
    if (key !== undefined) {
      const name = `${machine.process?.name} ${key}`;
      this.#open.set(name, (this.#open.get(name) ?? 1) - 1);
      const isReplayed = 'headers' in reply && reply.headers?.includes('Idempotent-Replayed');
      if (reply.status === 422) this.#count('key conflict');
      else if (reply.status !== 200) return;
      else if (!isReplayed) this.#count('key new');
      else this.#count(this.#joining.has(request) ? 'key joined' : 'key replayed');
    }
    const [, source, first] = FORWARD.exec(target) ?? [];
    if (source !== undefined)
      this.#hubReplied(`${machine.name} ${target.split('/forward/')[0]} ${source}`, first, request, reply);
    else if (method === 'POST' && target.endsWith('/report_asset_batch/') && reply.kind === 'body') {
      const { duplicates } = JSON.parse(reply.body);
      if (duplicates > 0) this.#count('key replayed');
      if (body.includes('"idempotency_key"') && !duplicates) this.#count('key new');
    }
  }

  #hubReplied(name: string, first: string | undefined, { headers, body }: Delivered, reply: Reply): void {
    if (reply.kind === 'error' && reply.status === 409) this.#count(`hub ${reply.members?.['reason'] as 'fork'}`);
    if (reply.kind !== 'body' || reply.status !== 200) return;
    const has: number = JSON.parse(reply.body).seq;
    const had = this.#hubHas.get(name) ?? 0;
    this.#hubHas.set(name, has);
    if (first === undefined) {
      this.#count('hub asked');
      return;
    }
    const last = Number(first) + body.toString().trimEnd().split('\n').length - 1;
    this.#count(Number(first) > had ? 'hub all new' : last > had ? 'hub some new' : 'hub none new');
    if (headers.some((header) => header.toLowerCase() === 'assetlog-lost')) this.#count('hub lost');
  }

  #shows(name: string, { state, why }: { readonly state: 'idle'; readonly why: 'fork' | null }): void {
    const shown = `${state} ${why}`;
    if (this.#shown.get(name) === shown) return;
    this.#shown.set(name, shown);
    this.#count(`forwarder ${state}`);
    if (why !== null) this.#count(`forwarder ${why}`);
  }

  #count(name: StateName): void {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }
}

function keyOf({ headers }: Delivered): string | undefined {
  const at = headers.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === 'idempotency-key');
  return at === -1 ? undefined : headers[at + 1];
}
