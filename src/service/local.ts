import { segmentBytesOf } from '../config/config.ts';
import { Journal } from '../journal/journal.ts';
import type { Recording, RecordingOptions } from './recording.ts';

/**
 * Local mode: records into one journal, directly in the data folder.
 * @param onFailed as `JournalOptions.onFailed`: called once when the disk failed and only a restart can recover
 */
export function recordLocally(
  { config, notices, folder, limits, metrics, onRecorded }: RecordingOptions,
  onFailed: (error: Error) => void,
): Recording {
  const { pathPrefix } = config;
  const segmentBytes = segmentBytesOf(config);
  const { disk } = folder;
  const recorded = onRecorded?.bind(undefined, disk.folder);
  const options = { disk, notices, segmentBytes, retain: config, limits, metrics, onFailed, onRecorded: recorded };
  const journal = new Journal({ ...options, checkHeld: () => folder.checkHeld() });
  const recorder = {
    prefix: pathPrefix,
    append: journal.append.bind(journal),
    refusal: journal.refusal.bind(journal),
  };
  let opened: Promise<void> | undefined;
  return {
    deployment: undefined,
    tokenHeaders: new Set(),
    findRecorder: () => recorder,
    open: () => {
      folder.shareDurable(() => journal.nextSeq);
      opened = journal.open();
      return opened;
    },
    get trouble() {
      return journal.trouble;
    },
    troubles: () => new Map(),
    makeSpace: () => journal.makeSpace(),
    reload: async () => {},
    abandon: (error) => journal.abandon(error),
    close: async () => {
      await journal.close();
      await opened?.catch(() => {}); // a recovery may still write; its error goes to the caller of `open`
    },
  };
}
