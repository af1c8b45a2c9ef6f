/** What `assetlog forward` does for one destination of one journal, besides `status`. */

import { setTimeout as sleep } from 'node:timers/promises';
import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { keyText } from '../../event/asset-key.ts';
import { endpoints, findEndpoint } from '../../event/parameters.ts';
import { continueFrom, NotPossibleError, newIdentity, skip } from '../../forward/by-hand.ts';
import { readDeadLetters, readLetterStates } from '../../forward/dead-letters/file.ts';
import { type DeadLetter, encodeDeadLetter, isOpen, seqsOf } from '../../forward/dead-letters/letter.ts';
import type { LetterState } from '../../forward/dead-letters/states.ts';
import { isWanted, openIn, type Retry, readRetry, writeRetry } from '../../forward/retry.ts';
import { type DestinationStatus, readStatus } from '../../forward/status.ts';
import type { Disk } from '../../journal/disk.ts';
import { holderOf } from '../../journal/lock.ts';
import type { GoneRange } from '../../journal/segments.ts';
import { printable } from '../../telemetry/printable.ts';
import { type Output, refuse } from '../cli/command.ts';
import { locked } from '../cli/data-folder.ts';
import { type Column, secondOf, Table } from '../cli/table.ts';
import { isServed } from './status.ts';

export interface ForwardValues {
  readonly data: string;
  readonly seq: GoneRange | undefined;
  readonly new: boolean;
  readonly replicated: boolean;
  readonly json: boolean;
}

interface ForwardAction {
  readonly disk: Disk;
  /** The name of the destination. */
  readonly name: string;
  readonly values: ForwardValues;
  readonly output: Output;
}

/** The actions by name. The last three throw InUseError beside a service, but `skip` only for events without a letter. */
export const actions = {
  dead: showDead,
  retry: retryDeadLetters,
  skip: giveUp,
  from: (action: ForwardAction) =>
    stopped(action, '--seq N', action.values.seq, ({ first }) => continueFrom(action.disk, action.name, first, limits)),
  identity: (action: ForwardAction) =>
    stopped(action, '--new', action.values.new || undefined, () =>
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

/** Lists the open letters, or prints those of one event, or all, as they are. @returns 0 @throws Error for a damaged file */
async function showDead({ disk, name, values: { seq, json }, output }: ForwardAction): Promise<ExitCode> {
  const { columns: width, write } = output.stdout;
  const isWhole = json || (seq !== undefined && seq.first === seq.last);
  const open = new Map<number, LetterState[]>();
  const states = await readLetterStates(disk, name, limits);
  for (const state of states.all) {
    if (isOpen(state)) open.set(state.at, [...(open.get(state.at) ?? []), state]);
  }
  const table = new Table(columns, width);
  /** What the last letter with a line says of the event, by its seq: a later letter may have no line. */
  const events = new Map<number, readonly [type: string, key: string]>();
  let at = -1;
  for await (const letter of readDeadLetters(disk, name, limits)) {
    at += 1;
    const isAsked = ({ first, last }: GoneRange) => seq === undefined || (last >= seq.first && first <= seq.last);
    if (isWhole && !isAsked(seqsOf(letter))) continue;
    if (letter.line !== undefined && states.of(seqsOf(letter).first) !== undefined) {
      const { type, asset_key: key } = JSON.parse(letter.line);
      events.set(seqsOf(letter).first, [findEndpoint(endpoints, type)?.name ?? type, keyText(key)]);
    }
    const rows = (open.get(at) ?? []).filter(isAsked).map((state) => rowOf(letter, state, events.get(state.first)));
    if (!isWhole && rows.length === 0) continue;
    const text = encodeDeadLetter(letter);
    const line = `${width === undefined ? text : printable(text)}\n`;
    if (!(await write(isWhole ? line : table.print(rows)))) break;
  }
  return exitCodes.done;
}

/**
 * @param state of the events that the letter still speaks for
 * @param event its type and key, if they are known
 */
function rowOf(letter: DeadLetter, { first, last }: GoneRange, event: readonly [string, string] = ['', '']): string[] {
  const { time, outcome, became, status = '', reason } = letter;
  const seqs = first === last ? `${first}` : `${first}-${last}`;
  const what = became === undefined ? outcome : `${outcome}, ${became}`;
  return [seqs, secondOf(time), what, `${status}`, ...event, reason];
}

/** Asks the service to send dead letters again, and waits until it has. @returns 0 if all were taken, 1 if some were not, 75 if no service takes it up @throws the error of a system call */
async function retryDeadLetters({ disk, name, values: { seq }, output }: ForwardAction): Promise<ExitCode> {
  const { say, complain } = output;
  const wanted = (await readLetterStates(disk, name, limits)).all.filter((state) => isWanted(state, seq));
  if (wanted.length > 0) {
    const status = await statusOf(disk, name);
    if (status === undefined || !isServed(status)) {
      complain(`nothing was sent, since only a service has the token: ${status?.reason}`);
      return exitCodes.tryLater;
    }
    if (!(await askService({ disk, name, output }, { seqs: seq }))) return exitCodes.tryLater;
  }
  const after = await readLetterStates(disk, name, limits);
  const sent = wanted.filter(({ first }) => after.of(first) === undefined).length;
  say(`${sent} of ${wanted.length} were taken`);
  if (sent === wanted.length) return exitCodes.done;
  complain(`assetlog forward dead ${name} says why the others were not`);
  return exitCodes.refused;
}

/** Gives up dead letters, through the service if that forwards to the destination; without a service also what comes next. */
async function giveUp(action: ForwardAction): Promise<ExitCode> {
  const { disk, name, values, output } = action;
  const { seq } = values;
  const count = async () => (seq === undefined ? 0 : (await openIn(disk, name, seq, limits)).length);
  const open = await count();
  const status = open === 0 ? undefined : await statusOf(disk, name);
  if (status === undefined || !isServed(status))
    return stopped(action, '--seq N', seq, (seqs) => skip(disk, name, seqs, limits));
  if (!(await askService(action, { seqs: seq, givesUp: true }))) return exitCodes.tryLater;
  const left = await count();
  output.say(`given up: ${open - left}`);
  return left === 0 ? exitCodes.done : exitCodes.refused;
}

async function statusOf(disk: Disk, name: string): Promise<DestinationStatus | undefined> {
  const statuses = await readStatus(disk, null, await holderOf(disk.folder, limits), limits);
  return statuses.find((one) => one.name === name);
}

/** Leaves a request for the service, and waits until that is done with it. @returns whether it was left */
async function askService(
  { disk, name, output }: Pick<ForwardAction, 'disk' | 'name' | 'output'>,
  request: Retry,
): Promise<boolean> {
  if ((await readRetry(disk, name)) !== undefined) {
    output.complain('another retry is under way; wait for it');
    return false;
  }
  await writeRetry(disk, name, request);
  while ((await readRetry(disk, name)) !== undefined && (await holderOf(disk.folder, limits)) !== undefined) {
    await sleep(limits.followMs);
  }
  return true;
}

/** Runs a change under the lock, which a service has as long as it forwards the journal. */
async function stopped<Given>(
  { disk, output }: ForwardAction,
  option: string,
  given: Given | undefined,
  change: (given: Given) => Promise<string>,
): Promise<ExitCode> {
  if (given === undefined) return refuse(output, `add ${option}`);
  return locked(disk, async () => {
    try {
      output.say(await change(given));
      return exitCodes.done;
    } catch (error) {
      if (!(error instanceof NotPossibleError)) throw error;
      return refuse(output, error.message);
    }
  });
}
