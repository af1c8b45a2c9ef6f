/**
 * The operator: does what the handbook (`bin/handbook`) says about backups, restores, copies, repairs and stopped forwarders, with
 * the functions of the commands. Locks, arguments and texts of the commands are not run. What needs the service stopped is the
 * `work` of a machine, in place of its next start; what may run beside it is a process of its own.
 */

import { limits } from '../../../src/config/limits.ts';
import type { Disk } from '../../../src/journal/disk.ts';
import { backUp, OtherJournalError } from '../../../src/journal/look/backup.ts';
import { carryOut, planRepair, sideName } from '../../../src/journal/look/repair.ts';
import { verify } from '../../../src/journal/look/verify.ts';
import { markCleanStop } from '../../../src/journal/open/clean-stop.ts';
import { DamagedError, recover } from '../../../src/journal/open/recovery.ts';
import { createNotices } from '../../../src/telemetry/log.ts';
import { upTo } from '../../support/tools.ts';
import { Chance } from '../../world/chance.ts';
import { failingCall, SimulatedDisk } from '../../world/simulated-disk.ts';
import { Incarnation, type World } from '../../world/time.ts';
import type { OperatorKind, WayKind } from '../faults.ts';
import type { Machine, MachineJournal, Work } from '../machine.ts';
import { firstSeqOf, JournalView, markedIn } from '../oracle/journal-view.ts';
import { type Oracle, SNAPSHOT } from '../oracle/oracle.ts';
import type { PlannedErase, PlannedMove } from '../services.ts';
import { checkBackup, checkLetters, checkRepaired, openLetters } from './checks.ts';
import {
  breakJournal,
  changedMarker,
  changeKeys,
  type Damage,
  damageCursor,
  type MissingFile,
  refusedCopy,
} from './damage.ts';
import { eraseWork } from './erasing.ts';
import { filesOf } from './folder.ts';
import { WaysOut } from './ways-out.ts';

export interface OperatorParts {
  readonly world: World;
  readonly oracle: Oracle;
  /** Those that run now. */
  readonly machines: readonly Machine[];
  readonly count: (kind: OperatorKind | WayKind) => void;
  /** Starts a machine in a while. */
  readonly restart: (machine: Machine) => void;
  /** Lets a copy of a folder run beside its original, with a client of its own. */
  readonly addClone: (original: Machine, name: string, files: ReadonlyMap<string, Buffer>) => Machine;
  readonly dropClone: (clone: Machine) => void;
  /** Nothing is forwarded from a machine, or to it, for so long. */
  readonly cutOff: (machine: Machine, ms: number) => void;
}

/** What is in the folder of a backup, or of a plain copy. */
type Copy = ReadonlyMap<string, Buffer>;

/** The folder that the runs of `backup` for a machine bring up to date. */
interface Backup {
  disk: SimulatedDisk;
  readonly view: JournalView;
  /** The folder of the machine was restored or repaired since it began: then it may be a backup of another journal. */
  isStale: boolean;
}

/** Between two looks of the operator. */
const LOOK_MS = 1_000;
const COPIES_MAX = 4;
/** The mean time that a clone runs. */
const CLONE_MS = 15_000;
const TRIES_MAX = 20;
/** The mean time from a copy to the restore that it was made for. */
const AFTER_COPY_MS = 1_500;
/** The mean time from a repair until a file is found that it lacked. */
const FOUND_MS = 8_000;
/** The mean time for which what was restored reaches no other service, and what was recorded before is recorded again as another event. */
const CUT_OFF_MS = 8_000;

export class Operator {
  readonly #parts: OperatorParts;
  readonly #chance: Chance;
  readonly #waysOut: WaysOut;
  readonly #copies = new Map<MachineJournal, Copy[]>();
  readonly #backups = new Map<MachineJournal, Backup>();
  /** The runs of `backup` that have not ended. */
  readonly #running = new Map<MachineJournal, Incarnation>();
  readonly #damages = new Map<MachineJournal, Damage>();
  readonly #clones = new Set<Machine>();
  #runs = 0;
  #tries = 0;

  constructor(parts: OperatorParts) {
    this.#parts = parts;
    this.#chance = parts.world.chance('operator');
    this.#waysOut = new WaysOut(parts, this.#chance, (journal, work) => this.#stopFor(journal, this.#chance, work));
    const look = () => {
      this.#look();
      parts.world.plan(LOOK_MS, 'the operator looks', look, null);
    };
    parts.world.plan(LOOK_MS, 'the operator looks', look, null);
  }

  strike(kind: OperatorKind, machine: Machine, chance: Chance): void {
    if (!this.#isFree(machine)) return;
    const journal = chance.oneOf(machine.journals);
    if (kind === 'clone') this.#clone(machine, chance);
    else if (kind === 'repair') this.#break(journal, chance);
    else if (kind === 'restore hub' && chance.happens(0.25))
      this.#restore(journal, kind, chance, new Map()); // nothing of it is left
    else if (chance.happens(0.5)) {
      // A copy that lacks only the last events.
      this.#keep(journal, plainCopyOf(journal.disk));
      const restore = () =>
        this.#isFree(machine) && this.#restore(journal, kind, chance, this.#copies.get(journal)?.at(-1));
      this.#parts.world.plan(chance.exponentialMs(AFTER_COPY_MS), 'restore', restore, null);
    } else if (this.#copies.has(journal))
      this.#restore(journal, kind, chance, chance.oneOf(this.#copies.get(journal)!));
  }

  /**
   * A device gets another hub. In half of the cases the one that it leaves cannot be reached for a while, with events that it has not
   * sent, and in a quarter it is put back.
   */
  move(journal: MachineJournal, to: MachineJournal, { url, seed }: PlannedMove, left: Machine): void {
    const { oracle, count, cutOff } = this.#parts;
    const chance = new Chance(seed);
    if (!this.#isFree(journal.machine)) return;
    if (chance.happens(0.5)) cutOff(left, chance.exponentialMs(CUT_OFF_MS));
    if (chance.happens(0.25)) this.strike('restore hub', left, chance);
    this.#stopFor(journal, chance, async () => {
      journal.machine.sendTo(url);
      oracle.moves(journal, 'upstream', to);
      count('move');
    });
  }

  /** A person deletes what a hub has of others, but for their events, while it is down. */
  loseSources(journal: MachineJournal, chance: Chance): void {
    const { oracle, count } = this.#parts;
    const { machine, folder } = journal;
    if (!this.#isFree(machine)) return;
    this.#stopFor(journal, chance, async () => {
      const files = filesOf(journal.disk);
      if (!files.delete(SNAPSHOT)) return;
      oracle.losesSources(journal);
      machine.disk.exchange(folder, files);
      count('sources lost');
    });
  }

  /** Events are erased. What a repair has put aside is in a folder of its own, which the simulated disk does not list. */
  erase(journal: MachineJournal, { seed }: PlannedErase, begins: (chance: Chance) => void): void {
    const { oracle, count } = this.#parts;
    const chance = new Chance(seed);
    if (!this.#isFree(journal.machine) || oracle.viewOf(journal).wasBroken) return;
    const done = () => count('erase');
    this.#stopFor(
      journal,
      chance,
      eraseWork(oracle, journal, chance, () => begins(chance), done),
    );
  }

  /** Faults end: no copy runs beside its original any more. */
  heal(): void {
    for (const clone of [...this.#clones]) this.#dropClone(clone);
  }

  /** Whether an operator still has something to do. */
  get isBusy(): boolean {
    const { machines, oracle } = this.#parts;
    const isErasing = ({ journals }: Machine) => journals.some((journal) => oracle.isErasing(journal));
    return this.#damages.size > 0 || machines.some((machine) => machine.work !== undefined || isErasing(machine));
  }

  /** @returns whether the start was right to refuse: the journal was broken on purpose. Then it is repaired before the next one */
  refused(machine: Machine): boolean {
    const [journal] = machine.journals as [MachineJournal];
    const damage = this.#damages.get(journal);
    if (damage === undefined) return false;
    machine.work = (openDisk) => this.#repair(journal, damage, openDisk(journal.folder));
    return true;
  }

  /** @param error of an operator's work, which may be that of a disk, or of a short write: it is done again */
  worked(machine: Machine, error: Error | undefined): void {
    // However long the disk is full, or cannot be read.
    if (error?.message.startsWith('ENOSPC: simulated,')) return;
    if (machine.disk.isUnreadable && error?.message.startsWith('EIO: simulated,')) return;
    this.#tries = error === undefined ? 0 : this.#tries + 1;
    if (
      error === undefined ||
      (/simulated,|accepts no more bytes|bytes were written/.test(error.message) && this.#tries < TRIES_MAX)
    )
      return;
    this.#parts.oracle.breaks(`an operator could not mend ${machine.name}: ${error.message}`);
  }

  /** Before a start: another one, of a copy of the folder, perhaps after a clean stop, with damage, which it refuses. */
  async starting(journal: MachineJournal): Promise<void> {
    const { world } = this.#parts;
    const chance = world.chance(`damage of ${journal.name} ${journal.machine.starts}`);
    if (chance.happens(0.3)) changeKeys(journal.disk, chance);
    if (this.#damages.has(journal)) return;
    if (chance.happens(0.03)) this.#parts.oracle.losesCursor(journal, () => damageCursor(journal.disk, chance));
    const silent = createNotices('error', false, () => {});
    const folder = journal.disk.afterCrash();
    const opened = (disk: Disk) => recover(disk, silent, limits).catch((error: Error) => error);
    if (chance.happens(0.5)) {
      const end = await opened(folder);
      if (end instanceof Error) return; // the start itself says more
      await markCleanStop(folder, { ...end, file: end.file.name });
      if (chance.happens(0.2)) {
        const marker = changedMarker(folder);
        const started = await opened(marker);
        if (started instanceof Error)
          this.#parts.oracle.breaks(`a start of ${journal.name} believes a damaged marker: ${started.message}`);
        return;
      }
    }
    const copy = refusedCopy(folder, chance);
    if (copy === undefined || (await opened(copy)) instanceof DamagedError) return;
    this.#parts.oracle.breaks(`a start of ${journal.name} takes a copy with damage`);
  }

  #look(): void {
    const { machines, oracle } = this.#parts;
    for (const machine of machines.filter(({ service }) => service !== undefined)) {
      for (const journal of machine.journals) {
        if (this.#damages.get(journal)?.isSeen)
          oracle.breaks(`${machine.name} starts on a journal that was damaged while it was down`);
        if (this.#isFree(machine)) this.#waysOut.look(journal);
        // "The next start finishes it."
        else if (oracle.isErasing(journal) && machine.isListening) machine.stop();
      }
    }
    const kept = machines.filter((machine) => !this.#clones.has(machine) && this.#isFree(machine));
    if (kept.length === 0) return;
    const journal = this.#chance.oneOf(this.#chance.oneOf(kept).journals);
    if (this.#chance.happens(0.5)) this.#keep(journal, plainCopyOf(journal.disk));
    else this.#backUp(journal);
  }

  #isFree(machine: Machine): boolean {
    const isBusy = (journal: MachineJournal) => this.#damages.has(journal) || this.#parts.oracle.isErasing(journal);
    return machine.work === undefined && !machine.journals.some(isBusy);
  }

  #stopFor({ machine }: MachineJournal, chance: Chance, work: Work, cleanShare = 0.5): void {
    machine.work = work;
    if (machine.process === undefined) return;
    if (machine.service !== undefined && chance.happens(cleanShare)) machine.stop();
    else {
      machine.kill();
      this.#parts.restart(machine);
    }
  }

  #keep(journal: MachineJournal, copy: Copy): void {
    if (![...copy.keys()].some((name) => name.startsWith('events-'))) return;
    const copies = this.#copies.get(journal) ?? [];
    copies.push(copy);
    this.#copies.set(journal, copies.slice(-COPIES_MAX));
  }

  /** A run of `backup`, beside the service or without one. */
  #backUp(journal: MachineJournal): void {
    const { world, oracle } = this.#parts;
    const { machine, folder, name } = journal;
    // What only the cache of the system has after a crash is no part of the journal if the power goes then.
    const hasCrashed = () => {
      const isStopped = machine.process === undefined && (journal.disk.bytes('.stopped-cleanly')?.length ?? 0) > 0;
      return machine.durableIn(folder).kind === 'unsaid' && !isStopped;
    };
    if (hasCrashed()) return;
    const hung = this.#running.get(journal);
    hung?.end(); // it hangs, since the power went: here, or at the disk of the backup
    const backup = this.#backups.get(journal) ?? {
      disk: new SimulatedDisk(`/backup/${name}`),
      view: new JournalView(oracle.history, true),
      isStale: false,
    };
    this.#backups.set(journal, backup);
    const cut = { entries: this.#chance.share(), share: 0, behind: 'nothing' } as const;
    if (hung !== undefined) backup.disk = backup.disk.afterPowerCut(cut);
    if (this.#chance.happens(0.2)) backup.disk.fault = failingCall(this.#chance.integer(1, 40), 'power').fault;
    this.#runs += 1;
    const process = new Incarnation(world, `${name} backup ${this.#runs}`, machine.clock);
    this.#running.set(journal, process);
    const progress = { durable: async () => machine.durableIn(folder), more: async () => {} };
    const run = async () => {
      const { acknowledged: seqs, lines } = oracle.viewOf(journal);
      const acknowledged = [...seqs].map((seq) => lines.get(seq)!);
      const open = openLetters(oracle, journal);
      const erased = [...oracle.viewOf(journal).erasedTexts];
      try {
        const source = machine.disk.openFor(process, folder);
        const { isComplete } = await backUp({ source, target: backup.disk, progress, limits });
        const { findings } = await verify(backup.disk, limits);
        const damage = findings.find(({ decision }) => decision === 'refuse');
        if (damage !== undefined) oracle.breaks(`the backup of ${name} is damaged: ${damage.problem}`);
        if (isComplete && !backup.isStale) checkLetters(oracle, journal, backup.disk, open);
        // "The next `backup` takes these segments again."
        const still = isComplete && !backup.isStale && oracle.viewOf(journal).saysStill(backup.disk, erased);
        if (still) oracle.breaks(`the backup of ${name}: ${still}`);
        if (!hasCrashed() && (!isComplete || checkBackup(oracle, journal, backup, acknowledged)))
          this.#keep(journal, filesOf(backup.disk));
        else this.#backups.delete(journal);
      } catch (error) {
        if (error instanceof OtherJournalError && backup.isStale) this.#backups.delete(journal);
        else if (!/simulated,/.test((error as Error).message))
          oracle.breaks(`the backup of ${name} failed: ${(error as Error).message}`);
      }
      this.#running.delete(journal);
    };
    world.plan(0, 'backup', () => void run(), process);
  }

  /** The folder of a backup no longer goes with its journal. */
  #endBackups(journal: MachineJournal): void {
    this.#running.get(journal)?.end();
    this.#running.delete(journal);
    const backup = this.#backups.get(journal);
    if (backup !== undefined) backup.isStale = true;
  }

  #restore(journal: MachineJournal, kind: OperatorKind, chance: Chance, copy: Copy | undefined): void {
    const { oracle, count, cutOff } = this.#parts;
    const { machine, folder } = journal;
    if (copy === undefined) return;
    const copies = this.#copies.get(journal) ?? [];
    const cutOffMs = chance.happens(0.8) ? chance.exponentialMs(CUT_OFF_MS) : 0;
    let isDone = false;
    this.#stopFor(journal, chance, async (openDisk) => {
      if (!isDone) {
        this.#endBackups(journal);
        oracle.restored(journal, () => machine.disk.exchange(folder, copy));
        copies.splice(copies.indexOf(copy) + 1); // they are of what is gone now
        cutOff(machine, cutOffMs);
        count(kind);
      }
      isDone = true;
      if (copy.size === 0) return;
      const { findings } = await verify(openDisk(folder), limits);
      const damage = findings.find(({ decision }) => decision === 'refuse');
      if (damage !== undefined) oracle.breaks(`a copy of ${journal.name} is damaged: ${damage.problem}`);
      if (machine.options.moves) await this.#waysOut.renew(journal, openDisk(folder));
    });
  }

  /** A person breaks the journal while the process is down. */
  #break(journal: MachineJournal, chance: Chance): void {
    const { oracle } = this.#parts;
    const { machine, folder } = journal;
    const work: Work = async (openDisk) => {
      const damage = this.#damages.get(journal) ?? breakJournal(journal.disk, chance);
      if (damage === undefined) return;
      if (!this.#damages.has(journal)) {
        this.#endBackups(journal);
        oracle.checkAcknowledged(journal);
        machine.disk.exchange(folder, damage.files);
        oracle.mayLose(journal, damage.seqs);
        this.#damages.set(journal, damage);
      }
      // A hosted service starts, and only the deployment cannot be opened.
      if (!damage.isSeen || machine.journals.length > 1) await this.#repair(journal, damage, openDisk(folder));
    };
    this.#stopFor(journal, chance, work, 0.2); // a clean stop notes what a hub has of others
  }

  /** `assetlog verify` and `assetlog repair --yes`. A repair that was interrupted is run again. */
  async #repair(journal: MachineJournal, damage: Damage, disk: Disk): Promise<void> {
    const { oracle, count } = this.#parts;
    const verdict = await verify(disk, limits);
    const plan = await planRepair(disk, verdict, limits);
    await carryOut(disk, plan, sideName(await disk.list(), new Date()), '{}\n', limits);
    const after = await verify(disk, limits);
    const left = after.findings.find(({ decision }) => decision === 'refuse');
    if (left !== undefined) oracle.breaks(`${journal.name} is damaged after its repair: ${left.problem}`);
    // A torn end is named as lost too: a repair cannot know that no client has a 200 for it.
    const view = oracle.viewOf(journal);
    const named = after.lost.flatMap(({ first, last }) => upTo(last, first));
    oracle.mayLose(
      journal,
      named.filter((seq) => !view.isPromised(seq)),
    );
    oracle.repaired(journal);
    checkRepaired(oracle, journal, damage.seqs, after.lost);
    this.#damages.delete(journal);
    count('repair');
    if (damage.missing !== undefined) this.#findAgain(journal, damage.missing);
    if (this.#chance.happens(0.5)) this.#leaveAlone(journal.machine);
  }

  /** In half of the cases a file that was lost is found a while after the repair, and put back. */
  #findAgain(journal: MachineJournal, { name, bytes }: MissingFile): void {
    const { world, oracle } = this.#parts;
    const { machine, folder } = journal;
    const chance = world.chance(`find ${name} of ${journal.name}`);
    if (chance.happens(0.5)) return;
    const restores = oracle.restoresOf(journal);
    const putBack = async () => {
      const { disk } = journal;
      const names = disk.names();
      const isOther = oracle.restoresOf(journal) > restores || names.includes(name);
      if (isOther || markedIn(names) >= firstSeqOf(name)) return;
      machine.disk.exchange(folder, new Map([...filesOf(disk), [name, bytes]]));
    };
    const find = () => this.#isFree(machine) && this.#stopFor(journal, chance, putBack);
    world.plan(chance.exponentialMs(FOUND_MS), 'a lost file is found', find, null);
  }

  /** It starts a second time before others reach it again: what a hub asks for after a repair is still known then. */
  #leaveAlone(machine: Machine): void {
    const ms = this.#chance.exponentialMs(CUT_OFF_MS);
    this.#parts.cutOff(machine, ms);
    this.#parts.world.plan(ms * this.#chance.share(), 'stop', () => machine.stop(), null);
  }

  #clone(original: Machine, chance: Chance): void {
    const { world, addClone, count } = this.#parts;
    const name = `${original.name}c`;
    if ([...this.#clones].some((clone) => clone.name.startsWith(name))) return;
    this.#runs += 1;
    const clone = addClone(original, `${name}${this.#runs}`, filesOf(original.disk.disk));
    this.#clones.add(clone);
    count('clone');
    world.plan(chance.exponentialMs(CLONE_MS), 'end of clone', () => this.#dropClone(clone), null);
  }

  #dropClone(clone: Machine): void {
    if (this.#clones.delete(clone)) this.#parts.dropClone(clone);
  }
}

/**
 * "Leave out the hidden files: they describe the running process and the last shutdown. If the journal is forwarded, take
 * `.journal-*` and `.forwarded-*` along, and leave out `forward-*.cursor`."
 */
function plainCopyOf(disk: SimulatedDisk): Map<string, Buffer> {
  const isLeftOut = (name: string) =>
    /^forward-.*\.(cursor|retry)$/.test(name) || (/^\./.test(name) && !/^\.(journal|forwarded)-/.test(name));
  return new Map([...filesOf(disk)].filter(([name]) => !isLeftOut(name)));
}
