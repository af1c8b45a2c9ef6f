/** What a service does with its journal files when a call has failed or a crash has left a part. */

import { exitCodes } from '../../../src/config/exit-codes.ts';
import type { MachineJournal } from '../machine.ts';
import type { Incarnation } from '../world.ts';
import { readCursor } from './cursor.ts';

const JOURNAL_FILE = /^events-\d{20}\.jsonl$/;
/** A file that is written once is closed by then. */
const OPEN_MS = 5_000;
/** A process that has to end has ended, also on a slow disk. */
const ENDS_MS = 60_000;
/** Until a process has heard of a failed sync. */
const HEARD_MS = 1;

export function isJournalFile(name: string): boolean {
  return JOURNAL_FILE.test(name);
}

/** The files of one journal. */
export class Files {
  readonly #journal: MachineJournal;
  /** Those of which a sync has failed. */
  readonly #unsynced = new Set<string>();
  /** Virtual time. */
  readonly #nowMs: () => number;
  /** The number of the start after which a sync failed last. */
  #failedAfter = 0;
  #hasToEnd: { readonly process: Incarnation | undefined; readonly sinceMs: number } | undefined;

  constructor(journal: MachineJournal, nowMs: () => number) {
    this.#journal = journal;
    this.#nowMs = nowMs;
  }

  /** @param name empty for the folder */
  syncFailed(name: string): void {
    const { machine } = this.#journal;
    this.#failedAfter = machine.starts;
    if (isJournalFile(name)) this.#unsynced.add(name);
    // A hosted journal fails alone.
    if (name !== '' || machine.isMaintained || machine.journals.length > 1) return;
    if (isOfRetention()) this.#hasToEnd = { process: machine.process, sinceMs: this.#nowMs() };
  }

  /** "5: the disk failed." @returns what is wrong with a process that ended by itself */
  ended(code: number): string | undefined {
    const { machine } = this.#journal;
    const isFailed = this.#failedAfter === machine.starts || machine.disk.slowness > 1;
    return code === exitCodes.diskFailed && !isFailed ? 'ended with 5, and no sync had failed' : undefined;
  }

  /** "A failed sync ends the service." @returns what is wrong if it runs on */
  runsOn(): string | undefined {
    const { process, sinceMs } = this.#hasToEnd ?? { sinceMs: 0 };
    if (process === undefined || process !== this.#journal.machine.process) return undefined;
    return this.#nowMs() - sinceMs > ENDS_MS ? 'runs on after a failed sync of its folder' : undefined;
  }

  /** @returns what is wrong with the files that the process has open: the newest one and a cursor of each destination stay open */
  leftOpen(): string | undefined {
    const { machine, folder } = this.#journal;
    const seen = new Set<string>();
    for (const [file, sinceMs] of machine.process?.files ?? []) {
      const isRecent = this.#nowMs() - Math.max(sinceMs, machine.disk.troubledMs) < OPEN_MS;
      if (file.folder !== folder || isRecent) continue;
      const kind = isJournalFile(file.name) ? 'newest' : file.name;
      if (seen.has(kind) || (kind !== 'newest' && !kind.endsWith('.cursor'))) return `leaves ${file.name} open`;
      seen.add(kind);
    }
    return undefined;
  }

  /** "Until then a cursor that is missing or torn loses nothing." @returns what is wrong */
  creating(name: string): string | undefined {
    const [, destination] = /^\.forwarded-(.+)$/.exec(name) ?? [];
    if (destination === undefined) return undefined;
    const cursor = readCursor(this.#journal.disk, destination);
    return cursor === undefined ? `knows ${destination} before its cursor is there` : undefined;
  }

  /** "A sync is never retried." @returns what is wrong with a write, unless a start has put a copy in place of the file */
  writing(name: string): string | undefined {
    const { process, sinceMs } = this.#hasToEnd ?? { sinceMs: 0 };
    const runsOn = process !== undefined && process === this.#journal.machine.process;
    if (runsOn && isJournalFile(name) && this.#nowMs() - sinceMs > HEARD_MS)
      return `writes to ${name} after a failed sync of its folder`;
    return this.#unsynced.has(name) ? `writes to ${name} after a failed sync of it` : undefined;
  }

  /** "What a crash explains is truncated and kept in a `.torn` file." @returns what is not kept when a start puts a copy in place */
  renaming(from: string): string | undefined {
    const { disk } = this.#journal;
    const name = from.replace(/\.(new|rewrite)$/, '');
    this.#unsynced.delete(name);
    if (from !== `${name}.rewrite`) return undefined;
    const rest = disk.bytes(name)!.subarray(disk.bytes(from)!.length);
    const isKept = disk.names().some((one) => one.startsWith(`${name}.torn`) && disk.bytes(one)!.equals(rest));
    return rest.length === 0 || isKept ? undefined : `cuts ${rest.length} bytes off ${name} and does not keep them`;
  }
}

/** Senders sync the folder as well, and try again: whose call it is shows nowhere else. */
function isOfRetention(): boolean {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 30;
  const { stack = '' } = new Error();
  Error.stackTraceLimit = stackTraceLimit;
  return stack.includes('journal/retention.ts');
}
