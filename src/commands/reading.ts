/** Opens the journals of a folder for reading, and reports what their reader finds wrong. */

import { setTimeout as sleep } from 'node:timers/promises';
import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import { limits } from '../config/limits.ts';
import type { Asset } from '../journal/asset-state.ts';
import { type Disk, openDisk } from '../journal/disk.ts';
import type { Filter } from '../journal/filter.ts';
import { type Progress, pollProgress } from '../journal/progress.ts';
import { type Line, type Remark, readJournal } from '../journal/reader.ts';
import { timeOf } from '../journal/record.ts';
import { lastLine } from '../journal/scan.ts';
import { contentsOf } from '../journal/segments.ts';
import { oncePerName } from '../telemetry/log.ts';
import type { Output } from './command.ts';
import { type DeploymentFolder, type FolderContent, surveyFolder } from './data-folder.ts';

/** A line of a journal: `{ seq: 7, time: '2026-11-20T15:19:45.266Z' }`. */
export interface Position {
  readonly seq: number;
  /** Its time, or an earlier one of a later line if the clock was set back, so that times of a journal are in order. */
  readonly time: string;
}

/** A journal that a command reads: `{ deployment: 'prod', read, … }`. */
export interface Source {
  /** Its name in hosted mode, such as `prod`; undefined for a journal that belongs to no deployment. */
  readonly deployment: string | undefined;
  /** Yields the lines that match, in the order of their seqs. An error is reported, and ends the lines. */
  read(filter: Filter, following?: Following): AsyncGenerator<readonly Line[]>;
  /** Like `read`, but reports nothing: what is wrong was reported by the first read. Rejects with the error of a system call. */
  readAgain(filter: Filter): AsyncGenerator<readonly Line[]>;
  /** @returns the last so many lines that match, or all, in the order of their seqs */
  newest(count: number, filter: Filter): Promise<readonly Position[]>;
  /** @returns how many events there are, and the last seq, without reading all of them. Rejects with the error of a system call */
  size(): Promise<{ readonly events: number; readonly lastSeq: number }>;
  /** Only of a service, which knows them: the assets that match, in the order of their keys. */
  assets?(wanted: {
    readonly keyPrefix?: readonly string[] | undefined;
    readonly failing?: boolean;
  }): AsyncGenerator<readonly Asset[]>;
}

/** How a source is followed: `{ signal }` polls it until the signal aborts. */
export interface Following {
  /** Ends the reading when it aborts. */
  readonly signal: AbortSignal;
  /** Resolves when the source is to be read again. By default it is polled. */
  readonly more?: Progress['more'];
}

/** The journals of a folder: `{ kind: 'hosted', all: [source, source], added }`. */
export interface Sources {
  /** `hosted` if the folder holds a journal for each deployment. */
  readonly kind: 'journal' | 'hosted';
  /** The journals that were found first; one if `kind` is `journal`. */
  readonly all: readonly Source[];
  /** @returns the journals of deployments that have appeared since the last call */
  added(): Promise<readonly Source[]>;
}

/**
 * Opens the journals of a folder, such as `./assetlog-data`, and runs `act`. Reports damage and other remarks of the reader on
 * standard error, each once.
 * @param follow if given, a folder without a journal is no error: its first journal is awaited until the signal aborts
 * @param act resolves to an exit code that is returned as it is, such as 2, or to undefined after it has read what it needs
 * @returns 0 if all was read, 2 if there is no journal, 3 if a journal is damaged, 5 if one cannot be read or printed
 */
export async function lookAt(
  data: string,
  { complain }: Output,
  follow: AbortSignal | undefined,
  act: (sources: Sources) => Promise<ExitCode | undefined>,
): Promise<ExitCode> {
  const reports: Reports[] = [];
  const open = (disk: Disk, deployment: string | undefined) => {
    const own = new Reports(deployment, complain);
    reports.push(own);
    return sourceOf(disk, deployment, own);
  };
  try {
    const found = await awaitJournal(data, follow);
    if (found.kind === 'none') {
      if (follow !== undefined) return exitCodes.done; // interrupted before there was a journal
      complain(found.problem);
      return exitCodes.configuration;
    }
    const code = await act(found.kind === 'journal' ? only(open(found.disk, undefined)) : hosted(found, open));
    if (code !== undefined) return code;
  } catch (error) {
    complain(`the journal in ${data} could not be shown: ${(error as Error).message}`);
    return exitCodes.diskFailed;
  }
  return Math.max(...reports.map((own) => own.end())) as ExitCode;
}

async function awaitJournal(data: string, follow: AbortSignal | undefined): Promise<FolderContent> {
  for (;;) {
    const found = await surveyFolder(data);
    if (found.kind !== 'none' || follow === undefined || follow.aborted) return found;
    await sleep(limits.followMs, undefined, { signal: follow }).catch(() => {}); // it rejects only when it is aborted
  }
}

function only(source: Source): Sources {
  return { kind: 'journal', all: [source], added: async () => [] };
}

function hosted(
  { folder, deployments }: FolderContent & { kind: 'hosted' },
  open: (disk: Disk, deployment: string) => Source,
): Sources {
  const known = new Set(deployments.map(({ name }) => name));
  const chunkBytes = Math.max(limits.leastMergedChunkBytes, Math.floor(limits.mergedBytesMax / deployments.length));
  const openOne = ({ name, disk }: DeploymentFolder) => {
    const inChunks = openDisk(disk.folder, undefined, Math.min(limits.mergedChunkBytesMax, chunkBytes));
    return open(inChunks, name);
  };
  return {
    kind: 'hosted',
    all: deployments.map(openOne),
    added: async () => {
      const found = await surveyFolder(folder);
      if (found.kind !== 'hosted') return [];
      const fresh = found.deployments.filter(({ name }) => !known.has(name));
      for (const { name } of fresh) known.add(name);
      return fresh.map(openOne);
    },
  };
}

function sourceOf(disk: Disk, deployment: string | undefined, reports: Reports): Source {
  const linesOf = (filter: Filter, following: Following | undefined, report: (remark: Remark) => void) => {
    const polled = pollProgress(disk.folder, limits.followMs);
    const progress = { durable: polled.durable, more: following?.more ?? polled.more };
    return readJournal(disk, { filter, follow: following?.signal, progress, limits }, report);
  };
  const source: Source = {
    deployment,
    async *read(filter, following) {
      try {
        yield* linesOf(filter, following, reports.take);
      } catch (error) {
        reports.fail(`the journal in ${disk.folder} could not be shown: ${(error as Error).message}`);
      }
    },
    readAgain: (filter) => linesOf(filter, undefined, () => {}),
    newest: (count, filter) => newestOf(disk, source, count, filter),
    size: () => sizeOf(disk),
  };
  return source;
}

/** Reads the segments from the newest to the oldest until enough events match. In a large journal that is often the newest alone. */
async function newestOf(disk: Disk, source: Source, count: number, filter: Filter): Promise<readonly Position[]> {
  const { afterSeq = 0 } = filter;
  const names = await disk.list().catch(() => []); // the next read reports the error, or waits for the folder
  let found: { readonly seq: number; time: string }[] = [];
  let untilSeq = Number.POSITIVE_INFINITY;
  for (const { firstSeq } of contentsOf(names).segments.toReversed()) {
    if (found.length >= count || untilSeq <= afterSeq) break;
    let here: typeof found = [];
    for await (const lines of source.read({ ...filter, afterSeq: Math.max(afterSeq, firstSeq - 1), untilSeq })) {
      for (const { bytes, start, seq } of lines) here.push({ seq, time: timeOf(bytes, start, seq) });
      if (here.length > 2 * count) here = here.slice(-count);
    }
    found = [...here, ...found].slice(-count);
    untilSeq = firstSeq - 1;
  }
  for (let at = found.length - 2; at >= 0; at -= 1) {
    if (found[at]!.time > found[at + 1]!.time) found[at]!.time = found[at + 1]!.time;
  }
  return found;
}

/** Reads the names of the files and the last line only. */
async function sizeOf(disk: Disk): Promise<{ events: number; lastSeq: number }> {
  const { segments, gone } = contentsOf(await disk.list());
  for (const { name, firstSeq } of segments.toReversed()) {
    const last = await lastLine(disk, name, await disk.size(name));
    if (last === undefined || last.seq < firstSeq) continue;
    const missing = gone.reduce((sum, { first, last }) => sum + last - first + 1, 0);
    return { events: Math.max(0, last.seq - missing), lastSeq: last.seq };
  }
  return { events: 0, lastSeq: 0 };
}

/** What is wrong with one journal. The number of reports is limited, so that one journal does not hide another. */
class Reports {
  readonly #about: string;
  readonly #complain: (problem: string) => void;
  readonly #isNew = oncePerName(limits.damageReportsMax);
  readonly #reported = new Set<string>();
  #unreported = 0;
  #code: ExitCode = exitCodes.done;

  constructor(deployment: string | undefined, complain: (problem: string) => void) {
    this.#about = deployment === undefined ? '' : `${deployment}: `;
    this.#complain = complain;
  }

  readonly take = ({ kind, text }: Remark): void => {
    if (kind === 'damage' && this.#code === exitCodes.done) this.#code = exitCodes.damaged;
    if (this.#isNew(text)) {
      this.#reported.add(text);
      this.#complain(`${kind === 'damage' ? 'damaged: ' : ''}${this.#about}${text}`);
    } else if (!this.#reported.has(text)) this.#unreported += 1;
  };

  fail(problem: string): void {
    this.#code = exitCodes.diskFailed;
    this.#complain(problem);
  }

  /** Reports how many remarks were left out. @returns 0, 3 if the journal is damaged, 5 if it could not be read */
  end(): ExitCode {
    if (this.#unreported > 0) {
      this.#complain(`${this.#about}and ${this.#unreported} more; assetlog verify with the same --data lists them`);
    }
    return this.#code;
  }
}
