/**
 * A machine that runs a service: its disk, its wall clock, and the processes of the service one after the other. An operator starts
 * what has ended.
 */

import type { HttpReply } from '../../src/client/connection.ts';
import { type Limits, limits as standardLimits } from '../../src/config/limits.ts';
import { type Config, readConfig } from '../../src/config/options-of-service.ts';
import { readFields } from '../../src/http/headers.ts';
import {
  bodyOf,
  type CutReply,
  type HeadDecision,
  type Incoming,
  Refusal,
  type Reply,
  type StreamReply,
} from '../../src/http/message.ts';
import type { Listener, ListenerOptions } from '../../src/http/socket/listener.ts';
import type { Disk } from '../../src/journal/disk.ts';
import { InUseError, type Lock } from '../../src/journal/lock/lock.ts';
import type { Door, Durable } from '../../src/journal/lock/protocol.ts';
import type { DoorRequest } from '../../src/service/door.ts';
import { type Service, startService } from '../../src/service.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import type { Delivered, Network, Server } from '../world/network.ts';
import type { SimulatedDisk } from '../world/simulated-disk.ts';
import { Incarnation, MachineClock, type World } from '../world/time.ts';
import { MachineDisk, type PowerCut } from './machine-disk.ts';
import type { DoorState } from './runner/expected.ts';

export interface MachineOptions {
  readonly name: string;
  /** The command line of the service, besides its data folder. */
  readonly args: readonly string[];
  /** Hosted mode: the names of its deployments. */
  readonly deployments?: readonly string[];
  readonly limits?: Partial<Limits>;
  /** Whether it gets another hub at some time: then a hub cannot always know that its folder was restored. */
  readonly moves?: boolean;
}

/** A journal on the disk of a machine. */
export interface MachineJournal {
  /** `d0`; in hosted mode with the deployment: `hub/d0`. */
  readonly name: string;
  readonly machine: Machine;
  readonly folder: string;
  /** Its folder as it is now. */
  readonly disk: SimulatedDisk;
}

/** What the rest of the life wants to know of a machine. */
export interface Watcher {
  /** A start found the folder as the last process left it. */
  starting(machine: Machine): void;
  startFailed(machine: Machine, error: Error): void;
  /** @param changes of the disk that the process had begun, and whose end it had not heard of */
  ended(machine: Machine, code: number, changes: number): void;
  /** A line of the log, in JSON. */
  logged(machine: Machine, line: string): void;
  /** A request of a command over the lock was answered, or its service ended before it was. */
  asked(state: DoorState): void;
  /** A request reached the service. */
  received(machine: Machine, request: Delivered): void;
  /** Called for each piece of a reply that takes long, and then with all of it. */
  sends(machine: Machine, request: Delivered, text: string): void;
  sent(machine: Machine, request: Delivered, text: string): void;
  /** A stop took too long. */
  killed(machine: Machine): void;
  /** What an operator did before the start has ended, or failed. */
  worked(machine: Machine, error: Error | undefined): void;
  /** Called at the moment at which the service sends a reply. @param arrivedMs when it got the request */
  replied(machine: Machine, request: Delivered, reply: Reply, arrivedMs: number): void;
}

/** What an operator does while no service has the folder. It may be interrupted, and is then done again. */
export type Work = (openDisk: (folder: string) => Disk) => Promise<void>;

/** What a removal left is removed before a life ends, and what is stopped is tried again in it. */
const LIMITS: Limits = { ...standardLimits, retainCheckMs: 5_000, forwardStoppedMs: 10_000, keyCheckBytesMax: 2 ** 20 };

/** As the unit of the handbook has it. */
const STOP_MS = 40_000;

export class Machine {
  readonly name: string;
  readonly options: MachineOptions;
  readonly clock: MachineClock;
  readonly disk: MachineDisk;
  /** One, and in hosted mode one for each deployment. */
  readonly journals: readonly MachineJournal[];
  config: Config;
  process: Incarnation | undefined;
  service: Service | undefined;
  starts = 0;
  /** The last line of its log that is an error or a warning, or why its last start failed. */
  lastProblem: string | undefined;
  /** Done in place of the next start. */
  work: Work | undefined;
  /** Whether `work` is being done. */
  isMaintained = false;
  /** It was thrown away, and is not started again. */
  isGone = false;
  /** Whether a copy of its folder ran beside it, or it is one. */
  wasCopied = false;
  readonly #world: World;
  readonly #network: Network;
  readonly #watcher: Watcher;
  /** What its service answers; undefined before it listens. */
  #app: ReturnType<ListenerOptions['createApp']> | undefined;
  /** The locks of folders that are held. */
  readonly #locks = new Map<string, { readonly by: Incarnation; door?: Door }>();
  /** Requests of commands that are being carried out: each ends its wait. */
  readonly #asked = new Set<() => void>();

  constructor(world: World, network: Network, options: MachineOptions, watcher: Watcher) {
    this.name = options.name;
    this.#world = world;
    this.#network = network;
    this.options = options;
    this.#watcher = watcher;
    this.clock = new MachineClock();
    this.disk = new MachineDisk(world, options.name, this.clock, `/${options.name}`);
    this.config = configOf(options);
    this.journals = options.deployments?.map((name) => this.#journal(name)) ?? [this.#journal(undefined)];
  }

  /** @returns the journal that a request for this path, with its query, is about */
  journalFor(target: string): MachineJournal | undefined {
    if (this.config.deployments === '') return this.journals[0];
    const [, deployment] = target.split('/', 2);
    return this.journals.find(({ name }) => name === `${this.name}/${deployment}`);
  }

  /** From its next start on, its first destination is another hub. */
  sendTo(url: string): void {
    const { options } = this;
    this.config = configOf({ ...options, args: options.args.with(options.args.indexOf('--forward-to') + 1, url) });
  }

  /** As the lock of a folder answers to other processes of the machine. */
  durableIn(folder: string): Durable {
    const held = this.#locks.get(folder);
    const seq = held && this.#world.as(held.by, () => held.door?.nextSeq());
    return seq === undefined ? { kind: 'unsaid' } : { kind: 'before', seq };
  }

  /**
   * As the lock of a folder answers a request of another process of the machine.
   * @returns undefined if no service has the journal open, or it ended before it answered
   */
  async tell(folder: string, request: DoorRequest): Promise<string | undefined> {
    const { by, door } = this.#locks.get(folder) ?? {};
    if (by === undefined || door === undefined || this.#world.as(by, door.nextSeq) === undefined) return undefined;
    const ticket = by.chance.uuid();
    const made = this.disk.openFor(by, folder).replace(`.ask-${ticket}`, Buffer.alloc(0));
    if (
      !(await made.then(
        () => true,
        () => false,
      ))
    )
      return undefined; // the disk is full, or fails
    const gone = new AbortController();
    const text = JSON.stringify({ ticket, ...request });
    return new Promise((resolve) => {
      const end = (state: DoorState, answer?: string) => {
        if (!this.#asked.delete(ended)) return;
        this.#watcher.asked(state);
        resolve(answer);
      };
      const ended = () => end('door left unanswered');
      this.#asked.add(ended);
      void this.#world
        .as(by, () => door.answer(text, gone.signal))
        .then((answer) => {
          end('error' in JSON.parse(answer) ? 'door refused' : 'door answered', answer);
        });
    });
  }

  start(): void {
    if (this.isGone) return;
    this.starts += 1;
    const process = new Incarnation(this.#world, `${this.name}#${this.starts}`, this.clock);
    this.process = process;
    this.disk.isAbandoned = false;
    const { work } = this;
    if (work !== undefined) {
      this.#world.plan(0, 'an operator works', () => void this.#maintain(process, work), process);
      return;
    }
    this.#watcher.starting(this);
    this.#world.plan(0, 'starts', () => void this.#run(process), process);
  }

  /** Whether it can be asked: a process that has begun may not listen yet. */
  get isListening(): boolean {
    return this.service !== undefined && this.#app !== undefined;
  }

  /** What a monitor on the machine is answered, without a message and in no time: it changes nothing of a life. */
  async ask(target: string): Promise<HttpReply> {
    const request = { method: 'GET', target, host: this.name, headers: ['Host', this.name], body: Buffer.alloc(0) };
    const ending = new AbortController();
    const reply = await this.#world.as(this.process!, () => {
      const decision = this.#app!(incomingOf(request, 'monitor', ending));
      if (decision.kind === 'refuse') return decision.reply;
      return new Promise<Reply>((resolve) => decision.receive(request.body, resolve));
    });
    if (reply.kind !== 'stream') return whole(reply);
    const pieces: Buffer[] = [];
    for await (const piece of reply.pieces(ending.signal, () => {})) pieces.push(piece);
    return { status: reply.status, headers: headersOf(reply), body: Buffer.concat(pieces).toString() };
  }

  /** SIGKILL: what the system was asked to do is still done. */
  kill(): void {
    this.#gone();
  }

  cutPower(cut: PowerCut): void {
    this.#gone();
    this.disk.cutPower(cut);
  }

  /** SIGTERM, and SIGKILL after the `TimeoutStopSec` of the handbook. */
  stop(): void {
    const { service, process } = this;
    if (service === undefined) return;
    this.#world.plan(0, 'SIGTERM', () => void service.stop(), process);
    const kill = () => {
      this.kill();
      this.#watcher.killed(this);
    };
    this.#world.plan(STOP_MS, 'SIGKILL', () => this.#world.plan(0, 'SIGKILL', kill, null), process);
  }

  /** The process has ended, and its clients see that. */
  #gone(): void {
    const { process } = this;
    if (process === undefined) return;
    process.end();
    for (const ended of this.#asked) ended();
    this.#network.close(this.name, process);
    this.process = undefined;
    this.service = undefined;
    this.#app = undefined;
    this.#locks.clear();
    this.isMaintained = false;
  }

  #journal(deployment: string | undefined): MachineJournal {
    const { disk } = this;
    const name = deployment === undefined ? this.name : `${this.name}/${deployment}`;
    const folder = `/${name}`;
    return {
      name,
      machine: this,
      folder,
      get disk() {
        return disk.in(folder);
      },
    };
  }

  async #maintain(process: Incarnation, work: Work): Promise<void> {
    this.isMaintained = true;
    const error = await work((folder) => this.disk.openFor(process, folder)).then(
      () => undefined,
      (error: Error) => error,
    );
    if (error === undefined && this.work === work) this.work = undefined;
    this.#gone();
    this.#watcher.worked(this, error);
  }

  async #run(process: Incarnation): Promise<void> {
    const notices = createNotices('info', false, (line) => {
      this.#world.note(`  ${process.name}: ${line.trim()}`);
      if (/"level":"(?:error|warn)"/.test(line)) this.lastProblem = line.trim();
      this.#watcher.logged(this, line);
    });
    try {
      const service = await startService(this.config, notices, {
        limits: { ...LIMITS, ...this.options.limits },
        openDisk: (folder) => this.disk.openFor(process, folder),
        lockFolder: async (folder) => this.#lock(folder, process),
        listen: async (options) => this.#listen(options, process),
        openClient: () => this.#network.clientOf(process, this.name),
      });
      this.service = service;
      const code = await service.ended;
      this.#gone();
      this.#watcher.ended(this, code, process.changes);
    } catch (error) {
      this.#gone();
      this.lastProblem = (error as Error).message;
      this.#watcher.startFailed(this, error as Error);
    }
  }

  async #respond(decision: HeadDecision, request: Delivered, ending: AbortSignal): Promise<HttpReply> {
    if (decision.kind === 'refuse') return whole(decision.reply);
    this.#watcher.received(this, request);
    const arrivedMs = this.#world.nowMs;
    const reply = await new Promise<Reply>((resolve) => {
      let isReplied = false;
      decision.receive(request.body, (reply) => {
        if (isReplied) throw new Error('a request is answered twice');
        isReplied = true;
        this.#watcher.replied(this, request, reply, arrivedMs);
        resolve(reply);
      });
    });
    return reply.kind === 'stream' ? this.#stream(reply, request, ending) : whole(reply);
  }

  /** As `http/socket/streams.ts`: a body that fails before its first piece is a refusal, and after it the connection is cut. */
  async #stream(reply: StreamReply, request: Delivered, ending: AbortSignal): Promise<HttpReply> {
    const pieces: Buffer[] = [];
    try {
      for await (const piece of reply.pieces(ending, () => {})) {
        if (request.isGone?.()) break;
        pieces.push(piece);
        this.#watcher.sends(this, request, piece.toString());
        request.onPiece?.(piece.toString());
      }
    } catch (error) {
      if (pieces.length === 0 && error instanceof Refusal) return whole(error.reply);
      this.#world.note(`  ${this.process?.name}: no complete reply: ${(error as Error).stack}`);
      throw error;
    }
    const body = Buffer.concat(pieces).toString();
    this.#watcher.sent(this, request, body);
    return { status: reply.status, headers: headersOf(reply), body };
  }

  #lock(folder: string, process: Incarnation): Lock {
    const holder = this.#locks.get(folder)?.by;
    if (holder?.isAlive) throw new InUseError(`${folder} is in use by ${holder.name}`);
    const held: { readonly by: Incarnation; door?: Door } = { by: process };
    this.#locks.set(folder, held);
    return {
      checkHeld: () => {},
      watch: () => {},
      open: (door) => {
        held.door = door;
      },
      release: async () => {
        if (this.#locks.get(folder) === held) this.#locks.delete(folder);
      },
    };
  }

  #listen(options: ListenerOptions, process: Incarnation): Listener {
    const app = options.createApp('127.0.0.1');
    this.#app = app;
    const open = new Set<Promise<unknown>>();
    const endings = new Set<AbortController>();
    const handle: Server['handle'] = (request) => {
      const ending = new AbortController();
      endings.add(ending);
      const incoming = incomingOf(request, process.chance.uuid(), ending);
      const done = this.#respond(app(incoming), request, ending.signal).finally(() => endings.delete(ending));
      open.add(done);
      void done.catch(() => {}).finally(() => open.delete(done));
      return done;
    };
    this.#network.listen(this.name, { process, handle });
    return {
      address: '127.0.0.1',
      port: 80,
      close: async () => {
        this.#network.stopListening(this.name, process);
        for (const ending of endings) ending.abort();
        await Promise.allSettled(open);
      },
    };
  }
}

function configOf({ name, args }: MachineOptions): Config {
  const read = readConfig(['--data', `/${name}`, '--read', '--allowed-host', name, ...args], {});
  if (read.kind === 'invalid') throw new Error(read.problems.join('; '));
  return read.config;
}

function incomingOf({ method, target, headers }: Delivered, id: string, ending: AbortController): Incoming {
  return {
    method,
    url: target,
    httpVersion: '1.1',
    fields: readFields(headers),
    socket: { remoteAddress: '127.0.0.1' },
    id,
    ending: ending.signal,
    endReply: () => ending.abort(),
  };
}

function whole(reply: Exclude<Reply, StreamReply>): HttpReply {
  if (reply.kind === 'cut') return whole(reply.reply);
  const body = reply.kind === 'document' ? reply.body.toString() : bodyOf(reply, { id: 'simulated' });
  return { status: reply.status, headers: headersOf(reply), body };
}

function headersOf(reply: Exclude<Reply, CutReply>): Record<string, string> {
  const headers: Record<string, string> = { 'content-type': reply.contentType ?? 'application/json' };
  const given = reply.headers ?? [];
  for (let at = 0; at < given.length; at += 2) headers[given[at]!.toLowerCase()] = given[at + 1]!;
  return headers;
}
