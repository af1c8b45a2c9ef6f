/** Reads the journal of an embedded service. Damage is an error, unlike in a command, which shows the undamaged events. */

import type { Disk } from '../journal/disk.ts';
import { readJournal } from '../journal/look/reader.ts';
import type { Line, Reading, Remark } from '../journal/look/reading.ts';

/**
 * @throws Error for a damaged journal, after its valid lines. A `note` is ignored, since such events were never
 * acknowledged.
 */
export async function* readUndamaged(disk: Disk, reading: Reading): AsyncGenerator<readonly Line[]> {
  let damage: string | undefined;
  const check = () => {
    if (damage !== undefined) throw new Error(`the journal in ${disk.folder} is damaged: ${damage}`);
  };
  const note = ({ kind, text }: Remark) => {
    if (kind === 'damage') damage ??= text;
  };
  for await (const lines of readJournal(disk, reading, note)) {
    yield lines;
    check();
  }
  check();
}
