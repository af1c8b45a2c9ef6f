/**
 * `assetlog assets forget`: ends the state of assets that are gone for good, in a folder or through the service that uses it.
 */

import { type Forget, forgetTest } from '../../assets/forget.ts';
import { loadingOf, readKept } from '../../assets/kept.ts';
import { writeState } from '../../assets/state-file.ts';
import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { readKey } from '../../event/asset-key.ts';
import { durationMs } from '../../event/moment.ts';
import type { Disk } from '../../journal/disk.ts';
import { pollProgress } from '../../journal/progress.ts';
import { numbered } from '../../telemetry/printable.ts';
import { type Output, refuse } from '../cli/command.ts';
import { folderOption, withOneJournal } from '../cli/data-folder.ts';
import { throughService } from '../cli/door.ts';

export interface ForgetValues {
  readonly data: string;
  readonly url: string;
  readonly keyPrefix: readonly string[] | undefined;
  /** A duration: `90d`. */
  readonly stale: string | undefined;
}

/** @param word the key of one asset; undefined if options choose the assets */
export async function forgetAssets(values: ForgetValues, output: Output, word: string | undefined): Promise<ExitCode> {
  const { data, url, keyPrefix, stale } = values;
  if (url !== '') return refuse(output, 'forget works in the folder of the journal; leave --url out');
  if ((word === undefined) !== (keyPrefix !== undefined && stale !== undefined)) {
    return refuse(output, 'give forget KEY, or forget with --key-prefix and --stale');
  }
  let forget: Forget;
  try {
    forget =
      word === undefined
        ? { key_prefix: keyPrefix!, before_ms: Date.now() - durationMs(stale!)! }
        : { key: readKey([word]) };
  } catch (error) {
    return refuse(output, `${JSON.stringify(word)} ${(error as Error).message}`);
  }
  return withOneJournal(data || folderOption.initial, output, (disk) => forgetIn(disk, forget, output));
}

async function forgetIn(disk: Disk, forget: Forget, output: Output): Promise<ExitCode> {
  const count = await throughService(disk, { do: 'forget assets', forget }, () => forgetAlone(disk, forget));
  if (count === 0) return refuse(output, `${disk.folder} has no such asset`);
  output.print(
    `${numbered(count, 'asset')} ${count === 1 ? 'is' : 'are'} forgotten; ${count === 1 ? 'its' : 'their'} events are kept`,
  );
  return exitCodes.done;
}

/** @returns how many assets were forgotten */
async function forgetAlone(disk: Disk, forget: Forget): Promise<number> {
  const { kept } = await readKept(loadingOf(disk, limits), pollProgress(disk.folder, limits), () => {});
  const count = kept.states.forget(forgetTest(forget));
  if (count > 0) await writeState(disk, kept, async () => {});
  return count;
}
