/** Opens the journals of a folder for reading, and reports the problems that the reader finds. */

import { setTimeout as sleep } from 'node:timers/promises';
import { assetJson } from '../../assets/asset-json.ts';
import { isAskedFor, keyOf, pagesOf } from '../../assets/asset-state.ts';
import { loadingOf, readKept } from '../../assets/kept.ts';
import type { Kept } from '../../assets/state-file.ts';
import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { startsWith } from '../../event/asset-key.ts';
import { durationMs } from '../../event/moment.ts';
import type { Filter } from '../../event/search.ts';
import { Sightings } from '../../forward/hub/sightings.ts';
import { SNAPSHOT_FILE } from '../../forward/hub/snapshot.ts';
import { isMeantBy, Sources } from '../../forward/hub/sources.ts';
import { type Disk, openDisk, unlessAbsent } from '../../journal/disk.ts';
import { readJournal, readNewest } from '../../journal/look/reader.ts';
import type { Remark } from '../../journal/look/reading.ts';
import { pollProgress } from '../../journal/progress.ts';
import { contentsOf } from '../../journal/segments.ts';
import { createNotices, oncePerName } from '../../telemetry/log.ts';
import { type Output, refuse } from '../cli/command.ts';
import { type DeploymentFolder, type FolderWithJournal, surveyFolder } from '../cli/data-folder.ts';
import type { JournalSource, JournalSources } from './source.ts';

/**
 * Opens the journals of a folder, and runs `act`. Reports damage and other remarks of the reader on
 * standard error, each once.
 * @param follow if given, a folder without a journal is not an error: the command waits for its first journal until the
 * signal aborts
 * @param act resolves to the exit code, or to undefined if the problems of the reader decide it
 * @returns 0 if all was read, 2 if there is no journal, 3 if a journal is damaged, 5 if one cannot be read or printed
 */
export async function withLocalJournals(
  data: string,
  output: Output,
  follow: AbortSignal | undefined,
  act: (sources: JournalSources) => Promise<ExitCode | undefined>,
): Promise<ExitCode> {
  const { complain } = output;
  const remarks: ReaderRemarks[] = [];
  const open = (disk: Disk, deployment: string | undefined) => {
    const own = new ReaderRemarks(deployment, complain);
    remarks.push(own);
    return sourceOf(disk, deployment, own);
  };
  try {
    const found = await awaitJournal(data, follow);
    if (found.kind === 'none') {
      if (follow !== undefined) return exitCodes.done; // interrupted before there was a journal
      return refuse(output, `${found.problem}, or a service with --url or ASSETLOG_URL`);
    }
    const code = await act(
      found.kind === 'journal'
        ? only(open(inChunks(found.disk, limits.lookChunkBytes), undefined))
        : hosted(found, open),
    );
    if (code !== undefined) return code;
  } catch (error) {
    complain(`the journal in ${data} could not be shown: ${(error as Error).message}`);
    return exitCodes.diskFailed;
  }
  return Math.max(...remarks.map((own) => own.end())) as ExitCode;
}

async function awaitJournal(data: string, follow: AbortSignal | undefined): ReturnType<typeof surveyFolder> {
  for (;;) {
    const found = await surveyFolder(data);
    if (found.kind !== 'none' || follow === undefined || follow.aborted) return found;
    await sleep(limits.followMs, undefined, { signal: follow }).catch(() => {}); // it rejects only when it is aborted
  }
}

function only(source: JournalSource): JournalSources {
  return { kind: 'journal', all: [source], added: async () => [] };
}

function hosted(
  { folder, deployments }: FolderWithJournal & { kind: 'hosted' },
  open: (disk: Disk, deployment: string) => JournalSource,
): JournalSources {
  const known = new Set(deployments.map(({ name }) => name));
  const chunkBytes = Math.max(limits.leastMergedChunkBytes, Math.floor(limits.mergedBytesMax / deployments.length));
  const openOne = ({ name, disk }: DeploymentFolder) => {
    return open(inChunks(disk, Math.min(limits.mergedChunkBytesMax, chunkBytes)), name);
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

function inChunks({ folder }: Disk, bytes: number): Disk {
  return openDisk(folder, undefined, bytes);
}

function sourceOf(disk: Disk, deployment: string | undefined, remarks: ReaderRemarks): JournalSource {
  const progress = pollProgress(disk.folder, limits);
  const fail = (error: Error) => remarks.fail(`the journal in ${disk.folder} could not be shown: ${error.message}`);
  const complete = (filter: Filter) => withSourceName(disk, filter);
  let reading: ReturnType<typeof readKept> | undefined; // the reading of the state, which a command can request twice
  const source: JournalSource = {
    deployment,
    async *read(given, { signal, more } = {}, isSearch = false) {
      try {
        const reading = { filter: await complete(given), isSearch, follow: signal, limits };
        const polled = pollProgress(disk.folder, limits, more);
        yield* readJournal(disk, { ...reading, progress: polled }, remarks.report);
      } catch (error) {
        fail(error as Error);
      }
    },
    async newest(count, given) {
      try {
        const reading = { filter: await complete(given), progress, limits };
        return await readNewest(disk, reading, remarks.report, count, limits.lastBytesMax);
      } catch (error) {
        fail(error as Error);
        return [];
      }
    },
    async hasEvent(given) {
      const reading = { filter: await complete(given), progress, limits };
      return (await readNewest(disk, reading, () => {}, 1, limits.lastBytesMax)).length > 0;
    },
    async *assets({ keyPrefix, keyBeginsWith = [], failing, stale }) {
      try {
        reading ??= readKept(loadingOf(disk, limits), progress, remarks.report);
        const { kept, firstSeq } = await reading;
        for (const text of lackingIn(kept)) remarks.report({ kind: 'note', text });
        const asked = { failing, staleMs: stale === undefined ? undefined : durationMs(stale)! };
        const nowMs = Date.now();
        for (const page of pagesOf(kept.states.inOrder(undefined, keyPrefix))) {
          const found = page.filter(
            (asset) => startsWith(keyOf(asset), keyBeginsWith) && isAskedFor(asset, asked, nowMs),
          );
          yield found.map((asset) => assetJson(asset, firstSeq, failing));
        }
      } catch (error) {
        fail(error as Error);
      }
    },
    async sourceNames() {
      const { sightings } = openHubFiles(disk);
      await sightings.load().catch(() => {}); // if this fails, the ids are shown
      const isHub = (await disk.list().catch(unlessAbsent<string[]>([]))).includes(SNAPSHOT_FILE);
      return isHub ? sightings.names() : undefined;
    },
    sources: async (wanted) => {
      const { sources, sightings } = openHubFiles(disk);
      await sightings.load();
      return [...sightings.list(await sources.view(await lastSeqOf(disk, source)), deployment, wanted)];
    },
  };
  return source;
}

/** @returns sentences about events that the state does not include */
function lackingIn({ sinceSeq, unseen }: Kept): string[] {
  const first = sinceSeq > 1 ? [`the events before ${sinceSeq} do not count: they were removed`] : [];
  return [...first, ...unseen.map(({ first, last }) => `the events ${first} to ${last} do not count: they are gone`)];
}

/** Reads the last file, whose end might be torn. @returns 0 for an empty journal */
async function lastSeqOf(disk: Disk, source: Pick<JournalSource, 'newest'>): Promise<number> {
  const [last] = await source.newest(1, {});
  return last?.seq ?? contentsOf(await disk.list()).removedLast;
}

/** @returns the files about the sources of a hub in the folder of its journal */
function openHubFiles(disk: Disk): { readonly sources: Sources; readonly sightings: Sightings } {
  const notices = createNotices('error', false, () => {}); // the reader of the journal reports its damage
  const options = { disk, progress: () => pollProgress(disk.folder, limits), limits, notices };
  return { sources: new Sources(options), sightings: new Sightings(options) };
}

/** @returns the filter, with the name of the source if it is given by its name. @throws the error of a system call */
export async function withSourceName(disk: Disk, filter: Filter): Promise<Filter> {
  const { source } = filter;
  return source ? { ...filter, source: await openHubFiles(disk).sightings.filterFor(source.text) } : filter;
}

/** Forgets a source of a hub. The caller holds the lock of the folder. @returns whether it was known. @throws the error of a system call */
export async function forgetSource(disk: Disk, id: string): Promise<boolean> {
  const { sources, sightings } = openHubFiles(disk);
  const wasKnown = await sources.remove(id, await lastSeqIn(disk));
  if (wasKnown) {
    await sightings.load();
    await sightings.remove(id);
  }
  return wasKnown;
}

/** Binds sources of a hub, like `Hub.bind`. The caller holds the lock of the folder. */
export async function bindSources(
  disk: Disk,
  id: string | undefined,
  bound: string | undefined,
  token: string | undefined,
): Promise<number> {
  const { sources } = openHubFiles(disk);
  return sources.bind(isMeantBy(id, bound), token, await lastSeqIn(disk));
}

function lastSeqIn(disk: Disk): Promise<number> {
  return lastSeqOf(disk, sourceOf(disk, undefined, new ReaderRemarks(undefined, () => {})));
}

/** Reports the problems of one journal. Their number is limited, so that one journal does not hide another. */
class ReaderRemarks {
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

  readonly report = ({ kind, text }: Remark): void => {
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
