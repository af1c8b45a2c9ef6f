/** The parts of a scene: services of the built file, reports at a steady pace, endless readings, and their results. */

import { setMaxListeners } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../src/config/limits.ts';
import { assertAtHub } from '../support/forwarded.ts';
import { memoryMib } from '../support/memory.ts';
import { metricsOf, samplesOf } from '../support/metrics.ts';
import { processorMsOf } from '../support/processor-time.ts';
import { eachEvent, newFolder, type Running, root, run, type Scope, startService } from '../support/program.ts';
import { reportOne } from '../support/report.ts';
import { eventually, within } from '../support/tools.ts';
import { errorOf } from '../support/wire.ts';

export const program = [process.execPath, join(root, 'dist/server.js')];

/** Reports of one sender that wait for their replies; the next report waits for one of them. */
const WAITING_MAX = 32;
const ANSWER_MS = 30_000;
/** The limit for events to arrive at a destination after the reports have ended. */
const ARRIVAL_MS = 120_000;
/** The limits of a stop on the front page: uploads, the last sync, and a system call that hangs. */
const STOP_MS = limits.drainMs + limits.lastSyncMs + limits.lastCallMs;

export interface Request {
  readonly what: string;
  readonly body: object | string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly expects: readonly number[];
  /** The names of its events, which are in their metadata. */
  readonly names: readonly string[];
}

/** The work of a service up to a moment. */
export interface Measured {
  readonly atMs: number;
  readonly processorMs: number;
  readonly events: number;
}

/** A service in a scene, which is judged. */
export interface Subject {
  readonly name: string;
  readonly data: string;
  readonly args: readonly string[];
  readonly isRestarted: boolean;
  running: Running;
  readonly measured: Measured[];
  /** Its resident memory, about once per second. */
  readonly memory: { readonly atMs: number; readonly mib: number }[];
  /** How it ended; empty before. */
  end: string;
}

/** A journal of a service, for reports and readings. */
export class Place {
  readonly subject: Subject;
  readonly headers: Readonly<Record<string, string>>;
  readonly #deployment: string;
  readonly acknowledged = new Set<string>();

  constructor(subject: Subject, deployment = '', token = '') {
    this.subject = subject;
    this.#deployment = deployment;
    this.headers = token === '' ? {} : { 'Service-Cloud-Api-Token': token };
  }

  get url(): string {
    return this.#deployment === '' ? this.subject.running.url : `${this.subject.running.url}/${this.#deployment}`;
  }

  get folder(): string {
    return join(this.subject.data, this.#deployment);
  }
}

/** A repeated reading, and the longest time without an answer. */
export class Reading {
  readonly what: string;
  good = 0;
  /** The longest time without an answer: from the first request without one to the end of the next request with one. */
  worstMs = 0;
  /** The failure in that time. */
  instead = '';
  #badSinceMs: number | undefined;

  constructor(what: string) {
    this.what = what;
  }

  /** @param instead the failure; undefined for an answer */
  add(instead: string | undefined, beganMs: number): void {
    if (instead !== undefined) this.#badSinceMs ??= beganMs;
    const badMs = this.#badSinceMs === undefined ? 0 : performance.now() - this.#badSinceMs;
    if (badMs > this.worstMs) {
      this.worstMs = badMs;
      this.instead = instead ?? this.instead;
    }
    if (instead !== undefined) return;
    this.#badSinceMs = undefined;
    this.good += 1;
  }
}

export class World {
  readonly scope: Scope;
  readonly seconds: number;
  readonly subjects: Subject[] = [];
  readonly readings: Reading[] = [];
  /** Broken promises, one line each. */
  readonly problems: string[] = [];
  readonly sent = { wantedPerSecond: 0, answered: 0 };
  readonly #places: Place[] = [];
  readonly #feeds: { readonly from: Place; readonly to: Place }[] = [];
  readonly #refused = new Map<string, number>();
  readonly #work: Promise<void>[] = [];
  readonly #end = new AbortController();

  constructor(scope: Scope, seconds: number, interrupted: AbortSignal) {
    this.scope = scope;
    this.seconds = seconds;
    setMaxListeners(0, this.#end.signal); // each reading adds one
    interrupted.addEventListener('abort', () => this.#end.abort(), { once: true });
    scope.after(() => this.#end.abort());
  }

  get isOver(): boolean {
    return this.#end.signal.aborted;
  }

  /** Starts a service, which ends with this process, however this process ends. */
  async serve(name: string, args: readonly string[], { isRestarted = false } = {}): Promise<Subject> {
    const data = newFolder(this.scope);
    const running = await this.#start(data, args);
    const isReady = async () => (await fetch(`${running.url}/readyz`)).ok; // with --ack, after the first answer of its destination
    await eventually(`${name} is ready`, isReady);
    const subject: Subject = { name, data, args, isRestarted, running, measured: [], memory: [], end: '' };
    this.subjects.push(subject);
    return subject;
  }

  async restart(subject: Subject, signal: NodeJS.Signals): Promise<void> {
    await this.#stop(subject, signal);
    subject.running = await this.#start(subject.data, subject.args);
  }

  place(subject: Subject, deployment?: string, token?: string): Place {
    const place = new Place(subject, deployment, token);
    this.#places.push(place);
    return place;
  }

  /** Declares that each event recorded at one place has to arrive once at the other. */
  feeds(from: Place, to: Place): void {
    this.#feeds.push({ from, to });
  }

  /**
   * Sends at a steady pace until the scene is over, even if replies are slow, up to `WAITING_MAX` unanswered requests.
   * @param make returns the n-th request, from 0
   */
  report(place: Place, perSecond: number, make: (n: number) => Request): void {
    const send = async ({ what, body, headers, expects, names }: Request) => {
      const sent = reportOne(place, what, { body, headers: { ...place.headers, ...headers } });
      const { status, body: text } = await within(`a reply of ${place.url}`, ANSWER_MS, sent).catch((error: Error) => ({
        status: 0,
        body: `${error.message} ${error.cause ?? ''}`,
      }));
      this.sent.answered += 1;
      if (status === 200) for (const name of names) place.acknowledged.add(name);
      if (expects.includes(status)) return;
      const refused = `${place.subject.name} replied ${status} to a report: ${status === 0 ? text : errorOf({ body: text })}`;
      this.#refused.set(refused, (this.#refused.get(refused) ?? 0) + 1);
    };
    this.sent.wantedPerSecond += perSecond;
    const waiting = new Set<Promise<void>>();
    this.#run(async () => {
      let nextMs = performance.now();
      for (let n = 0; !this.isOver; n += 1) {
        if (waiting.size === WAITING_MAX) {
          await Promise.race(waiting);
          nextMs = performance.now(); // late requests are not caught up on
        }
        const reply = send(make(n)).finally(() => waiting.delete(reply));
        waiting.add(reply);
        nextMs += 1_000 / perSecond;
        await this.pause(Math.max(1, nextMs - performance.now()));
      }
      await Promise.all(waiting);
    });
  }

  /** Reads repeatedly until the scene is over. @param ask @returns the failure in place of an answer, if any */
  read(place: Place, what: string, everyMs: number, ask: (end: AbortSignal) => Promise<string | undefined>): void {
    const reading = new Reading(`${place.subject.name} ${what}`);
    const { signal } = this.#end;
    this.readings.push(reading);
    this.#run(async () => {
      while (!signal.aborted) {
        const beganMs = performance.now();
        const instead = await ask(signal).catch((error: Error) => error.message);
        if (!signal.aborted) reading.add(instead, beganMs);
        await this.pause(everyMs);
      }
    });
  }

  /** Repeats an action, with pauses, until the scene is over. */
  every(ms: number, act: () => Promise<unknown>): void {
    this.#run(async () => {
      for (await this.pause(ms); !this.isOver; await this.pause(ms)) await act();
    });
  }

  async pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#end.signal }).catch(() => {});
  }

  async measure(): Promise<void> {
    for (const { running, isRestarted, measured } of this.subjects) {
      if (isRestarted) continue;
      const samples = await metricsOf(running).then(samplesOf, () => new Map<string, number>());
      const events = [...samples].filter(([name]) => name.startsWith('assetlog_events_total'));
      measured.push({
        atMs: performance.now(),
        processorMs: processorMsOf(running.pid) ?? Number.NaN,
        events: events.reduce((sum, [, count]) => sum + count, 0),
      });
    }
  }

  noteMemory(): void {
    for (const { running, memory } of this.subjects)
      memory.push({ atMs: performance.now(), mib: memoryMib(running.pid, 'VmRSS') });
  }

  /** Ends the reports, waits for destinations, stops all services, and checks their journals. */
  async finish(): Promise<void> {
    this.#end.abort();
    await Promise.all(this.#work);
    for (const { from } of this.#feeds) {
      const isThere = async () => samplesOf(await metricsOf(from.subject.running)).get(LAG) === 0;
      await eventually('the hub has all events', isThere, ARRIVAL_MS).catch((error: Error) =>
        this.#fail(from.subject, error.message),
      );
    }
    for (const subject of this.subjects.toReversed()) await this.#stop(subject, 'SIGTERM');
    for (const [refused, times] of this.#refused) this.problems.push(`${times} times: ${refused}`);
    for (const subject of this.subjects) await this.#verify(subject);
    for (const place of this.#places) this.#count(place);
    for (const { from, to } of this.#feeds) this.#compare(from, to);
  }

  #start(data: string, args: readonly string[]): Promise<Running> {
    return startService(this.scope, { data, program, openInput: true, args: ['--exit-with-stdin', ...args] });
  }

  #run(act: () => Promise<void>): void {
    this.#work.push(act().catch((error: Error) => void this.problems.push(`${error.stack}`)));
  }

  #fail({ name }: Subject, problem: string): void {
    this.problems.push(`${name}: ${problem}`);
  }

  async #stop(subject: Subject, signal: NodeJS.Signals): Promise<void> {
    const beganMs = performance.now();
    const isThere = processorMsOf(subject.running.pid) !== undefined;
    const ended = await within('the stop', STOP_MS, subject.running.kill(signal)).catch(() => undefined);
    subject.end = `exit ${ended?.code ?? 'none'} after ${((performance.now() - beganMs) / 1_000).toFixed(1)} s`;
    const last = ended?.stderr.trimEnd().split('\n').slice(-2).join('\n  ');
    if (!isThere) this.#fail(subject, `it ended without a signal: ${last}`);
    else if (ended === undefined) this.#fail(subject, `the stop needed more than ${STOP_MS / 1_000} s`);
    else if (signal === 'SIGTERM' && ended.code !== 0)
      this.#fail(subject, `the stop ended with ${ended.code}: ${last}`);
  }

  async #verify(subject: Subject): Promise<void> {
    const { code, stdout } = await run(['verify', subject.data], { program });
    if (code !== 0) this.#fail(subject, `verify ends with ${code}: ${stdout.slice(-500)}`);
  }

  /** Asserts that each acknowledged event is in the journal once, except events that retention removed. */
  #count({ subject, folder, acknowledged }: Place): void {
    const missing = new Set(acknowledged);
    const names: string[] = [];
    let first = 0;
    for (const event of eachEvent(folder)) {
      first ||= event['seq'] as number;
      const { n: name } = event['metadata'] as { n: string };
      names.push(name);
      missing.delete(name);
    }
    const twice = names.length - new Set(names).size;
    if (twice > 0) this.#fail(subject, `${twice} reports are recorded more than once`);
    const removed = Math.max(0, first - 1);
    if (missing.size <= removed) return;
    const some = [...missing].slice(-3).join(', ');
    this.#fail(subject, `${missing.size} reports got 200 but are missing (${some}), and ${removed} events are removed`);
  }

  #compare(from: Place, to: Place): void {
    try {
      assertAtHub(to.folder, from.folder);
    } catch (error) {
      this.#fail(from.subject, (error as Error).message.slice(0, 500));
    }
  }
}

const LAG = 'assetlog_forward_lag_events{destination="upstream"}';
