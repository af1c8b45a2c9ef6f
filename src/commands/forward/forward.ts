/** `assetlog forward`: shows how far forwarding is, and handles events that a destination did not accept. */

import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { destinationName } from '../../config/names.ts';
import { flagOption, type Option, switchOption } from '../../config/options.ts';
import { options } from '../../config/options-of-service.ts';
import { didYouMean } from '../../event/nearest.ts';
import { clickhouseDdl } from '../../forward/destinations/clickhouse/ddl.ts';
import { readNames } from '../../forward/folder.ts';
import { defineCommand, type Output, refuse } from '../cli/command.ts';
import { folderOption, withFolder, withOneJournal } from '../cli/data-folder.ts';
import { actions, type ForwardValues } from './actions.ts';
import { showStatus } from './status.ts';
import { type TryValues, tryDestinations } from './try.ts';

const seq = flagOption('N[-M]', 'the event with this seq, or the events from N to M', (text) => {
  const [, from = '', to = from] = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(text) ?? [];
  const [first, last] = [Number(from), Number(to)];
  if (first < 1 || first > last) throw new Error('is not a seq such as 7, or a range such as 7-12');
  return { first, last };
});

const names = ['status', 'test', ...Object.keys(actions), 'ddl'];

/** @returns an option of `assetlog serve`, with its variable */
const forTest = <Value>(option: Option<Value>): Option<Value> => ({ ...option, help: 'test: as for assetlog serve' });
const destinationOptions = {
  forwardTo: forTest(options.forwardTo),
  forward: forTest(options.forward),
  forwardTokenFile: forTest(options.forwardTokenFile),
  forwardTokenHeader: forTest(options.forwardTokenHeader),
  forwardCaFile: forTest(options.forwardCaFile),
  forwardProxy: forTest(options.forwardProxy),
  onFailedCheck: forTest(options.onFailedCheck),
  deployments: forTest(options.deployments),
};

export const forward = defineCommand<ForwardValues & TryValues>(
  {
    summary: 'show how far forwarding is, and decide about events that were not accepted',
    about:
      'status    the state of each destination of serve --forward-to or --forward, with its reason and what to do\n' +
      'test      try each destination of these options, and print what works or what to do; nothing changes at the\n' +
      '          destination, and the journal need not exist\n' +
      'dead      the dead letters of a destination: events that it refused, or might have twice, and why; --seq N prints\n' +
      '          those of one event with its original line, and --json the whole file\n' +
      'retry     send dead letters again: the refused ones, or the ones of --seq\n' +
      'skip      give up the event that a stopped destination would get next (--seq N), or open dead letters\n' +
      'from      let a destination continue with event --seq N; the events left out are in the dead letters\n' +
      'identity  the id by which hubs and engines know the journal; --new gives a copied folder its own id\n' +
      'ddl       print the SQL of the table that a ClickHouse destination needs, each setting with its reason\n' +
      '\n' +
      'status, test, dead, retry and skip of dead letters work while a service runs. The others need a stopped service. NAME\n' +
      'is the name of the destination (upstream for --forward-to); it can be left out if there is only one.',
    notes: [
      'Examples:',
      '  assetlog forward status --data /var/lib/assetlog',
      "  assetlog forward status --json | jq '.destinations[] | select(.lag_seconds > 3600) | .name'",
      '  assetlog forward test --forward-to https://hub.example/prod --forward-token-file hub.token',
      '  assetlog forward retry upstream --seq 54-60  after its server was repaired',
      '  assetlog forward from upstream --seq 1208    after its cursor was lost',
      '',
      'Deployments:',
      '  status shows all deployments. The others need the folder of one: --data FOLDER/NAME.',
      '',
      'Dead letters:',
      '  The dead letter of an event that was refused, removed by retention, or is in doubt (the destination might have it,',
      '  once or twice) is open until the event is sent again or given up. retry leaves out events in doubt without --seq.',
      '  A hub, which has later events by then, gets the event as a report, with a new seq and id.',
      '',
      'Exit codes:',
      '  0 all is well, or done; 1 a destination is stopped or does not work, no service runs, or events were not accepted;',
      '  2 flags, no such destination, or it cannot be done: nothing was changed; 4 a service uses the folder: stop it;',
      '  5 it cannot be read or written; 75 no service runs that could send events again',
    ],
    operands: { max: 2, text: `${names.join('|')} [NAME]`, choices: names },
    options: {
      data: { ...folderOption, help: 'folder of the journal; for status also the data folder' },
      seq,
      new: switchOption('identity: make a new id'),
      replicated: switchOption('ddl: for a table that several servers have'),
      ...destinationOptions,
      json: switchOption('JSON instead of text, for programs'),
    },
  },
  act,
);

async function act(
  values: ForwardValues & TryValues,
  output: Output,
  [action = 'status', name]: readonly string[],
): Promise<ExitCode> {
  const { data } = values;
  if (!names.includes(action)) {
    return refuse(output, `there is no action ${action}; give one of ${names.join(', ')}${didYouMean(action, names)}`);
  }
  if (action === 'test') return tryDestinations(values, name, output);
  if (action === 'ddl') return printDdl(values, output, name);
  if (action === 'status') return withFolder(data, output, (found) => showStatus(found, values, name, output));
  return withOneJournal(data, output, async (disk) => {
    const known = await readNames(disk);
    const chosen = name ?? (known.length === 1 ? (known[0] ?? '') : '');
    // `from` also creates a cursor.
    if (action !== 'identity' && !known.includes(chosen) && !(action === 'from' && destinationName.test(chosen))) {
      return refuse(output, `name a destination of ${disk.folder}: ${known.join(', ') || 'it was never forwarded'}`);
    }
    return actions[action as keyof typeof actions]({ disk, name: chosen, values, output });
  });
}

async function printDdl({ replicated }: ForwardValues, output: Output, name?: string): Promise<ExitCode> {
  if (name !== 'clickhouse') {
    return refuse(output, 'give assetlog forward ddl clickhouse; other destinations need no table');
  }
  await output.stdout.write(clickhouseDdl(replicated));
  return exitCodes.done;
}
