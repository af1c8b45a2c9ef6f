/** Removes the texts of erased events from the state of a folder's assets. */

import type { Limits } from '../config/limits.ts';
import { detach } from '../config/memory.ts';
import { BETWEEN_PARTS } from '../event/asset-key.ts';
import { type Disk, unlessAbsent } from '../journal/disk.ts';
import type { EraseOrder } from '../journal/erase/order.ts';
import { reportedOf } from '../journal/line/members.ts';
import { readJournal } from '../journal/look/reader.ts';
import { AT_REST } from '../journal/progress.ts';
import { STATE_FILE } from '../journal/segments.ts';
import { type AssetStates, keptText } from './asset-state.ts';
import { boundState, loadingOf } from './kept.ts';
import { writeState } from './state-file.ts';

/**
 * Rewrites the file, if there is one, after the lines were rewritten, since it identifies its last line by the crc of that line. A
 * file that belongs to other events is removed, since it will be created again anyway.
 * @throws the error of a system call; it can be called again then
 */
export async function eraseInState(disk: Disk, { seqs, all }: EraseOrder, limits: Limits): Promise<void> {
  const kept = (await boundState(loadingOf(disk, limits)))?.kept;
  if (kept === undefined) {
    await disk.remove(STATE_FILE).catch(unlessAbsent(undefined));
    return;
  }
  const wasErased = (seq: number) => seqs.has(seq);
  if (!all) kept.states.erase(wasErased);
  else {
    const names = await namesIn(disk, kept.states, limits);
    kept.states.erase(wasErased, (key, check) => names.has(nameOf(key, check)));
  }
  await writeState(disk, kept, async () => {});
}

/** @returns those assets of the state that have events in the journal, and their checks */
async function namesIn(disk: Disk, states: AssetStates, limits: Limits): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for await (const lines of readJournal(disk, { progress: AT_REST, limits }, () => {})) {
    for (const { bytes, start, end, seq } of lines) {
      const { key, checkName } = reportedOf(bytes, start, end, seq);
      if (states.get(key) === undefined) continue;
      names.add(detach(key));
      if (checkName !== undefined) names.add(detach(nameOf(key, keptText(checkName))));
    }
  }
  return names;
}

function nameOf(key: string, check: string | undefined): string {
  return check === undefined ? key : `${key}${BETWEEN_PARTS}${BETWEEN_PARTS}${check}`;
}
