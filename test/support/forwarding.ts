/** Lines of invented journals, and requests that send them to a hub. */

import type { ChainPosition } from '../../src/journal/line/record.ts';
import type { PlainEvent } from './plain-event.ts';
import { makeLines, START } from './segments.ts';
import { eventually } from './tools.ts';

/** @returns the id of the journal with this number */
export function sourceOf(number: number): string {
  return `0193e0c2-0000-7000-8000-${String(number).padStart(12, '0')}`;
}

export const SOURCE = sourceOf(1);

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}

export class SentJournal {
  readonly source: string;
  readonly lines: Buffer[] = [];
  /** The chain position before each line, and after the last one. */
  readonly chains: ChainPosition[] = [START];

  constructor(count: number, source = SOURCE, eventOf = (seq: number) => observation(`${source}/${seq}`)) {
    this.source = source;
    for (let added = 0; added < count; added += 1) {
      const { bytes, chain } = makeLines(1, this.chains.at(-1), eventOf);
      this.lines.push(bytes);
      this.chains.push(chain);
    }
  }

  /** @returns lines, both seqs inclusive */
  bytes(first: number, last: number): Buffer {
    return Buffer.concat(this.lines.slice(first - 1, last));
  }

  /** The crc of the line before. */
  crc(seq: number): string {
    return this.chains[seq - 1]!.crc.toString(16).padStart(8, '0');
  }

  id(seq: number): string {
    return JSON.parse(this.lines[seq - 1]!.toString()).id;
  }

  put(url: string, first: number, last: number, more: Sending = {}): Promise<Answer> {
    const headers = { 'Assetlog-Crc': this.crc(first), ...more.headers };
    return put(url, this.source, first, this.bytes(first, last), { ...more, headers });
  }
}

export interface Sending {
  readonly headers?: Record<string, string>;
}

export function observation(name: string): PlainEvent {
  return { type: 'AssetObservation', assetKey: [name] };
}

export async function put(
  url: string,
  source: string,
  first: number | string,
  body: Buffer | string,
  { headers = {} }: Sending = {},
): Promise<Answer> {
  return answerOnceOpen(`${url}/forward/${source}/${first}`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/x-ndjson', ...headers },
    body: new Uint8Array(Buffer.from(body)),
  });
}

export async function askHub(url: string, source = SOURCE, headers: Record<string, string> = {}): Promise<Answer> {
  return answerOnceOpen(`${url}/forward/${source}`, { headers });
}

/** Like a sender, it asks again while a slow disk keeps the hub from opening its journal or reading its watermarks. */
async function answerOnceOpen(url: string, request: RequestInit): Promise<Answer> {
  let answer: Answer | undefined;
  await eventually('the hub is open', async () => {
    const reply = await fetch(url, request);
    const body = (await reply.json()) as Record<string, unknown>;
    answer = { status: reply.status, headers: reply.headers, body };
    return reply.status !== 503 || !/ is being (opened|read)$/.test(String(body['error']));
  });
  return answer!;
}
