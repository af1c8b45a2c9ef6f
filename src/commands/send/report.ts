/** `assetlog report`: sends one report from options, or many from lines, to a local or remote service with this API. */

import { randomUUID } from 'node:crypto';
import { readBaseUrl } from '../../client/base-url.ts';
import type { DeliveryFailure } from '../../client/delivery.ts';
import { Reporter } from '../../client/reporter.ts';
import { objectOf, readJsonObject, readValue, type Submission, submit } from '../../client/submission.ts';
import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { openStream } from '../../config/files.ts';
import { limits } from '../../config/limits.ts';
import {
  flagOf,
  flagOption,
  integer,
  type Option,
  option,
  switchOption,
  text,
  trueOrFalse,
  type ValuesOf,
  withAnyText,
} from '../../config/options.ts';
import { keyNotes, readKey } from '../../event/asset-key.ts';
import { didYouMean } from '../../event/nearest.ts';
import {
  allParameters,
  type ChoiceParameter,
  type Endpoint,
  endpoints,
  findEndpoint,
  type Parameter,
} from '../../event/parameters.ts';
import { shellWord } from '../../telemetry/printable.ts';
import { defineCommand, type Output, refuseError } from '../cli/command.ts';
import { callerOf, type ServiceOptions, serviceOptions } from '../cli/service-options.ts';
import { itemReader } from './line-item.ts';
import { type LineRun, reportLines } from './report-from.ts';

interface CommandLine extends OptionValues {
  /** The values of the options that set a parameter, by the name of the option. */
  readonly given: ReadonlyMap<string, ParameterValue>;
  readonly operands: readonly string[];
}

/** The value of an option that sets a parameter: JSON text, or the members of an object, each name with its JSON text. */
type ParameterValue = string | ReadonlyMap<string, string> | undefined;
/** By the name of the option. */
type ParameterValues = Readonly<Record<string, ParameterValue>>;
type ParameterOptions = Readonly<Record<string, Option<ParameterValue>>>;

/** @param check returns the string to send, or throws Error. @returns an option whose value is the JSON text of a string */
function jsonString(argument: string, help: string, check = (text: string) => text): Option<ParameterValue> {
  return flagOption<ParameterValue>(argument, help, (text) => JSON.stringify(check(text)));
}

/** @param negated whether `true` sets false. @returns an option whose value is `true` or `false` */
function jsonBoolean(help: string, negated: boolean): Option<ParameterValue> {
  const option = flagOption<ParameterValue>('', help, (text) => String(trueOrFalse(text) !== negated));
  return { ...option, trueOrFalse: true };
}

/** @returns the options that set a parameter, by name. They exclude each other, like `--passed` and `--failed`. */
function optionsOf(parameter: Parameter): ParameterOptions {
  const { member, acceptedBy } = parameter;
  const scope = acceptedBy.length < endpoints.length ? ` (${acceptedBy.join(', ')})` : '';
  switch (parameter.kind) {
    case 'key':
      return {}; // the operands are the asset key
    case 'metadata':
      return { [member]: metadataOption, [`${member}Json`]: metadataJsonOption };
    case 'boolean': {
      const { what, opposite } = parameter;
      const { option, what: denied } = opposite;
      const help = `${what}${scope}; true or false may follow`;
      return { [member]: jsonBoolean(help, false), [option]: jsonBoolean(denied, true) };
    }
    case 'one of': {
      const option = jsonString(parameter.argument, `${parameter.what}${scope}`, (text) => choose(text, parameter));
      return { [member]: { ...option, standard: parameter.standard, choices: parameter.choices } };
    }
    default: {
      const option = jsonString(parameter.argument, `${parameter.what}${scope}`);
      return { [member]: member === 'description' ? withAnyText(option) : option };
    }
  }
}

/** Ignores case. @returns the choice in the spelling of the API. @throws Error if the word is not one of the choices */
function choose(word: string, { name, choices }: ChoiceParameter): string {
  const choice = choices.find((known) => known.toLowerCase() === word.toLowerCase());
  if (choice === undefined) throw new Error(`is not a ${name}; use ${choices.join(' or ')}`);
  return choice;
}

const metadataOption: Option<ParameterValue> = {
  argument: 'NAME=TEXT',
  help: 'one member of the metadata, as text; NAME:=JSON for any value, as in rows:=10; repeatable',
  initial: undefined,
  repeated: true,
  flagOnly: true,
  anyText: true,
  parse: (text, before) => {
    const [, name = '', json, value = ''] = /^([^=]*?)(:)?=(.*)$/s.exec(text) ?? [];
    if (name === '') throw new Error('is not of the form NAME=TEXT or NAME:=JSON');
    const members = typeof before === 'object' ? before : new Map<string, string>();
    if (members.has(name)) throw new Error('gives a name a second time');
    return new Map([...members, [name, json === undefined ? JSON.stringify(value) : readValue(value, limits)]]);
  },
};

const metadataJsonOption = withAnyText(
  flagOption<ParameterValue>('OBJECT', 'the whole metadata as a JSON object; every digit is kept', (text) =>
    readJsonObject(text, limits),
  ),
);

/** @throws Error if the text is empty, too long, or has a character that is not allowed in an idempotency key */
function checkVisible(text: string, charactersMax: number): string {
  if (/^[\x21-\x7e]+$/.test(text) && text.length <= charactersMax) return text;
  throw new Error(`is not 1 to ${charactersMax} visible ASCII characters`);
}

const LINE_SUFFIX_CHARACTERS = `/${Number.MAX_SAFE_INTEGER}`.length;

/** The options that are neither parameters nor shared by all commands that call a service. */
const ownOptions = {
  from: text('FILE|-', 'report each line of a file, or of standard input'),
  fromLine: option<number>({
    argument: 'NUMBER',
    help: 'with --from: skip the lines before this one',
    initial: 1,
    flagOnly: true,
    parse: (text) => integer(text, 1, Number.MAX_SAFE_INTEGER),
  }),
  runId: flagOption(
    'TEXT',
    'with --from: line 7 gets the idempotency key TEXT/7, so a rerun records no line twice [random]',
    (text) => checkVisible(text, limits.idempotencyKeyCharactersMax - LINE_SUFFIX_CHARACTERS),
  ),
  keepTimes: switchOption(
    'with --from: send the time of a journal line as event_time, also if it has a key (see below)',
  ),
  idempotencyKey: flagOption(
    'TEXT',
    'of a single report: sent again with the same key, it is recorded once [random]',
    (text) => checkVisible(text, limits.idempotencyKeyCharactersMax),
  ),
};

type OptionValues = ServiceOptions & ValuesOf<typeof ownOptions>;

const parameterOptions: ParameterOptions = Object.assign({}, ...allParameters(endpoints).map(optionsOf));
const kinds = endpoints.map(({ name }) => name);

export const report = defineCommand<OptionValues>(
  {
    summary: 'report a materialization, a check or an observation, or a file of them',
    about:
      'Sends a report and exits with 0 when it is recorded. Retries while the service cannot be reached or answers 408, 429 or\n' +
      '503, with exponential backoff and jitter, honouring Retry-After. A report that might have been recorded (after a broken\n' +
      'connection, a missing reply, a 500 or a 502) is sent again only if the service knows the Idempotency-Key that it gets.\n' +
      'The command ends after at most --retry-for and one --timeout.',
    notes: [
      keyNotes,
      '',
      'Lines:',
      '  {"type": "check", "asset_key": ["warehouse", "orders"], "check_name": "no_nulls", "passed": true}',
      '  The members are the parameters of the API; lines of a journal are accepted unchanged. Lines are sent in order, up to',
      '  500 in a request if the service accepts batches. A refused line is reported on standard error, and the next line is',
      '  sent. The time of a journal line is sent as its event_time if it has none; for a line with an idempotency key only',
      '  with --keep-times, for a journal that moves to another service: a client that repeats such a report there gets 422,',
      '  because the report of the client has no event_time.',
      '',
      'Examples:',
      '  assetlog report materialization warehouse/orders --partition 2026-11-20 --metadata rows:=10 --metadata by=cron',
      '  assetlog report check warehouse/orders --check-name no_nulls --failed --severity WARN',
      '  assetlog report observation warehouse/orders --url https://assets.example/prod --token-file token.txt',
      '  assetlog report --from reports.jsonl --retry-for 10m',
      '',
      'Exit codes:',
      '  0 recorded, 1 refused: the same report would be refused again, 2 flags or files, 5 a file does not answer,',
      '  75 try later: the service was unavailable, or it is in doubt whether the report was recorded',
    ],
    operands: { max: 1_000, text: `${kinds.join('|')} KEY...`, choices: kinds },
    options: {
      ...parameterOptions,
      ...serviceOptions,
      ...ownOptions,
    },
  },
  (values, output, operands) => {
    const all = values as OptionValues & ParameterValues; // readOptions gives a value for each option
    const names = Object.keys(parameterOptions).filter((name) => all[name] !== undefined);
    const given = new Map(names.map((name) => [name, all[name]]));
    return run({ ...values, given, operands }, output);
  },
);

async function run(call: CommandLine, output: Output): Promise<ExitCode> {
  const stop = new AbortController();
  let reporter: Reporter | undefined;
  try {
    const submission = call.from === undefined ? readOperands(call) : checkAlone(call);
    const base = readBaseUrl(call.url);
    reporter = await openReporter(base, call, stop.signal, output);
    if (submission !== undefined) return await reportOne(submission, base, call, reporter, output);
    return await reportAll(call, base, reporter, stop, output);
  } catch (error) {
    output.progress('');
    return refuseError(output, error as Error);
  } finally {
    reporter?.close();
  }
}

/** @throws Error for a token that cannot be read or sent */
async function openReporter(base: string, call: CommandLine, stopped: AbortSignal, output: Output): Promise<Reporter> {
  return new Reporter({
    base,
    ...(await callerOf(call, output)),
    timeoutMs: call.timeout,
    retry: {
      retryForMs: call.retryFor,
      stopped,
      limits,
      onWait: (reason, waitMs) => output.progress(`${base} ${reason}; again in ${(waitMs / 1000).toFixed(1)} s`),
    },
    limits,
  });
}

async function reportOne(
  submission: Submission,
  base: string,
  call: CommandLine,
  reporter: Reporter,
  output: Output,
): Promise<ExitCode> {
  const idempotencyKey = call.idempotencyKey ?? randomUUID();
  if (call.idempotencyKey !== undefined) {
    const search = await reporter.find();
    if (search.kind === 'found' && !search.features.keys) output.complain(`${base} ${WITHOUT_KEYS}`);
  }
  const found = await reporter.send({ ...submission, idempotencyKey });
  output.progress('');
  if (found.kind === 'recorded') return exitCodes.done;
  output.complain(`${base} ${found.reason}${outlookOf(found, reporter.knowsKeys, idempotencyKey)}`);
  return found.kind === 'in doubt' || found.kind === 'unavailable' ? exitCodes.tryLater : exitCodes.refused;
}

/** @returns the consequence of a failure for the report: `; try again later` */
function outlookOf({ kind }: DeliveryFailure, knowsKeys: boolean, key: string): string {
  if (kind === 'unavailable') return '; try again later';
  if (kind !== 'in doubt') return '';
  if (!knowsKeys) return '; it might have been recorded, and sending it again might record it twice';
  return `; it might have been recorded; with --idempotency-key ${shellWord(key)} it can be sent again and is recorded once`;
}

async function reportAll(
  { from = '-', fromLine, runId, keepTimes }: CommandLine,
  base: string,
  reporter: Reporter,
  stop: AbortController,
  output: Output,
): Promise<ExitCode> {
  const { stream, bytes } = from === '-' ? { stream: process.stdin, bytes: undefined } : await openStream(from);
  // A signal ends the run after the lines that are being sent. The same signal again has its default action, which is to end the
  // process.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  stop.signal.addEventListener('abort', () => stream.destroy());
  async function* chunks(): AsyncIterable<Buffer> {
    try {
      yield* stream;
    } catch (error) {
      if (stop.signal.aborted) return;
      throw new Error(`${from} cannot be read: ${(error as Error).message}`, { cause: error });
    }
  }
  const find: LineRun['find'] = async () => {
    const search = await reporter.find();
    const isWithoutKeys = runId !== undefined && search.kind === 'found' && !search.features.keys;
    if (isWithoutKeys) output.complain(`${base} ${WITHOUT_KEYS}`);
    return search;
  };
  const run: LineRun = {
    chunks: chunks(),
    bytes,
    fromLine,
    runId: runId ?? randomUUID(),
    limits,
    read: itemReader(limits, keepTimes),
    find,
    send: (items) => reporter.sendAll(items),
    stopped: stop.signal,
  };
  try {
    return await reportLines(run, output);
  } finally {
    stream.destroy();
  }
}

const WITHOUT_KEYS = 'does not know Idempotency-Key: a report that is sent again is recorded again';

/** @throws Error for operands and parameter options, which cannot be combined with --from */
function checkAlone({ given, operands, idempotencyKey }: CommandLine): undefined {
  if (idempotencyKey !== undefined) {
    throw new Error(
      '--idempotency-key cannot be combined with --from; give --run-id, or put idempotency_key in the lines',
    );
  }
  const [name] = given.keys();
  if (operands.length === 0 && name === undefined) return;
  throw new Error(
    `${name === undefined ? 'a key' : `--${flagOf(name)}`} cannot be combined with --from; put it in the lines`,
  );
}

/** @throws Error if the operands and options do not make a valid report */
function readOperands({ given, runId, keepTimes, operands: [kind = '', ...words] }: CommandLine): Submission {
  if (keepTimes) throw new Error('--keep-times needs --from; for a single report give --event-time');
  if (runId !== undefined) throw new Error('--run-id needs --from; for a single report give --idempotency-key');
  const endpoint = findEndpoint(endpoints, kind);
  if (endpoint === undefined || words.length === 0) {
    const hint = endpoint === undefined ? didYouMean(kind, kinds) : '';
    throw new Error(
      `name what to report: assetlog report ${endpoint?.name ?? kinds.join('|')} KEY, or --from FILE${hint}`,
    );
  }
  const parameters = new Map<string, string>();
  for (const parameter of allParameters(endpoints)) {
    const value = parameter.kind === 'key' ? JSON.stringify(keyOf(words)) : readGiven(parameter, endpoint, given);
    if (value !== undefined) parameters.set(parameter.name, value);
  }
  return submit(endpoint, parameters);
}

/**
 * @returns the value that the options give to a parameter, as JSON; undefined if they give none
 * @throws Error if the endpoint does not have the parameter, if it is missing although required, or if it is given
 * twice
 */
function readGiven(parameter: Parameter, endpoint: Endpoint, given: CommandLine['given']): string | undefined {
  const options = Object.keys(optionsOf(parameter));
  const [first, second] = options.filter((name) => given.has(name));
  if (!endpoint.parameters.includes(parameter)) {
    if (first === undefined) return undefined;
    throw new Error(`--${flagOf(first)} does not go with ${endpoint.name}; leave it out`);
  }
  const flags = options.map((name) => `--${flagOf(name)}`);
  if (parameter.required && (first === undefined || second !== undefined)) {
    throw new Error(`a ${endpoint.name} needs ${flags.length > 1 ? 'one of ' : ''}${flags.join(' and ')}`);
  }
  if (second !== undefined) throw new Error(`give ${flags.join(' or ')}, not both`);
  return first === undefined ? undefined : jsonOf(given.get(first));
}

function jsonOf(value: ParameterValue = ''): string {
  return typeof value === 'string' ? value : objectOf(value);
}

function keyOf(words: readonly string[]): string[] {
  try {
    return readKey(words);
  } catch (error) {
    throw new Error(`${JSON.stringify(words.join(' '))} ${(error as Error).message}`);
  }
}
