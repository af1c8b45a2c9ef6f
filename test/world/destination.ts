/** A destination without a server, which answers as a script says, and keeps what a hub, an engine or a plain upstream would. */

import type { Asked, Destination, Sent, Shipment } from '../../src/forward/destinations/destination.ts';
import { type DestinationKind, traitsOf } from '../../src/forward/destinations/kinds.ts';

/** What a destination does with a request, such as `record`; `lost` records it and its answer does not arrive. */
export type Answer = 'record' | 'lost' | Asked['kind'] | Exclude<Sent['kind'], 'recorded'> | 'final';

type Answering = (what: 'ask' | 'send', seq: number) => Answer | Promise<Answer>;

/** What has happened so far: events as the destination got them. */
export class Model implements Destination {
  readonly kind: DestinationKind;
  /** Seqs in the order in which they were recorded, each as often as it was. */
  recorded: number[] = [];
  /** Seqs of the first lines of all requests. */
  requests: number[] = [];
  /** Seqs of the last lines of all requests. */
  ends: number[] = [];
  asked = 0;
  /** Lines of the largest request. */
  largest = 0;
  /** Of the last line that a hub has. */
  seq = 0;
  id: string | null = null;
  lost: number[] = [];
  answer: Answering;
  afterMs: number | undefined;
  signals: AbortSignal[] = [];

  constructor(kind: DestinationKind, answer: Answering = () => 'record') {
    this.kind = kind;
    this.answer = answer;
  }

  /** Of a plain upstream, as long as it is taken for a hub. */
  async ask(): Promise<Asked> {
    this.asked += 1;
    const answer = await this.answer('ask', 0);
    if (answer === 'again') return { kind: 'again', reason: 'scripted', afterMs: this.afterMs };
    if (answer === 'stopped') return { kind: 'stopped', why: 'turned away', reason: 'scripted' };
    if (this.kind === 'api' || answer === 'no hub') return { kind: 'no hub' };
    return { kind: 'at', seq: this.seq, id: this.id };
  }

  async send(batch: Shipment, signal: AbortSignal): Promise<Sent> {
    this.signals.push(signal);
    const [{ seq, event }] = batch.lines as [(typeof batch.lines)[0]];
    this.requests.push(seq);
    this.ends.push(batch.lines.at(-1)!.seq);
    this.largest = Math.max(this.largest, batch.lines.length);
    const answer = await this.answer('send', seq);
    switch (answer) {
      case 'record':
        return traitsOf[this.kind].truth === 'destination' ? this.#takeAll(batch) : this.#take(seq, event.id);
      case 'lost':
        if (traitsOf[this.kind].truth === 'destination') this.#takeAll(batch);
        else this.#take(seq, event.id);
        return { kind: 'in doubt', reason: 'sent no complete reply', isFinal: false };
      case 'final':
        this.#take(seq, event.id);
        return { kind: 'in doubt', status: 500, reason: 'answers 500', isFinal: true };
      case 'refused':
        return { kind: 'refused', status: 400, reason: 'scripted' };
      case 'in doubt':
        return { kind: 'in doubt', status: 502, reason: 'answers 502', isFinal: false };
      case 'elsewhere':
        return { kind: 'elsewhere', reason: 'scripted' };
      case 'stopped':
        return { kind: 'stopped', why: 'turned away', reason: 'answers 403' };
      default:
        return { kind: 'again', reason: 'answers 503', afterMs: this.afterMs };
    }
  }

  async haveFilesChanged(): Promise<boolean> {
    return false;
  }

  close(): void {}

  #take(seq: number, id: string): Sent {
    this.recorded.push(seq);
    return { kind: 'recorded', seq, id };
  }

  /** As the table of a hub: nothing with a gap that is not named, and nothing twice. An engine hears of no gap. */
  #takeAll({ lines, lost, after }: Shipment): Sent {
    const isOther = after !== undefined && after !== this.id;
    if (lines[0]!.seq === this.seq + 1 && isOther) return { kind: 'stopped', why: 'fork', reason: 'scripted' };
    for (const [at, { seq, event }] of lines.entries()) {
      if (seq <= this.seq) continue;
      const isNamed = !traitsOf[this.kind].isHub || (at === 0 && lost?.first === this.seq + 1 && lost.last === seq - 1);
      if (seq > this.seq + 1 && !isNamed) return { kind: 'elsewhere', reason: `has ${this.seq}` };
      for (let gone = this.seq + 1; gone < seq; gone += 1) this.lost.push(gone);
      this.recorded.push(seq);
      this.seq = seq;
      this.id = event.id;
    }
    return { kind: 'recorded', seq: this.seq, id: this.id as string };
  }
}

/** What a destination with a URL of HTTP is opened as. */
export function byKind(models: { readonly hub: Model; readonly api: Model }): (kind: DestinationKind) => Model {
  return (kind) => models[kind as 'hub' | 'api'];
}
