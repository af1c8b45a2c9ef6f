/** The actions of `assetlog forward` on one destination of one journal, except `status`. */

import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { shownKey } from '../../event/asset-key.ts';
import { endpoints, findEndpoint } from '../../event/parameters.ts';
import { continueFrom, cursorProblem, NotPossibleError, newIdentity, skip } from '../../forward/by-hand.ts';
import { type DeadLetter, encodeDeadLetter, isOpen, seqsOf } from '../../forward/ledger/letter.ts';
import type { LetterState, LetterStates } from '../../forward/ledger/letter-states.ts';
import { readDeadLetters, readLetterStates } from '../../forward/ledger/letters.ts';
import { isWanted, openIn } from '../../forward/pipe/retry.ts';
import type { Disk } from '../../journal/disk.ts';
import type { GoneRange } from '../../journal/segments.ts';
import { printable } from '../../telemetry/printable.ts';
import { NotDoneError, type Output, refuse } from '../cli/command.ts';
import { withLock } from '../cli/data-folder.ts';
import { throughService } from '../cli/door.ts';
import { type Column, secondOf, Table } from '../cli/table.ts';

export interface ForwardValues {
  readonly data: string;
  readonly seq: GoneRange | undefined;
  readonly new: boolean;
  readonly replicated: boolean;
  readonly json: boolean;
}

interface ForwardAction {
  readonly disk: Disk;
  readonly name: string;
  readonly values: ForwardValues;
  readonly output: Output;
}

/**
 * The actions by name. The last three throw InUseError while a service runs, except `skip` for events that have a
 * letter.
 */
export const actions = {
  dead: showDead,
  retry: (action: ForwardAction) => withCursor(action, retryDeadLetters),
  skip: (action: ForwardAction) => withCursor(action, giveUp),
  from: (action: ForwardAction) => withCursor(action, changePosition),
  identity: (action: ForwardAction) =>
    changeLocked(action, '--new', action.values.new || undefined, () =>
      newIdentity(action.disk, action.values.seq?.first, limits),
    ),
};

const columns: readonly Column[] = [
  { title: 'seq', whole: 3 },
  { title: 'time', whole: 19 },
  { title: 'outcome', whole: 8 },
  { title: 'status', whole: 6 },
  { title: 'event', whole: 15 },
  { title: 'asset key', shownPart: 'end' }, // keys differ in their last parts
  { title: 'reason' },
];

/** Refuses an action that needs a cursor, which a hook with `on` does not have. */
async function withCursor(action: ForwardAction, run: (action: ForwardAction) => Promise<ExitCode>): Promise<ExitCode> {
  const problem = await cursorProblem(action.disk, action.name, limits);
  return problem === undefined ? run(action) : refuse(action.output, problem);
}

function changePosition(action: ForwardAction): Promise<ExitCode> {
  return changeLocked(action, '--seq N', action.values.seq, ({ first }) =>
    continueFrom(action.disk, action.name, first, limits),
  );
}

/** Lists the open letters, or prints the letters of one event, or all, unchanged. @returns 0 @throws Error for a damaged file */
async function showDead({ disk, name, values: { seq, json }, output }: ForwardAction): Promise<ExitCode> {
  const { columns: width, write } = output.stdout;
  const isRequested = ({ first, last }: GoneRange) => seq === undefined || (last >= seq.first && first <= seq.last);
  const states = await readLetterStates(disk, name, limits); // a damaged file is reported before any line
  if (json || (seq !== undefined && seq.first === seq.last)) {
    for await (const letter of readDeadLetters(disk, name, limits)) {
      if (!isRequested(seqsOf(letter))) continue;
      const text = encodeDeadLetter(letter);
      if (!(await write(`${width === undefined ? text : printable(text)}\n`))) break;
    }
    return exitCodes.done;
  }
  const table = new Table(columns, width);
  // The rows are read twice, so that the first row is as wide as the last one although a large file is never held in
  // memory.
  for await (const rows of openRows(disk, name, states, isRequested)) table.widen(rows);
  for await (const rows of openRows(disk, name, states, isRequested)) if (!(await write(table.print(rows)))) break;
  return exitCodes.done;
}

/** Reads the rows of the table, those of one letter at a time. */
async function* openRows(
  disk: Disk,
  name: string,
  states: LetterStates,
  isRequested: (seqs: GoneRange) => boolean,
): AsyncGenerator<string[][]> {
  const open = new Map<number, LetterState[]>();
  for (const state of states.all) {
    if (isOpen(state)) open.set(state.at, [...(open.get(state.at) ?? []), state]);
  }
  /** The events by seq. An event is from its last letter that has a line, since a later letter might have none. */
  const events = new Map<number, readonly [type: string, key: string]>();
  let at = -1;
  for await (const letter of readDeadLetters(disk, name, limits)) {
    at += 1;
    if (letter.line !== undefined && states.of(seqsOf(letter).first) !== undefined) {
      const { type, asset_key: key } = JSON.parse(letter.line);
      events.set(seqsOf(letter).first, [findEndpoint(endpoints, type)?.name ?? type, shownKey(key)]);
    }
    const requested = (open.get(at) ?? []).filter(isRequested);
    if (requested.length > 0) yield requested.map((state) => rowOf(letter, state, events.get(state.first)));
  }
}

/**
 * @param state the events whose latest letter this is
 * @param event its type and key; empty if they are unknown
 */
function rowOf(letter: DeadLetter, { first, last }: GoneRange, event: readonly [string, string] = ['', '']): string[] {
  const { time, outcome, became, status = '', reason } = letter;
  const seqs = first === last ? `${first}` : `${first}-${last}`;
  const what = became === undefined ? outcome : `${outcome}, ${became}`;
  return [seqs, secondOf(time), what, `${status}`, ...event, reason];
}

/** Makes the service send dead letters again. @returns 0 if all were accepted, 1 if some were not @throws NotDoneError, the error of a system call */
async function retryDeadLetters({ disk, name, values: { seq }, output }: ForwardAction): Promise<ExitCode> {
  const { print, complain } = output;
  const request = { do: 'retry', name, seqs: seq } as const;
  const { sent, refused, left } = await throughService(disk, request, async () => {
    const wanted = (await readLetterStates(disk, name, limits)).all.filter((state) => isWanted(state, seq));
    if (wanted.length === 0) return { sent: 0, refused: 0, left: 0 };
    throw new NotDoneError(exitCodes.tryLater, NO_SERVICE);
  });
  const count = sent + refused + left;
  print(`${sent} of ${count} were accepted`);
  if (sent === count) return exitCodes.done;
  complain(`assetlog forward dead ${name} shows why the others were not`);
  return exitCodes.refused;
}

const NO_SERVICE = 'nothing was sent, since only a service has the token, and no service uses the folder; start it';

/** Gives up dead letters, through the service if one runs; without a service it can also give up the next event. */
async function giveUp(action: ForwardAction): Promise<ExitCode> {
  const { disk, name, values, output } = action;
  const { seq } = values;
  const skipAlone = (seqs: GoneRange) => skip(disk, name, seqs, limits);
  if (seq === undefined || (await openIn(disk, name, seq, limits)).length === 0)
    return changeLocked(action, '--seq N', seq, skipAlone);
  return printChange(output, async () => {
    const done = await throughService(disk, { do: 'give up', name, seqs: seq }, () => skipAlone(seq));
    return typeof done === 'number' ? `given up: ${done}` : done;
  });
}

/** Makes a change while holding the lock, which a service holds while it forwards the journal. */
async function changeLocked<Given>(
  { disk, output }: ForwardAction,
  option: string,
  given: Given | undefined,
  change: (given: Given) => Promise<string>,
): Promise<ExitCode> {
  if (given === undefined) return refuse(output, `add ${option}`);
  return printChange(output, () => withLock(disk, () => change(given)));
}

/** @param change resolves to what was done, as a sentence */
async function printChange(output: Output, change: () => Promise<string>): Promise<ExitCode> {
  try {
    output.print(await change());
    return exitCodes.done;
  } catch (error) {
    if (!(error instanceof NotPossibleError)) throw error;
    return refuse(output, error.message);
  }
}
