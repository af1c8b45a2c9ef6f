/** `assetlog forward dead`: the dead letters of a destination. */

import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { readDeadLetters, readLetterStates } from '../../forward/dead-letters/file.ts';
import { type DeadLetter, encodeDeadLetter, isOpen, seqsOf } from '../../forward/dead-letters/letter.ts';
import type { LetterState } from '../../forward/dead-letters/states.ts';
import type { GoneRange } from '../../journal/segments.ts';
import { printable } from '../../telemetry/printable.ts';
import { type Column, secondOf, Table } from '../cli/table.ts';
import type { ForwardAction } from './action.ts';

const columns: readonly Column[] = [
  { title: 'seq', whole: 3 },
  { title: 'time', whole: 19 },
  { title: 'outcome', whole: 8 },
  { title: 'status', whole: 6 },
  { title: 'reason' },
];

/** Lists the open letters, or prints those of one event, or all, as they are. @returns 0 @throws Error for a damaged file */
export async function showDead({ disk, name, values: { seq, json }, output }: ForwardAction): Promise<ExitCode> {
  const { columns: width, write } = output.stdout;
  const isWhole = json || (seq !== undefined && seq.first === seq.last);
  const open = new Map<number, LetterState[]>();
  for (const state of (await readLetterStates(disk, name, limits)).values()) {
    if (isOpen(state)) open.set(state.at, [...(open.get(state.at) ?? []), state]);
  }
  const table = new Table(columns, width);
  let at = -1;
  for await (const letter of readDeadLetters(disk, name, limits)) {
    at += 1;
    const isAsked = ({ first, last }: GoneRange) => seq === undefined || (last >= seq.first && first <= seq.last);
    if (isWhole && !isAsked(seqsOf(letter))) continue;
    const rows = (open.get(at) ?? []).filter(isAsked).map((state) => rowOf(letter, state));
    if (!isWhole && rows.length === 0) continue;
    const text = encodeDeadLetter(letter);
    const line = `${width === undefined ? text : printable(text)}\n`;
    if (!(await write(isWhole ? line : table.print(rows)))) break;
  }
  return exitCodes.done;
}

/** @param state of the events that the letter still speaks for */
function rowOf(letter: DeadLetter, { first, last }: GoneRange): string[] {
  const { time, outcome, became, status = '', reason } = letter;
  const seqs = first === last ? `${first}` : `${first}-${last}`;
  return [seqs, secondOf(time), became === undefined ? outcome : `${outcome}, ${became}`, `${status}`, reason];
}
