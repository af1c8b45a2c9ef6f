/** What each fault does, and to whom. A fault is counted when it has really happened. */

import { Chance, Strikes } from '../world/chance.ts';
import type { Link, Network } from '../world/network.ts';
import { type Call, type Fault, type FileRemains, systemError } from '../world/simulated-disk.ts';
import type { World } from '../world/time.ts';
import type { Engine } from './engines/engine.ts';
import type { FaultKind, PlannedFault, StartFault } from './faults.ts';
import { disturbLink } from './links.ts';
import type { Machine } from './machine.ts';
import type { FaultOf, PowerCut } from './machine-disk.ts';
import type { Operator } from './operator/operator.ts';
import type { Upstream } from './upstream.ts';

/** What faults can strike. */
export interface Targets {
  readonly world: World;
  readonly network: Network;
  readonly machines: ReadonlyMap<string, Machine>;
  readonly upstreams: ReadonlyMap<string, Pick<Upstream, 'faults' | 'wants'>>;
  readonly engines: ReadonlyMap<string, Pick<Engine, 'faults'>>;
  /** The links on which events are forwarded: `d0 to hub`. */
  readonly forwards: readonly string[];
  /** Whether a disk may write the sectors of one write in any order. */
  readonly reorders: boolean;
  readonly operator: Pick<Operator, 'strike'>;
  /** Called when a fault has happened. */
  readonly count: (kind: FaultKind) => void;
  /** Called after a process has ended without its will: an operator starts it again. */
  readonly died: (machine: Machine) => void;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const TO_1970_MS = -Date.UTC(2026, 0, 1);
const SLOW = [10, 100, 1_000];
const CLIENTS = ['client-1', 'client-2'];
/** The mean time for which a start finds its disk full: then retention makes space before the journal is open. */
const FULL_MS = 1_500;
/** Retention has looked by then. */
const SILENT_MS = 8_000;
/** Share of the refused writes after which no report comes for a while. */
const SILENCED = 0.3;
/** The calls that a crash or power cut strikes in the middle of: those that change what is on the disk. */
const CHANGES: readonly Call[] = ['write', 'sync', 'rename', 'remove'];
/** Those of them that are struck for files that are seldom written. */
const SELDOM: readonly Call[] = [...CHANGES, 'create', 'replace', 'truncate', 'syncFolder'];
/** Those that a full disk refuses. */
const GROWS: readonly Call[] = ['write', 'create', 'replace'];
/** The calls that a read error strikes. */
const READS: readonly Call[] = ['prepare', 'list', 'size', 'open', 'read'];

/** The files of most calls. */
const OFTEN = /^(events-\d{20}\.jsonl|forward-.*\.(cursor|state))$/;
const LETTERS = /^dead-/;
const MARKERS = /^events-.*\.removed$/;
const LINES = /^events-/;
const CURSORS = /\.cursor$/;

/** Begins a fault. What has a length ends by itself. */
export function strike(fault: PlannedFault, targets: Targets): void {
  const chance = new Chance(fault.seed);
  const { kind, target, lengthMs } = fault;
  const machine = targets.machines.get(target);
  switch (kind) {
    case 'crash':
    case 'power cut':
      // Disk and network are idle for most of the time, so that most are armed for a call or for a request.
      chance.oneOf([endInCall, endInCall, endInRequest, end])(machine!, kind, chance, targets);
      break;
    case 'stop':
      stop(machine!, chance, targets);
      break;
    case 'torn write':
      tearWrite(machine!, { at: chance.integer(1, 8) }, chance, targets);
      break;
    case 'write error':
    case 'sync error':
    case 'read error':
    case 'short write':
      if (kind === 'read error' && chance.happens(0.3)) troubleDisk(machine!, kind, lengthMs, chance, targets);
      else
        failOneCall(machine!, { kind, at: chance.integer(1, 4), ...filesOf(machine!, kind, chance) }, chance, targets);
      break;
    case 'disk full':
    case 'slow disk':
      troubleDisk(machine!, kind, lengthMs, chance, targets);
      break;
    case 'clock jump':
      jumpClock(machine!, chance, targets);
      break;
    case 'upstream error': {
      // Many fill the dead letters, which engines do not: three for each.
      const engine = targets.engines.get(target);
      const isShort = engine !== undefined || chance.happens(0.5);
      const errors = isShort ? (['before', 'after', 'none'] as const) : (['before', 'after', 'after', 'none'] as const);
      for (let left = isShort ? chance.integer(1, 5) : chance.integer(10, 90); left > 0; left -= 1)
        (engine ?? targets.upstreams.get(target)!).faults.push(chance.oneOf(errors));
      break;
    }
    case 'restore device':
    case 'restore hub':
    case 'clone':
    case 'repair':
      targets.operator.strike(kind, machine!, chance);
      break;
    default:
      disturbLink(kind, fault, chance, targets);
  }
}

/** A crash or a power cut in the first calls of a start, or in its first writes; or one of its first calls fails. */
export function strikeStart(machine: Machine, fault: StartFault, targets: Targets): void {
  const { kind, where, at, chance } = fault;
  const { process } = machine;
  let left = at;
  const isOver = () => machine.process !== process;
  if (kind === 'disk full') {
    troubleDisk(machine, kind, chance.exponentialMs(FULL_MS), chance, targets);
    return;
  }
  if (kind === 'torn write') {
    tearWrite(machine, { at: 1, isIt: (name) => LINES.test(name), isOver }, chance, targets);
    return;
  }
  if (kind !== 'crash' && kind !== 'power cut') {
    // What a start reads of dead letters comes after its first calls.
    const isOfLetters = kind === 'read error' && where === 'writes';
    const early = Math.ceil(at ** 2 / 120); // most often the first one
    failOneCall(machine, isOfLetters ? { kind, at, files: LETTERS } : { kind, at: early }, chance, targets);
    return;
  }
  const isIt = (call: Call) => {
    if (where === 'calls' || call === 'write') left -= 1;
    return left === 0;
  };
  arm(machine, chance, targets, kind, isIt, isOver);
}

/** Between two strikes at calls of one kind, for files of one kind: fewer once there were many. */
const SELDOM_CALLS = 30;
/** For dead letters, markers of removed events and syncs of folders, of which there are few of one kind. */
const FEW_CALLS = 8;
/** For syncs of cursors, always: which request is in flight is different each time. */
const CURSOR_CALLS = 60;

/** Numbers of strikes at calls of all kinds are below. */
const SELDOM_MAX = 90_000;

/**
 * Strikes calls for files that are seldom written, from now on: what is done with them has an order. Each kind of call has a stream of
 * chance, and numbers, of its own, so that leaving one strike out changes little of the others.
 * @param begins asked about each strike by its number, from 1
 */
export function strikeSeldomFiles(
  machine: Machine,
  begins: (number: number, kind: FaultKind) => boolean,
  targets: Targets,
): void {
  const made = new Map<string, Strikes>();
  machine.disk.faults.add((call, name, bytes, folder) => {
    const isLetter = LETTERS.test(name);
    const isCursor = call === 'sync' && CURSORS.test(name);
    const isSeldom = !OFTEN.test(name) && (SELDOM.includes(call) || (isLetter && call === 'read'));
    if (!isSeldom && !isCursor) return undefined;
    const isOfFolder = call === 'syncFolder';
    const of = isOfFolder ? machine.disk.in(folder).unsyncedNames() : [name];
    const what = `${call} ${[...new Set(of.map((one) => one.replace(/\d+/g, '')))].sort()}`;
    const fewest = isLetter || isOfFolder || MARKERS.test(name) ? FEW_CALLS : SELDOM_CALLS;
    const ofCalls = () => targets.world.chance(`seldom ${machine.name} ${what}`);
    const strikes =
      made.get(what) ??
      new Strikes(what, ofCalls(), (count) => (isCursor ? CURSOR_CALLS : 2 * count + fewest), SELDOM_MAX);
    made.set(what, strikes);
    const struck = strikes.next();
    if (struck === undefined) return undefined;
    const { number, chance } = struck;
    const error = call === 'read' ? 'read error' : call.startsWith('sync') ? 'sync error' : 'write error';
    const cut = call === 'write' && bytes > 1 ? 'torn write' : 'power cut';
    const kind = call === 'read' ? error : chance.oneOf(['crash', cut, error] as const);
    if (!begins(number, kind)) return undefined;
    if (kind === 'torn write') return tearNow(machine, { name, bytes, folder }, chance, targets);
    return kind === 'crash' || kind === 'power cut'
      ? endNow(machine, call, kind, chance, targets)
      : failure(machine, kind, name, chance, targets);
  });
}

/** Far, or for hours or days; with nothing reported for a while after half of the jumps: then all that a service has is old. */
function jumpClock(machine: Machine, chance: Chance, { world, network, count }: Targets): void {
  count('clock jump');
  const { clock, config, name } = machine;
  const days = chance.integer(-50, 50);
  // Within a retention, events of before and after a jump are there together.
  const hours = chance.integer(-24, 24) * chance.oneOf([1, config.retainDays ?? 7]);
  const far = [0, days * DAY_MS, Math.abs(days) * DAY_MS, TO_1970_MS];
  // No system takes a time before 1970.
  clock.offsetMs = chance.happens(0.5) ? Math.max(TO_1970_MS, clock.offsetMs + hours * HOUR_MS) : chance.oneOf(far);
  if (chance.happens(0.5)) return;
  silence(
    CLIENTS.map((client) => network.link(`${client}-${name}`, name)),
    SILENT_MS,
    world,
  );
}

/** For some seconds no report comes: the service looks by itself what its disk takes. */
export function silenceAll({ name }: Machine, chance: Chance, { world, network }: Targets): void {
  silence(network.linksTo(name), chance.exponentialMs(SILENT_MS), world);
}

function silence(links: readonly Link[], ms: number, world: World): void {
  for (const link of links) link.isDown = true;
  const up = () => {
    for (const link of links) link.isDown = false;
  };
  world.plan(ms, 'links of clients up', up, null);
}

/**
 * At once, or when a file is begun: then the service stops while retention works. One that removes what it has not sent is behind until
 * then: all that it has left is about to be named.
 */
function stop(machine: Machine, chance: Chance, targets: Targets): void {
  const { world, network, forwards } = targets;
  const removes = machine.config.whenBehind === 'remove';
  const links = forwards
    .filter((link) => removes && link.startsWith(`${machine.name} to `))
    .map((link) => network.link(machine.name, link.split(' to ')[1]!));
  for (const link of links) link.isDown = true;
  const now = () => {
    stopNow(machine, targets);
    for (const link of links) link.isDown = false;
  };
  const { faults } = machine.disk;
  let left = removes ? chance.integer(1, 10) : 1;
  const fault: FaultOf = (call, name) => {
    if (call !== 'create' || !name.startsWith('events-')) return undefined;
    if (name.endsWith('.jsonl')) left -= 1;
    if (left > 0) return undefined;
    faults.delete(fault);
    world.plan(0, 'stop', now, null);
    return undefined;
  };
  if (!removes && chance.happens(0.5)) now();
  else faults.add(fault);
}

function stopNow(machine: Machine, { count }: Targets): void {
  if (machine.service !== undefined) count('stop');
  machine.stop();
}

function endInCall(machine: Machine, kind: 'crash' | 'power cut', chance: Chance, targets: Targets): void {
  const wanted = chance.oneOf(CHANGES);
  let left = chance.integer(1, wanted === 'write' || wanted === 'sync' ? 8 : 2);
  const isIt = (call: Call) => {
    if (call === wanted) left -= 1;
    return left === 0;
  };
  arm(machine, chance, targets, kind, isIt, () => false);
}

/** While a request from the machine, or to it, is on its way or is answered. */
function endInRequest(machine: Machine, kind: 'crash' | 'power cut', chance: Chance, targets: Targets): void {
  const { onSent } = targets.network;
  const isFrom = chance.happens(0.7) && [...targets.forwards].some((link) => link.startsWith(`${machine.name} to `));
  let left = chance.integer(1, 8);
  const sent = (from: string, host: string) => {
    if ((isFrom ? from : host) === machine.name) left -= 1;
    if (left > 0) return;
    onSent.delete(sent);
    targets.world.plan(chance.exponentialMs(8), kind, () => end(machine, kind, chance, targets), null);
  };
  onSent.add(sent);
}

/** The first call that `isIt` chooses takes effect at once, or only if the system lives longer than the process; then the end comes. */
function arm(
  machine: Machine,
  chance: Chance,
  targets: Targets,
  kind: 'crash' | 'power cut',
  isIt: (call: Call) => boolean,
  isOver: () => boolean,
): void {
  const { faults } = machine.disk;
  const fault: FaultOf = (call) => {
    const isDue = !isOver() && isIt(call);
    if (isDue || isOver()) faults.delete(fault);
    return isDue ? endNow(machine, call, kind, chance, targets) : undefined;
  };
  faults.add(fault);
}

/** @returns what happens in place of the call in whose middle the end comes */
function endNow(machine: Machine, call: Call, kind: 'crash' | 'power cut', chance: Chance, targets: Targets): Fault {
  targets.world.plan(0, kind, () => end(machine, kind, chance, targets), null);
  const isInEffect = chance.happens(0.5);
  // The next process reads what the crash left without a sync, and the power cut takes it.
  if (kind === 'crash' && chance.happens(0.4)) cutPowerLater(machine, chance, targets);
  machine.disk.isAbandoned = kind === 'crash' && chance.happens(0.7);
  if (machine.disk.isAbandoned) return call.startsWith('sync') ? new Promise(() => {}) : Promise.resolve();
  return isInEffect ? Promise.resolve() : undefined;
}

/** @param of what the power cut leaves of a file, where that is given */
export function end(
  machine: Machine,
  kind: 'crash' | 'power cut' | 'torn write',
  chance: Chance,
  { count, died, reorders }: Targets,
  cut: PowerCut | undefined = kind === 'power cut' ? powerCut(chance, reorders) : undefined,
): void {
  if (machine.process === undefined) return;
  count(kind);
  if (cut === undefined) machine.kill();
  else machine.cutPower(cut);
  died(machine);
}

function powerCut(chance: Chance, reorders: boolean): PowerCut {
  return { entries: chance.oneOf([0, chance.share(), 1]), of: () => remainsOfFile(chance, reorders) };
}

function remainsOfFile(chance: Chance, reorders: boolean): FileRemains {
  return {
    share: chance.oneOf([0, chance.share(), 1]),
    behind: chance.oneOf(['nothing', 'zeros', 'garbage'] as const),
    hasSector: reorders && chance.happens(0.5) ? () => chance.happens(0.5) : undefined,
  };
}

/** A write of which only the beginning arrives, since the process is killed or the power goes in the middle of it. */
function tearWrite(
  machine: Machine,
  {
    at,
    isIt = () => true,
    isOver = () => false,
  }: { at: number; isIt?: (name: string) => boolean; isOver?: () => boolean },
  chance: Chance,
  targets: Targets,
): void {
  const { faults } = machine.disk;
  let left = at;
  const fault: FaultOf = (call, name, bytes, folder) => {
    if (isOver()) faults.delete(fault);
    if (isOver() || call !== 'write' || bytes < 2 || !isIt(name)) return undefined;
    left -= 1;
    if (left > 0) return undefined;
    faults.delete(fault);
    return tearNow(machine, { name, bytes, folder }, chance, targets);
  };
  faults.add(fault);
}

/** @returns what happens in place of the write */
function tearNow(
  machine: Machine,
  { name, bytes, folder }: { readonly name: string; readonly bytes: number; readonly folder: string },
  chance: Chance,
  targets: Targets,
): Fault {
  const isKilled = chance.happens(0.5);
  const written = chance.integer(1, bytes - 1);
  const tear = () => {
    const unsynced = machine.disk.in(folder).unsyncedBytes(name);
    const torn: FileRemains = {
      share: (unsynced - bytes + written + 0.5) / unsynced,
      behind: chance.oneOf(['nothing', 'zeros', 'garbage'] as const),
    };
    const others = powerCut(chance, targets.reorders);
    const of: PowerCut['of'] = (other, where) => (other === name && where === folder ? torn : others.of(other, where));
    end(machine, 'torn write', chance, targets, isKilled ? undefined : { ...others, of });
  };
  targets.world.plan(0, 'torn write', tear, null);
  return isKilled ? { shortBy: bytes - written } : Promise.resolve();
}

/** A hosted journal whose lines cannot be synced fails alone, and is opened again by the same process. */
function filesOf({ journals }: Machine, kind: FaultKind, chance: Chance): Pick<FailingCall, 'files'> {
  if (kind === 'sync error' && journals.length > 1) return { files: LINES };
  return chance.oneOf([{}, {}, { files: LINES }, { files: CURSORS }]);
}

interface FailingCall {
  readonly kind: 'write error' | 'sync error' | 'read error' | 'short write';
  /** Which call of its kind fails: 1 is the next one. */
  readonly at: number;
  /** Those whose calls are counted; chosen by chance if it is undefined. */
  readonly files?: RegExp;
}

function failOneCall(machine: Machine, { kind, at, files }: FailingCall, chance: Chance, targets: Targets): void {
  const { disk } = machine;
  const syncs = files === undefined ? chance.oneOf(['sync', 'syncFolder'] as const) : 'sync';
  const wanted: readonly Call[] = kind === 'sync error' ? [syncs] : kind === 'read error' ? READS : ['write'];
  // Else nearly all would be those of lines and cursors.
  const isRare = chance.happens(0.3);
  const isCounted = (name: string) => files?.test(name) ?? !(isRare && OFTEN.test(name));
  let left = at;
  const fault: FaultOf = (call, name, bytes) => {
    if (wanted.includes(call) && isCounted(name)) left -= 1;
    if (left > 0) return undefined;
    disk.faults.delete(fault);
    if (kind !== 'short write') return failure(machine, kind, name, chance, targets);
    targets.count(kind);
    return { shortBy: chance.integer(1, Math.max(1, bytes)) };
  };
  disk.faults.add(fault);
}

function failure(machine: Machine, kind: FaultKind, name: string, chance: Chance, targets: Targets): Error {
  targets.count(kind);
  if (kind === 'write error' && chance.happens(SILENCED)) silenceAll(machine, chance, targets);
  const isOfDestination = CURSORS.test(name) || LETTERS.test(name);
  // What an answer means is not durable then, and has to be known at the next start.
  if (isOfDestination && chance.happens(0.3))
    targets.world.plan(chance.exponentialMs(20), 'stop', () => stopNow(machine, targets), null);
  else if (kind === 'sync error' && chance.happens(isOfDestination ? 0.8 : 0.4))
    endAfterSync(machine, name, chance, targets);
  // A disk without space for one more file may have an older one renamed.
  return systemError(kind === 'write error' && chance.happens(MARKERS.test(name) ? 1 : 0.3) ? 'ENOSPC' : 'EIO', name);
}

/**
 * A power cut takes what a failed sync forgot, also if the next process has read it from the cache: some time later, or while that
 * process first writes to the same file.
 */
function endAfterSync(machine: Machine, name: string, chance: Chance, targets: Targets): void {
  const isLater = chance.happens(0.5);
  const crash = () => {
    end(machine, 'crash', chance, targets);
    const next = machine.starts + 1;
    const isOver = () => machine.starts > next;
    if (!isLater) tearWrite(machine, { at: 1, isIt: (file) => file === name, isOver }, chance, targets);
  };
  targets.world.plan(chance.exponentialMs(20), 'crash', crash, null);
  if (isLater) cutPowerLater(machine, chance, targets);
}

function cutPowerLater(machine: Machine, chance: Chance, targets: Targets): void {
  const cut = () => end(machine, 'power cut', chance, targets);
  targets.world.plan(chance.exponentialMs(3_000), 'power cut', cut, null);
}

/** For some time it is full, slow, or cannot be read where lines are. */
function troubleDisk(
  machine: Machine,
  kind: 'disk full' | 'slow disk' | 'read error',
  lengthMs: number,
  chance: Chance,
  targets: Targets,
): void {
  const { disk } = machine;
  const { world, count } = targets;
  let isCounted = false;
  const fails: FaultOf = (call, name) => {
    const isStruck = kind === 'disk full' ? GROWS.includes(call) : call === 'read' && LINES.test(name);
    if (!isStruck) return undefined;
    if (!isCounted) count(kind);
    if (!isCounted && kind === 'disk full' && chance.happens(SILENCED)) silenceAll(machine, chance, targets);
    isCounted = true;
    return systemError(kind === 'disk full' ? 'ENOSPC' : 'EIO', name);
  };
  if (kind === 'read error') disk.isUnreadable = true;
  if (kind !== 'slow disk') disk.faults.add(fails);
  else {
    count(kind);
    disk.slowness = chance.oneOf(SLOW);
  }
  const over = () => {
    if (kind === 'slow disk') disk.slowness = 1;
    else disk.faults.delete(fails);
    if (kind === 'read error') disk.isUnreadable = false;
  };
  world.plan(lengthMs, `end of ${kind}`, over, null);
}
