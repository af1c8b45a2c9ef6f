/** `assetlog forward`: how far the destinations are, and what an operator does about events that they did not take. */

import { destinationName, options } from '../../config/config.ts';
import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { flagOption, type Option, switchOption } from '../../config/options.ts';
import { didYouMean } from '../../event/nearest.ts';
import { readNames } from '../../forward/status.ts';
import { clickhouseDdl } from '../../forward/targets/clickhouse/ddl.ts';
import { defineCommand, type Output, refuse } from '../cli/command.ts';
import { folderOption, withFolder, withOneJournal } from '../cli/data-folder.ts';
import { actions, type ForwardValues } from './actions.ts';
import { showStatus } from './status.ts';
import { type TryValues, tryDestinations } from './try.ts';

const seq = flagOption('N[-M]', 'the event with this seq, or those from N to M', (text) => {
  const [, from = '', to = from] = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(text) ?? [];
  const [first, last] = [Number(from), Number(to)];
  if (first < 1 || first > last) throw new Error('is not a seq such as 7, or two such as 7-12');
  return { first, last };
});

const names = ['status', 'test', ...Object.keys(actions), 'ddl'];

/** @returns an option of the service, with its variable */
const forTest = <Value>(option: Option<Value>): Option<Value> => ({ ...option, help: 'test: as for assetlog serve' });
const destinationOptions = {
  forwardTo: forTest(options.forwardTo),
  forward: forTest(options.forward),
  forwardTokenFile: forTest(options.forwardTokenFile),
  forwardTokenHeader: forTest(options.forwardTokenHeader),
  forwardCaFile: forTest(options.forwardCaFile),
  onFailedCheck: forTest(options.onFailedCheck),
  deployments: forTest(options.deployments),
};

export const forward = defineCommand<ForwardValues & TryValues>(
  {
    summary: 'show how far forwarding is, and decide about events that were not taken',
    about:
      'status    how far each destination of serve --forward-to or --forward is, since when, why, and what to do\n' +
      'test      try each destination of the same options, or of --forward, and say what works or what to do; nothing\n' +
      '          changes there, and the journal need not exist\n' +
      'dead      the dead letters of a destination: events that it refused, or may have twice, and why; --seq N shows all\n' +
      '          about one event, with its line as it was, and --json the whole file\n' +
      'retry     send dead letters again: those that were refused, or those of --seq\n' +
      'skip      give up the event that a stopped destination would get next (--seq N), or open dead letters\n' +
      'from      let a destination continue with event --seq N; what it leaves out is in the dead letters\n' +
      'identity  the id by which hubs and engines know the journal; --new gives a copied folder an id of its own\n' +
      'ddl       print the SQL of the table that a ClickHouse destination needs, each setting with its reason\n' +
      '\n' +
      'status, test, dead, retry and skip of dead letters work beside a running service. The others need it stopped. NAME is\n' +
      'that of the destination (upstream for --forward-to); it may be left out if there is one.',
    notes: [
      'Examples:',
      '  assetlog forward status --data /var/lib/assetlog',
      "  assetlog forward status --json | jq '.destinations[] | select(.lag_seconds > 3600) | .name'",
      '  assetlog forward test --forward-to https://hub.example/prod --forward-token-file hub.token',
      '  assetlog forward retry upstream --seq 54-60  after the upstream was mended',
      '  assetlog forward from upstream --seq 1208    after its cursor was lost',
      '',
      'Hosted mode:',
      '  status shows all deployments. For the others name the folder of one: --data FOLDER/NAME.',
      '',
      'Dead letters:',
      '  A letter that was refused, is in doubt (the destination may have the event, once or twice) or was removed by',
      '  retention is open until it is sent again or given up. retry leaves those in doubt alone unless --seq names them.',
      '  To a hub, which has later events by then, an event is sent again as a report, with a seq and an id of its own.',
      '',
      'Exit codes:',
      '  0 all is well, or it was done; 1 a destination is stopped or does not work, no service runs, or events were not taken;',
      '  2 flags, no such destination, or it cannot be done: nothing was changed; 4 a service has the folder: stop it;',
      '  5 it cannot be read or written; 75 no service runs that could send events again',
    ],
    operands: { max: 2, text: `${names.join('|')} [NAME]`, choices: names },
    options: {
      data: { ...folderOption, help: 'folder of the journal; for status also that of all deployments' },
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
    return refuse(output, `there is no ${action}; give one of ${names.join(', ')}${didYouMean(action, names)}`);
  }
  if (action === 'test') return tryDestinations(values, name, output);
  if (action === 'ddl') return printDdl(values, output, name);
  if (action === 'status') return withFolder(data, output, (found) => showStatus(found, values, name, output));
  return withOneJournal(data, output, async (disk) => {
    const known = await readNames(disk);
    const chosen = name ?? (known.length === 1 ? (known[0] ?? '') : '');
    // `from` also makes a cursor.
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
