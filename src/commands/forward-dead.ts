/** `assetlog forward dead`: the dead letters of a destination. */

import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import { type DeadLetter, encodeDeadLetter } from '../forward/dead-letter.ts';
import { readDeadLetters, readLetterStates } from '../forward/dead-letters.ts';
import { isOpen, seqsOf } from '../forward/open-letters.ts';
import { printable } from '../telemetry/printable.ts';
import type { ForwardAction } from './forward-action.ts';
import { type Column, Table } from './table.ts';

const columns: readonly Column[] = [
  { title: 'seq', whole: 3 },
  { title: 'time', whole: 19 },
  { title: 'outcome', whole: 8 },
  { title: 'status', whole: 6 },
  { title: 'reason' },
];

/** Lists the open letters, or prints those of one event, or all, as they are. @returns 0 @throws Error for a damaged file */
export async function showDead({ disk, name, values: { seq, json }, output }: ForwardAction): Promise<ExitCode> {
  const { columns: width, write } = output.page;
  const isWhole = json || (seq !== undefined && seq.first === seq.last);
  const states = await readLetterStates(disk, name);
  const table = new Table(columns, width ?? PIPE_COLUMNS);
  let at = -1;
  for await (const letter of readDeadLetters(disk, name)) {
    at += 1;
    const { first, last } = seqsOf(letter);
    const state = states.get(first);
    if (seq !== undefined && (last < seq.first || first > seq.last)) continue;
    if (!isWhole && (state?.at !== at || !isOpen(state))) continue;
    const text = encodeDeadLetter(letter);
    const line = `${width === undefined ? text : printable(text)}\n`;
    if (!(await write(isWhole ? line : table.print([rowOf(letter)])))) break;
  }
  return exitCodes.done;
}

function rowOf(letter: DeadLetter): string[] {
  const { first, last } = seqsOf(letter);
  const { time, outcome, status = '', reason } = letter;
  const seqs = first === last ? `${first}` : `${first}-${last}`;
  return [seqs, time.slice(0, 19).replace('T', ' '), outcome, `${status}`, reason];
}

const PIPE_COLUMNS = 120;
