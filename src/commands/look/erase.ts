/** `assetlog erase`: takes out what events said, in a folder or through the service that has it. */

import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { option, switchOption, type ValuesOf } from '../../config/options.ts';
import { shownKey } from '../../event/asset-key.ts';
import { type Filter, queryOf } from '../../event/search.ts';
import { readNames } from '../../forward/folder.ts';
import { type Disk, openDisk } from '../../journal/disk.ts';
import { readOrder } from '../../journal/erase/order.ts';
import { NotSelectedError, type Selection, select } from '../../journal/erase/select.ts';
import type { Line } from '../../journal/look/reading.ts';
import { DamagedError } from '../../journal/open/recovery.ts';
import { pollProgress } from '../../journal/progress.ts';
import { contentsOf } from '../../journal/segments.ts';
import type { Erased } from '../../service/eraser.ts';
import { erase } from '../../service/erasing.ts';
import { createNotices } from '../../telemetry/log.ts';
import { numbered } from '../../telemetry/printable.ts';
import { defineCommand, NotDoneError, type Output, refuse } from '../cli/command.ts';
import { folderOperand, folderOption, withOneJournal } from '../cli/data-folder.ts';
import { throughService } from '../cli/door.ts';
import { withSourceName } from './local.ts';
import { boundsOf, rangeOptions, readId, searchFilter, searchOptions } from './options.ts';

const eraseOptions = {
  data: { ...folderOption, help: 'as FOLDER; with deployments the folder of one, FOLDER/NAME' },
  ...searchOptions,
  id: option<readonly string[]>({
    argument: 'ID',
    help: 'the event with this id; may be repeated',
    initial: [],
    repeated: true,
    flagOnly: true,
    parse: (text, before) => {
      if (before.length === limits.eraseIdsMax) throw new Error(`is one more than ${limits.eraseIdsMax}`);
      return [...before, readId(text)];
    },
  }),
  ...rangeOptions,
  all: switchOption('also the asset key and the name of the check, which become "erased"'),
  yes: switchOption('erase the events; without this nothing is changed'),
};

type EraseValues = ValuesOf<typeof eraseOptions>;

export const eraseCommand = defineCommand(
  {
    summary: 'take out what events said that should never have been reported',
    about:
      'Prints which events it would erase, and does it with --yes. An erased event keeps its seq, id, times, type, key, and\n' +
      'the result of a check; description, metadata, data version, partition, event time and idempotency key go, from each\n' +
      'file of the folder. A running service does it: its reports wait for that.',
    notes: [
      'Examples:',
      '  assetlog erase --id 01a1fb95-ce62-7e59-9364-610bf5613940          prints what it would erase',
      '  assetlog erase --key-prefix shop/customers --contains "name Ada" --yes   erases it',
      '',
      'Exit codes:',
      '  0 erased, or shown, 1 nothing matches, 2 flags or no journal there, 3 the journal is damaged: repair it first,',
      '  4 another command uses the folder, 5 it cannot be read or written, 75 the service does not answer',
    ],
    operands: folderOperand,
    options: eraseOptions,
  },
  eraseEvents,
);

async function eraseEvents(values: EraseValues, output: Output): Promise<ExitCode> {
  const { data, id: ids, all, yes, passed, failed } = values;
  if (passed !== undefined && failed !== undefined) return refuse(output, 'use one of --passed and --failed');
  const filter: Filter = { ...searchFilter({ ...values, id: undefined }), ...boundsOf({ ...values, by: 'time' }) };
  if (ids.length === 0 && Object.values(filter).every((value) => value === undefined))
    return refuse(output, 'say which events to erase: give --id, or filters like those of assetlog events');
  const filters = ids.length === 0 ? [filter] : ids.map((id) => ({ ...filter, id }));
  return withOneJournal(data, output, async (disk) => {
    const selection = await selectIn(disk, filters, all);
    const count = selection.seqs.size;
    if (count === 0 && !(yes && (await readOrder(disk)) !== undefined)) {
      output.complain('no event that is not erased matches');
      return exitCodes.unexpected;
    }
    const erased = yes ? await eraseIn(disk, filters, selection, all) : { events: count };
    if (erased.unfinished !== undefined) {
      output.complain(
        `events are erased in some files only: ${erased.unfinished}; restart the service, which finishes it`,
      );
      return exitCodes.diskFailed;
    }
    const what = `${numbered(count, 'event')} ${count === 1 ? 'is' : 'are'}`;
    output.print(yes ? `${what} erased:` : `${what} to be erased; nothing was changed, add --yes to do it:`);
    output.print([...selection.first.map(rowOf), ...more(count - selection.first.length)].join('\n'));
    output.print((await copiesOf(disk)).join('\n'));
    return exitCodes.done;
  });
}

async function selectIn(disk: Disk, filters: readonly Filter[], all: boolean): Promise<Selection> {
  const named = await Promise.all(filters.map((filter) => withSourceName(disk, filter)));
  return select(disk, pollProgress(disk.folder, limits), named, all, limits).catch((error: Error) => {
    if (error instanceof DamagedError) throw new NotDoneError(exitCodes.damaged, error.message);
    if (!(error instanceof NotSelectedError)) throw error;
    throw new NotDoneError(error.isDamaged ? exitCodes.damaged : exitCodes.configuration, error.message);
  });
}

/** @param filters with which a service finds the events again */
async function eraseIn(disk: Disk, filters: readonly Filter[], { seqs }: Selection, all: boolean): Promise<Erased> {
  const queries = filters.map(({ afterSeq, ...filter }) => {
    const query = { ...queryOf(filter), ...(afterSeq !== undefined && { after_seq: afterSeq }), all };
    return new URLSearchParams(
      Object.entries(query).map(([name, value]): [string, string] => [name, String(value)]),
    ).toString();
  });
  const notices = createNotices('error', false, () => {});
  const parts = { disk, openDisk, notices, limits, checkHeld: () => {} };
  return throughService(disk, { do: 'erase', queries }, async () => {
    await erase(parts, { time: new Date().toISOString(), all, seqs });
    return { events: seqs.size };
  });
}

function rowOf({ event: { seq, id, time, asset_key } }: Line): string {
  return `  seq ${seq}  ${id}  ${time}  ${shownKey(asset_key)}`;
}

function more(count: number): string[] {
  return count > 0 ? [`  and ${count} more`] : [];
}

/** @returns where the events may be besides this folder */
async function copiesOf(disk: Disk): Promise<string[]> {
  const { renamed } = contentsOf(await disk.list());
  const names = await readNames(disk);
  return [
    'copies that this does not reach:',
    '  backups   the next assetlog backup copies the rewritten segments again',
    ...(names.length === 0 ? [] : [`  sent to   ${names.join(', ')}: erase there too, by the same ids`]),
    ...renamed.map(({ name }) => `  file      ${name}, which assetlog does not read`),
  ];
}
