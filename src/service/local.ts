import { exitCodes } from '../config/exit-codes.ts';
import { deploymentName, journalFolder } from '../config/names.ts';
import { type Disk, isMissingPath } from '../journal/disk.ts';
import { writeFile } from '../journal/file-io.ts';
import { Journal } from '../journal/journal.ts';
import type { JournalOptions } from '../journal/options.ts';
import { contentsOf } from '../journal/segments.ts';
import { folderFailed, HOSTED } from './folder.ts';
import type { RecordedJournals } from './followers.ts';
import { LocalJournal } from './local-journal.ts';
import type { Recording } from './recording.ts';
import type { Setup } from './setup.ts';
import { StartError } from './start-error.ts';

/** Local mode: records into one journal, directly in the data folder. */
export function recordLocally(
  { config, notices, limits, metrics, segmentBytes, keyMemory, commitDelayMs, openDisk, shutdown }: Setup,
  { folder, followingOf, answerOf, finishErase }: RecordedJournals,
): Recording {
  const { disk } = folder;
  const onFailed = (error: Error) => shutdown.endAfter('disk failed', error);
  const create = (waiting: Pick<JournalOptions, 'openWaitMs'>) =>
    new Journal({
      disk,
      notices,
      segmentBytes,
      retain: config,
      commitDelayMs,
      limits,
      metrics,
      keyMemory,
      onFailed,
      checkHeld: () => folder.lock?.checkHeld(),
      ...followingOf(undefined),
      ...waiting,
    });
  const local = new LocalJournal({ disk, create, openWaitMs: limits.openWaitMs, onFailed });
  const readable = { deployment: undefined, whileAllowed: () => () => {} };
  return {
    deployment: undefined,
    tokenHeaders: new Map(),
    deploymentIn: undefined,
    tokens: () => ({}),
    isToken: () => false,
    findRecorder: () => local.recorder,
    findReadable: () => readable,
    open: () => {
      folder.lock?.open({ nextSeq: () => local.current.nextSeq, answer: answerOf(undefined) });
      const checked = checkNotHosted(disk, openDisk).then(() => (config.test ? checkForTests(disk) : undefined));
      return local.open(checked.then(() => finishErase(undefined)));
    },
    get trouble() {
      return local.current.trouble;
    },
    troubles: () => new Map(),
    figures: async () => [],
    makeSpace: () => local.current.makeSpace(),
    deployments: () => [undefined],
    wake: () => {},
    hurry: () => local.current.hurry(),
    reload: async () => {},
    startOver: () => local.startOver(),
    whileClosed: (_, act) => local.whileClosed(act),
    abandon: (error) => local.current.abandon(error),
    close: () => local.close(),
  };
}

/**
 * Checks that the data folder is not used in hosted mode, since its reports would then no longer require a token. A
 * journal in the folder itself shows local mode. The folders of a repair (`damaged-…`) are not read.
 * @param openDisk see `ServiceParts.openDisk`
 * @throws StartError if the folder has no journal of its own, and is marked or has a subfolder with the journal of a
 * deployment
 */
async function checkNotHosted(disk: Disk, openDisk: (folder: string) => Disk): Promise<void> {
  const names = await entriesOf(disk);
  if (contentsOf(names).segments.length > 0) return;
  const refuse = (holds: string, choice: string) =>
    new StartError(
      exitCodes.configuration,
      `the data folder ${disk.folder} ${holds}, and without --deployments any client may report; give --deployments FILE, or ${choice}`,
    );
  for (const name of names.sort()) {
    if (!deploymentName.test(name) || name.startsWith('damaged-')) continue;
    const folder = journalFolder(disk.folder, name);
    if (contentsOf(await entriesOf(openDisk(folder))).segments.length === 0) continue;
    throw refuse(`holds journals of deployments, such as ${name}`, `--data ${folder} for that journal alone`);
  }
  if (names.includes(HOSTED)) throw refuse('was made with --deployments', 'choose another with --data');
}

/** Name of the file that marks a folder whose journal may be emptied by a service for tests. */
const FOR_TESTS = '.made-for-tests';

/**
 * Checks that the folder of a service for tests, which a reset empties, contains no journal of value. Marks an empty
 * folder.
 * @throws StartError if the folder has a journal that was not created with `--test`
 */
async function checkForTests(disk: Disk): Promise<void> {
  const names = await disk.list();
  if (names.includes(FOR_TESTS)) return;
  const { segments, renamed } = contentsOf(names);
  if (segments.length + renamed.length > 0) {
    throw new StartError(
      exitCodes.configuration,
      `the data folder ${disk.folder} holds a journal that was not made with --test, and POST /test/reset would empty it; choose another with --data`,
    );
  }
  await writeFile(disk, FOR_TESTS, []);
}

/** @returns the names in a folder; none for a file, or for a folder that does not exist yet because the disk is full */
async function entriesOf(disk: Disk): Promise<string[]> {
  try {
    return await disk.list();
  } catch (error) {
    if (isMissingPath(error as NodeJS.ErrnoException)) return [];
    throw folderFailed(`the folder ${disk.folder} cannot be read`, error as Error, 'make it readable');
  }
}
