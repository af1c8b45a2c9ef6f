/** One life: devices, a hub, a plain upstream and clients in virtual time, with faults, and an oracle that looks at each step. */

import { exitCodes } from '../../src/config/exit-codes.ts';
import { limits } from '../../src/config/limits.ts';
import type { Reply } from '../../src/http/message.ts';
import { StartError } from '../../src/service/start-error.ts';
import { Chance } from '../world/chance.ts';
import { type Delivered, type MessageFault, Network } from '../world/network.ts';
import { World } from '../world/time.ts';
import { Alarmed } from './alarmed.ts';
import { type Access, Client } from './clients.ts';
import type { Engine } from './engines/engine.ts';
import { openEngines, planEngineFaults } from './engines/engines.ts';
import {
  endsOf,
  type FaultKind,
  FIRST_REQUEST,
  FIRST_SELDOM,
  faultOfStart,
  isLeftOut,
  type Names,
  type PlannedFault,
  planFaults,
  silenceOfStart,
} from './faults.ts';
import { strikeRequests } from './links.ts';
import { Machine, type MachineJournal, type MachineOptions, type Watcher } from './machine.ts';
import { askServices } from './monitor.ts';
import { Operator } from './operator/operator.ts';
import type { Place } from './oracle/destinations.ts';
import { Oracle } from './oracle/oracle.ts';
import { Reader } from './readers.ts';
import { replaceGlobals } from './replaced/globals.ts';
import type { DoorState } from './runner/expected.ts';
import {
  ALARMED,
  ALARMING,
  deploymentsForClients,
  hasAlarms,
  type PlannedErase,
  type PlannedHook,
  type PlannedLoss,
  type PlannedMove,
  planServices,
  tokenOf,
} from './services.ts';
import { States } from './states.ts';
import { Stranger } from './stranger.ts';
import { end, silenceAll, strike, strikeSeldomFiles, strikeStart, type Targets } from './strikes.ts';
import { Upstream } from './upstream.ts';

const HEALING_MS = 3_600_000;
const HEALING_STEPS = 400_000;
/** What has not changed for so long does not change any more: no sender waits for longer than a minute. */
const STUCK_MS = 900_000;
/** From the moment at which all is settled until folders are within their limits. */
const REST_MS = 120_000;
/** Longer than any life. */
const PLANNED_MS = 1_000_000;
/** Numbers of ends after lines that a hub left out, and the share of those that have one. */
const FIRST_LEFT_OUT = 16_000_000;
const ENDS_AFTER_LEFT_OUT = 0.03;
/** Of the number of an erase, to that of what strikes it; and the calls of the disk in which that is. */
const STRUCK_ERASE = 1_000;
const ERASE_CALLS = 150;
/** The longest time until an operator starts what has ended. */
const RESTART_MS = 3_000;

/** What is printed about a life. */
export interface Outcome {
  readonly seed: number;
  readonly steps: number;
  readonly digest: string;
  readonly ok: boolean;
  readonly broken?: string;
  /** Of a life that broke a promise: what is known of the events that the sentence names, and of what does not run. */
  readonly details?: readonly string[];
  /** The same: the numbers and kinds of the faults that were planned and began, in that order, and when they did. */
  readonly planned?: readonly (readonly [number: number, kind: FaultKind, atMs: number])[];
  /** The names of the clients, of a life that broke a promise. */
  readonly lived?: readonly string[];
  readonly ms: number;
  readonly virtual_s: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly states: Readonly<Record<string, number>>;
  readonly clients: Readonly<Record<string, number>>;
  readonly events: Readonly<Record<string, number>>;
}

/** What of a life happens; of what is not given, all. */
export interface Parts {
  /** The numbers of the faults of its plan. */
  readonly only?: ReadonlySet<number> | undefined;
  /** The names of its clients. */
  readonly clients?: ReadonlySet<string> | undefined;
  /** Whether disks write the sectors of one write in any order. */
  readonly reorders?: boolean | undefined;
  /** When it begins: see `Replay`. */
  readonly fromMs?: number | undefined;
  /** Whether it ends with its steps, and nothing heals. */
  readonly isCut?: boolean | undefined;
}

export async function live(
  seed: number,
  steps: number,
  { only, clients, reorders = false, fromMs = 0, isCut = false }: Parts = {},
): Promise<{ outcome: Outcome; trace: readonly string[] }> {
  const began = process.hrtime.bigint();
  const world = new World(seed, fromMs);
  replaceGlobals(world);
  const life = new Life(world, clients, reorders);
  await life.live(steps, only);
  if (!isCut) await life.heal();
  const broken = life.broken;
  const ms = Number((process.hrtime.bigint() - began) / 1_000_000n);
  const outcome = {
    seed,
    steps: world.steps,
    digest: (world.digest >>> 0).toString(16).padStart(8, '0'),
    ok: broken === undefined,
    ...(broken !== undefined && { broken, details: life.details(), planned: life.struck, lived: life.clientNames }),
    ms,
    virtual_s: Math.round(world.nowMs / 1000),
    faults: life.faults,
    states: life.states.counts,
    clients: life.outcomes(),
    events: life.events(),
  };
  return { outcome, trace: world.trace };
}

class Life implements Watcher {
  readonly faults: Record<string, number> = {};
  readonly states = new States();
  readonly #world: World;
  readonly #network: Network;
  readonly #upstreams = new Map<string, Upstream>();
  readonly #engines: ReadonlyMap<string, Engine>;
  /** A hook with `on`, if the life has one. */
  readonly #alarmed: Alarmed | undefined;
  /** How often the folder of its service was restored: then it has no file of the hook. */
  #restores = 0;
  /** By the names of the services that have hooks: adds theirs, unless that was done. */
  readonly #hooks = new Map<string, () => void>();
  /** Whether a fault that ends a process happens. */
  readonly #ends: ReturnType<typeof endsOf>;
  readonly #oracle: Oracle;
  readonly #machines: Machine[] = [];
  /** The machines that ended by a clean stop. */
  readonly #stopped = new Set<Machine>();
  readonly #clients: Client[] = [];
  readonly #readers: Reader[] = [];
  readonly #stranger: Stranger;
  /** Of those that are not left out. */
  readonly clientNames: string[] = [];
  /** The faults that began, in that order. */
  readonly struck: [number: number, kind: FaultKind, atMs: number][] = [];
  readonly #operator: Operator;
  #broken: string | undefined;
  #isHealing = false;
  #only: ReadonlySet<number> | undefined;
  readonly #reorders: boolean;
  /** A start has refused what a disk that reorders had left, as the handbook says: only a repair leads on. */
  #isRefused = false;
  /** How many requests had lines that a hub left out. */
  #leftOut = 0;

  /** @param clients the names of those that live; all if it is undefined */
  constructor(world: World, clients: ReadonlySet<string> | undefined, reorders: boolean) {
    this.#world = world;
    this.#reorders = reorders;
    this.#ends = endsOf(world.chance('ends'));
    this.#oracle = new Oracle(() => world.nowMs);
    this.#network = new Network(world, (kind) => this.#count(kind));
    this.#network.onSent.add((from, host, request) => {
      const machine = this.#machines.find(({ name }) => name === from);
      // What a hook with `on` gets is no event.
      if (machine !== undefined && host !== ALARMED)
        this.#oracle.forwards(machine, request, !this.#network.link(from, host).isDown);
    });
    if (hasAlarms(world.seed))
      this.#alarmed = new Alarmed(world, this.#network, (problem) => this.#oracle.breaks(`a hook with on ${problem}`));
    const engines = openEngines(world, this.#network, (state) => this.states.met(state));
    this.#engines = new Map(engines.map((engine) => [engine.name, engine]));
    const places = new Map<string, Place>(this.#engines);
    for (const name of ['upstream', 'plain']) places.set(name, this.#upstreamNamed(name));
    const services = planServices(world.seed, (name) => world.chance(name));
    // Some send to others that come later.
    for (const { machine: options } of services)
      for (const journal of this.#machine(options).journals) places.set(journal.name, journal);
    for (const [at, { sendsTo, hook, moves = [], loss, erases = [] }] of services.entries()) {
      const machine = this.#machines[at]!;
      if (hook !== undefined) places.set(hook.name, this.#upstreams.get(hook.name) ?? this.#upstreamNamed(hook.name));
      const destinations = new Map(Object.entries(sendsTo).map(([name, place]) => [name, places.get(place)!]));
      for (const journal of machine.journals) this.#oracle.watch(journal, destinations);
      if (hook !== undefined) this.#planHook(machine, hook);
      if (loss !== undefined) this.#planLoss(machine, loss);
      for (const erase of erases) this.#planErase(machine, erase);
      for (const move of moves) this.#planMove(machine, move, places.get(move.to) as MachineJournal);
      for (const [at, access] of accessesOf(machine).entries()) {
        const client = this.#newClient(machine, access, `client-${at + 1}-${machine.name}`);
        // Its link can be struck all the same, so that the plan of faults stays as it is.
        if (clients?.has(client.name) ?? true) this.clientNames.push(client.name);
        else client.isStopped = true;
        this.#addReader(machine, access, `reader-${at + 1}-${machine.name}`, clients);
      }
    }
    this.#stranger = new Stranger({ world, network: this.#network, oracle: this.#oracle, machines: this.#machines });
    if (clients?.has(this.#stranger.name) ?? true) this.clientNames.push(this.#stranger.name);
    else this.#stranger.isStopped = true;
    this.#operator = new Operator({
      world,
      oracle: this.#oracle,
      machines: this.#machines,
      count: (kind) => this.#count(kind),
      restart: (machine) => this.#restart(machine),
      addClone: (original, name, files) => this.#addClone(original, name, files),
      dropClone: (clone) => this.#dropClone(clone),
      cutOff: (machine, ms) => this.#cutOff(machine, ms),
    });
  }

  get broken(): string | undefined {
    return this.#oracle.broken ?? this.#broken;
  }

  /** @returns where the events are that the sentence about the broken promise names, and which services do not run, and why */
  details(): string[] {
    const idle = this.#machines.filter(({ service }) => service === undefined);
    return [
      `at ${(this.#world.nowMs / 1000).toFixed(3)} s`,
      ...this.#oracle.detailsOf(this.broken ?? ''),
      ...idle.map(({ name, lastProblem }) => `${name} does not run; its last problem: ${lastProblem ?? 'none'}`),
    ];
  }

  outcomes(): Record<string, number> {
    const all: Record<string, number> = {};
    for (const { outcomes } of [...this.#clients, ...this.#readers])
      for (const [name, count] of Object.entries(outcomes)) all[name] = (all[name] ?? 0) + count;
    return all;
  }

  events(): Record<string, number> {
    return Object.fromEntries([
      ...this.#machines
        .flatMap(({ journals }) => journals)
        .map((journal) => [journal.name, this.#oracle.viewOf(journal).lines.size]),
      ...[...this.#upstreams].map(([name, { recorded }]) => [name, recorded]),
      ...[...this.#engines].map(([name, { stored }]) => [name, stored.length]),
      ...(this.#alarmed ? [[ALARMED, this.#alarmed.posts] as const] : []),
    ]);
  }

  /** So many steps, with faults. */
  async live(steps: number, only?: ReadonlySet<number>): Promise<void> {
    const world = this.#world;
    this.#only = only;
    const byChance = strikeRequests(this.#begins(FIRST_REQUEST), () => this.#targets());
    // A post that a hook with `on` refuses counts as posted, and the hook would not know of it.
    const isLeft = (link: string, fault: MessageFault) => fault.kind === 'refusal' && link.endsWith(` to ${ALARMED}`);
    this.#network.byChance = (link) => {
      const fault = byChance(link);
      return fault !== undefined && isLeft(link, fault) ? undefined : fault;
    };
    for (const machine of this.#machines) {
      this.#strikeSeldomFiles(machine);
      machine.start();
    }
    const ofEngines = planEngineFaults(world.seed, world.chance('plan of engines'), PLANNED_MS);
    for (const fault of [...planFaults(world.seed, world.chance('plan'), PLANNED_MS, this.#names()), ...ofEngines]) {
      const { number, kind, target, atMs } = fault;
      if ((only?.has(number) ?? true) && atMs >= world.nowMs)
        world.plan(atMs - world.nowMs, `fault ${number} ${kind} at ${target}`, () => this.#strike(fault), null);
    }
    const minute = () => {
      this.#oracle.checkSources();
      void askServices(this.#machines, this.#oracle, world.nowMs, false);
      world.plan(60_000, 'the oracle looks', minute, null);
    };
    world.plan(60_000, 'the oracle looks', minute, null);
    await world.run(() => world.steps >= steps || this.broken !== undefined || this.#isRefused);
  }

  /** Faults end and links heal: everything settles, unless a promise is broken already. */
  async heal(): Promise<void> {
    if (this.broken !== undefined || this.#isRefused) return;
    const world = this.#world;
    this.#isHealing = true;
    for (const client of this.#clients) if (!client.isStopped) client.stop();
    for (const reader of this.#readers) reader.isStopped = true;
    this.#stranger.isStopped = true;
    this.#operator.heal();
    for (const add of this.#hooks.values()) add();
    for (const link of this.#network.links()) {
      link.isDown = false;
      link.faults.length = 0;
    }
    for (const { faults } of [...this.#upstreams.values(), ...this.#engines.values()]) faults.length = 0;
    if (this.#alarmed !== undefined) this.#alarmed.isHealed = true;
    for (const machine of this.#machines) {
      machine.disk.slowness = 1;
      machine.disk.faults.clear();
      if (machine.process === undefined) machine.start();
    }
    const untilMs = world.nowMs + HEALING_MS;
    const untilSteps = world.steps + HEALING_STEPS;
    let unsettled = this.#unsettled();
    let sinceMs = world.nowMs;
    let nextLookMs = world.nowMs;
    await world.run(() => {
      if (world.nowMs >= nextLookMs) {
        const next = this.#unsettled();
        if (next !== unsettled) sinceMs = world.nowMs;
        unsettled = next;
        nextLookMs = world.nowMs + 1_000;
      }
      const isLate = world.nowMs > Math.min(untilMs, sinceMs + STUCK_MS) || world.steps > untilSteps;
      return unsettled === undefined || this.broken !== undefined || isLate;
    });
    if (unsettled !== undefined) this.#broken ??= `not settled within an hour: ${unsettled}`;
    // What a late request said of its source is shown until the source asks again.
    const restMs = Math.max(world.nowMs, this.#network.lateMs + limits.forwardIdleMs) + REST_MS;
    await world.run(() => {
      this.#oracle.isAtRest = world.nowMs >= restMs - REST_MS / 2;
      return world.nowMs >= restMs || this.broken !== undefined;
    });
    if (this.broken === undefined) this.#oracle.checkAtRest();
    if (this.broken !== undefined) return;
    let isAnswered = false;
    // In an event of its own, so that what the services begin for it belongs to no other process.
    const ask = async () => {
      await Promise.all([askServices(this.#machines, this.#oracle, world.nowMs, true), this.#askAlarmed()]);
      isAnswered = true;
    };
    world.plan(0, 'the oracle looks at last', () => void ask(), null);
    const lateMs = world.nowMs + REST_MS;
    await world.run(() => isAnswered || world.nowMs > lateMs);
    if (!isAnswered) this.#oracle.breaks('a service does not answer what monitoring asks');
  }

  /** At rest a hook with `on` believes what holds. */
  async #askAlarmed(): Promise<void> {
    const machine = this.#machines.find(({ name }) => name === ALARMING)!;
    const problem = await this.#alarmed?.problemWith(machine);
    if (problem !== undefined) this.#oracle.breaks(`${ALARMING} says ${problem}`);
  }

  /** @returns what is not settled yet: also a report with a key that has no answer, since it is repeated until it has one */
  #unsettled(): string | undefined {
    const waiting = this.#clients.find(({ isWaiting }) => isWaiting);
    if (this.#operator.isBusy) return 'an operator still has something to do';
    if (this.#network.late > 0) return 'a delayed request has not arrived yet';
    return this.#oracle.unsettled() ?? (waiting && `${waiting.name} still gets no answer`);
  }

  starting(machine: Machine): void {
    for (const journal of machine.journals) {
      this.states.starting(journal.disk);
      this.#oracle.starts(journal);
      if (machine.name === ALARMING && this.#oracle.restoresOf(journal) !== this.#restores) this.#alarmed?.forget();
      if (machine.name === ALARMING) this.#restores = this.#oracle.restoresOf(journal);
      void this.#operator.starting(journal);
    }
    const isAfterStop = this.#stopped.delete(machine);
    if (this.#isHealing) return;
    const silent = this.#world.chance(`silence ${machine.name} ${machine.starts}`);
    const silence = silenceOfStart(silent, this.#machines.indexOf(machine), machine.starts);
    if (silence !== undefined && this.#begins(silence)(0, 'link down')) silenceAll(machine, silent, this.#targets());
    const chance = this.#world.chance(`start ${machine.name} ${machine.starts}`);
    const fault = faultOfStart(chance, this.#machines.indexOf(machine), machine.starts, isAfterStop);
    if (fault === undefined || !this.#mayStrike(fault.number, fault.kind)) return;
    this.#noteStrike(fault.number, fault.kind);
    strikeStart(machine, fault, this.#targets());
  }

  startFailed(machine: Machine, error: Error): void {
    this.states.startFailed();
    const code = error instanceof StartError ? error.exitCode : undefined;
    if (code === exitCodes.diskFailed) this.#restartAfter(machine, code);
    else if (code === exitCodes.damaged && this.#operator.refused(machine)) this.#restart(machine);
    else if (code === exitCodes.damaged && this.#reorders) this.#isRefused = true;
    else this.#broken ??= `${machine.name} does not start: ${error.message}`;
  }

  ended(machine: Machine, code: number, changes: number): void {
    for (const journal of machine.journals) this.#oracle.ended(journal, code, changes);
    this.#restartAfter(machine, code);
  }

  #restartAfter(machine: Machine, code: number): void {
    this.states.ended(code);
    this.#count(`exit ${code}`);
    if (code === exitCodes.done) this.#stopped.add(machine);
    this.#restart(machine);
  }

  killed(machine: Machine): void {
    this.#broken ??= `${machine.name} does not stop`;
  }

  worked(machine: Machine, error: Error | undefined): void {
    this.#operator.worked(machine, error);
    this.#restart(machine);
  }

  logged(machine: Machine, line: string): void {
    this.states.logged(line);
    if (line.includes('an erase that was interrupted is finished'))
      for (const journal of machine.journals) this.#oracle.erased(journal);
    if (line.includes('the destinations were read again'))
      for (const journal of machine.journals) this.#oracle.readsDestinations(journal);
    const [, from] = /keys of older events are not known.*"before_seq":(\d+)/.exec(line) ?? [];
    const [, deployment] = /"deployment":"(\w+)"/.exec(line) ?? [];
    for (const journal of from === undefined ? [] : machine.journals)
      if (deployment === undefined || journal.name.endsWith(`/${deployment}`))
        this.#oracle.viewOf(journal).knowsFrom = Number(from);
    if (line.includes('the file of a hook is damaged')) this.#alarmed?.forget();
    if (line.includes('defect of the service')) this.#broken ??= `a service has a defect: ${line}`;
  }

  asked(state: DoorState): void {
    this.states.met(state);
  }

  received(machine: Machine, request: Delivered): void {
    this.states.received(machine, request);
    this.#oracle.received(machine, request);
  }

  sends(machine: Machine, request: Delivered, text: string): void {
    this.#oracle.sends(machine, request, text);
  }

  sent(machine: Machine, request: Delivered, text: string): void {
    this.#oracle.sent(machine, request, text);
  }

  replied(machine: Machine, request: Delivered, reply: Reply, arrivedMs: number): void {
    this.states.replied(machine, request, reply);
    // In hosted mode a journal is opened for a request.
    this.#isRefused ||= this.#reorders && reply.kind === 'error' && reply.error.includes('it is damaged');
    if (this.#isRefused) return;
    this.#oracle.replied(machine, request, reply, arrivedMs);
    const journal = machine.journalFor(request.target);
    const met = journal === undefined ? [] : this.#oracle.waysOf(journal, request, reply);
    for (const state of met) this.states.met(state);
    if (met.includes('hub left out')) this.#mayEnd(machine);
  }

  /** How far a sender is by lines that a hub leaves out is durable some seconds later. */
  #mayEnd(machine: Machine): void {
    const chance = this.#world.chance(`end after left out ${this.#leftOut}`);
    const number = FIRST_LEFT_OUT + this.#leftOut++;
    const kind = chance.oneOf(['crash', 'power cut'] as const);
    if (!chance.happens(ENDS_AFTER_LEFT_OUT) || !this.#begins(number)(0, kind)) return;
    const inMs = chance.exponentialMs(3_000);
    this.#world.plan(inMs, kind, () => end(machine, kind, chance, this.#targets()), null);
  }

  #upstreamNamed(name: string): Upstream {
    const upstream = new Upstream(this.#world, this.#network, name, () => this.#count('upstream error'));
    this.#upstreams.set(name, upstream);
    return upstream;
  }

  #planHook(machine: Machine, { name, atMs, add }: PlannedHook): void {
    const [journal] = machine.journals as [MachineJournal];
    let isAdded = false;
    const addOnce = () => {
      if (isAdded) return;
      isAdded = true;
      add();
      this.#oracle.adds(journal, name);
    };
    this.#hooks.set(machine.name, addOnce);
    this.#world.plan(atMs - this.#world.nowMs, `an operator adds ${name} to ${machine.name}`, addOnce, null);
  }

  #planMove(machine: Machine, move: PlannedMove, to: MachineJournal): void {
    const { number, atMs } = move;
    const [journal] = machine.journals as [MachineJournal];
    const go = () => {
      const from = this.#oracle.destinationsOf(journal).get('upstream') as MachineJournal;
      if (from === to || !this.#begins(number)(0, 'move')) return;
      this.#operator.move(journal, to, move, from.machine);
    };
    const inMs = atMs - this.#world.nowMs;
    if (inMs >= 0) this.#world.plan(inMs, `an operator moves ${machine.name} to ${to.name}`, go, null);
  }

  #planErase(machine: Machine, erase: PlannedErase): void {
    const { number, atMs } = erase;
    const [journal] = machine.journals as [MachineJournal];
    const begins = (chance: Chance) => {
      const kind = chance.oneOf(['crash', 'power cut', 'torn write', 'disk full'] as const);
      const fault = {
        number: number + STRUCK_ERASE,
        kind,
        where: 'calls',
        at: chance.integer(1, ERASE_CALLS),
      } as const;
      if (chance.happens(0.7) && this.#begins(fault.number)(0, kind))
        strikeStart(machine, { ...fault, chance }, this.#targets());
    };
    const go = () => {
      if (this.#begins(number)(0, 'erase')) this.#operator.erase(journal, erase, begins);
    };
    const inMs = atMs - this.#world.nowMs;
    if (inMs >= 0) this.#world.plan(inMs, `an operator erases events of ${machine.name}`, go, null);
  }

  #planLoss(machine: Machine, { number, atMs, seed }: PlannedLoss): void {
    const chance = new Chance(seed);
    const lose = () => {
      if (this.#begins(number)(0, 'sources lost')) this.#operator.loseSources(chance.oneOf(machine.journals), chance);
    };
    const inMs = atMs - this.#world.nowMs;
    if (inMs >= 0) this.#world.plan(inMs, `${machine.name} loses its file of sources`, lose, null);
  }

  #newClient(machine: Machine, access: Access, name: string): Client {
    const journal = machine.journalFor(new URL(access.base).pathname)!;
    const client = new Client(this.#world, this.#network, access, name, () => this.#oracle.viewOf(journal).edgeKeys());
    this.#clients.push(client);
    return client;
  }

  #addReader(machine: Machine, access: Access, name: string, clients: ReadonlySet<string> | undefined): void {
    const journal = machine.journalFor(new URL(access.base).pathname)!;
    const reader = new Reader(this.#world, this.#network, access, name, {
      mayBeGone: (first, last) => this.#oracle.viewOf(journal).mayBeGone(first, last),
      isLost: (first, last) => this.#oracle.viewOf(journal).mayHaveLost(first, last),
      breaks: (problem) => this.#oracle.breaks(`${journal.name} ${problem}`),
      restores: () => this.#oracle.restoresOf(journal),
    });
    if (clients?.has(name) ?? true) this.clientNames.push(name);
    else reader.isStopped = true;
    this.#readers.push(reader);
  }

  #machine(options: MachineOptions): Machine {
    const machine = new Machine(this.#world, this.#network, options, this);
    machine.disk.onWritten = (folder, name, bytes) => this.states.written(folder, name, bytes);
    const journalIn = (folder: string) => machine.journals.find((one) => one.folder === folder);
    machine.disk.onSynced = (folder, name) => {
      const journal = journalIn(folder);
      if (journal !== undefined && !machine.isMaintained) this.#oracle.synced(journal, name);
    };
    machine.disk.onCall = (folder, call, name) => {
      const journal = journalIn(folder);
      if (journal === undefined) return;
      // What a repair removes is not retention's.
      if (call === 'create' && !machine.isMaintained) this.#oracle.viewOf(journal).creating(name);
      if (call === 'remove' && !machine.isMaintained) this.#oracle.removing(journal, name);
      if (call === 'rename') this.#oracle.renaming(journal, name);
    };
    this.#machines.push(machine);
    return machine;
  }

  #addClone(original: Machine, name: string, files: ReadonlyMap<string, Buffer>): Machine {
    const clone = this.#machine({ ...original.options, name });
    const [journal] = clone.journals as [MachineJournal];
    clone.disk.exchange(journal.folder, files);
    clone.sendTo(original.config.forwardTo);
    clone.wasCopied = true;
    original.wasCopied = true;
    this.#oracle.watchCopy(journal, original.journals[0]!);
    const [access] = accessesOf(clone) as [Access];
    this.#newClient(clone, access, `client-1-${name}`);
    clone.start();
    return clone;
  }

  #dropClone(clone: Machine): void {
    clone.isGone = true;
    clone.kill();
    for (const journal of clone.journals) this.#oracle.unwatch(journal);
    this.#machines.splice(this.#machines.indexOf(clone), 1);
    for (const client of this.#clients) if (client.link.endsWith(` to ${clone.name}`)) client.end();
  }

  #cutOff({ name }: Machine, ms: number): void {
    const ends = this.#oracle.links().map((link) => link.split(' to ') as [string, string]);
    const links = ends.filter((link) => link.includes(name)).map(([from, to]) => this.#network.link(from, to));
    const set = (isDown: boolean) => () => {
      for (const link of links) link.isDown = isDown;
    };
    set(true)();
    this.#world.plan(ms, 'links up', set(false), null);
  }

  #count(kind: string): void {
    this.faults[kind] = (this.faults[kind] ?? 0) + 1;
  }

  #restart(machine: Machine): void {
    const start = () => {
      if (machine.process === undefined) machine.start();
    };
    const waitMs = this.#world.chance(`restart ${machine.name} ${machine.starts}`).share() * RESTART_MS;
    this.#world.plan(waitMs, `the operator starts ${machine.name}`, start, null);
  }

  /** What the plan of faults can strike. */
  #names(): Names {
    const links = this.#oracle.links();
    const isPlain = (link: string) => this.#upstreams.has(link.split(' to ')[1]!);
    return {
      machines: this.#machines.map(({ name }) => name),
      upstreams: [...this.#upstreams.keys()],
      mayBeCopied: ['d0', 'd1'].filter((name) => !this.#hooks.has(name)),
      removing: ['d2'],
      clientLinks: [...this.#clients, ...this.#readers].map(({ link }) => link),
      hubLinks: links.filter((link) => !isPlain(link) && !this.#engines.has(link.split(' to ')[1]!)),
      plainLinks: links.filter(isPlain),
    };
  }

  /** Their numbers are after those of the strikes at starts. */
  #strikeSeldomFiles(machine: Machine): void {
    const first = FIRST_SELDOM * (1 + this.#machines.indexOf(machine));
    strikeSeldomFiles(machine, this.#begins(first), this.#targets());
  }

  /** @returns whether a strike that is not planned happens, by its number and kind */
  #begins(first: number): (number: number, kind: FaultKind) => boolean {
    return (number, kind) => {
      const mayStrike = this.#mayStrike(first + number, kind) && !isLeftOut(kind, this.#world.seed);
      if (mayStrike && !this.#isHealing) this.#noteStrike(first + number, kind);
      return mayStrike && !this.#isHealing;
    };
  }

  #noteStrike(fault: number, kind: FaultKind): void {
    this.struck.push([fault, kind, Math.floor(this.#world.nowMs)]);
  }

  #mayStrike(fault: number, kind: FaultKind): boolean {
    return (this.#only?.has(fault) ?? true) && this.#ends(fault, kind, this.#world.steps);
  }

  #targets(): Targets {
    return {
      world: this.#world,
      network: this.#network,
      machines: new Map(this.#machines.map((machine) => [machine.name, machine])),
      upstreams: this.#alarmed
        ? new Map<string, Pick<Upstream, 'faults' | 'wants'>>([...this.#upstreams, [ALARMED, this.#alarmed]])
        : this.#upstreams,
      engines: this.#engines,
      forwards: this.#oracle.links(),
      operator: this.#operator,
      reorders: this.#reorders,
      count: (kind) => this.#count(kind),
      died: (machine) => this.#restart(machine),
    };
  }

  #strike(fault: PlannedFault): void {
    if (this.#isHealing || !this.#mayStrike(fault.number, fault.kind)) return;
    this.#noteStrike(fault.number, fault.kind);
    strike(fault, this.#targets());
  }
}

/** @returns what each of the two clients of a service reports to */
function accessesOf({ name, config }: Machine): Access[] {
  if (config.deployments === '') return [1, 2].map(() => ({ base: `http://${name}`, token: undefined }));
  return deploymentsForClients().map((deployment) => ({
    base: `http://${name}/${deployment}`,
    token: { name: config.tokenHeader, token: tokenOf(deployment) },
  }));
}
