/** `assetlog report`: sends one report from options, or many from lines, to a local or remote service with this API. */

import { type Answer, openClient } from '../client/connection.ts';
import { deliver, type Patience } from '../client/delivery.ts';
import { objectOf, readObject, readSubmission, readValue, type Submission, submit } from '../client/submission.ts';
import { options, version } from '../config/config.ts';
import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import { openStream, readSecret } from '../config/files.ts';
import { limits } from '../config/limits.ts';
import { didYouMean, duration, flagOf, integer, type Option } from '../config/options.ts';
import { keyNotes, readKey } from '../event/asset-key.ts';
import { allParameters, type ChoiceParameter, type Endpoint, type Parameter } from '../event/parameters.ts';
import { type Command, type Description, defineCommand, type Output } from './command.ts';
import { reportLines } from './report-from.ts';

interface Values {
  readonly url: string;
  readonly tokenFile: string;
  readonly tokenHeader: string;
  readonly retryFor: number;
  readonly from: string | undefined;
  readonly fromLine: number;
}

/** The parsed command line. */
interface Call extends Values {
  readonly endpoints: readonly Endpoint[];
  /** The values of the given parameter options, by the names of the options. */
  readonly said: ReadonlyMap<string, Value>;
  readonly operands: readonly string[];
}

/** The value of a parameter option: JSON text, or the members of an object, each name with its JSON text. */
type Value = string | ReadonlyMap<string, string> | undefined;
/** The values of the parameter options by the name of the option, such as `checkName`. */
type Said = Readonly<Record<string, Value>>;
type SayingOptions = Readonly<Record<string, Option<Value>>>;

function text(argument: string, help: string): Option<string | undefined> {
  return { argument, help, initial: undefined, flagOnly: true, parse: (text) => text };
}

/** @param check returns the string to send, or throws Error. @returns an option whose value is the JSON text of a string */
function jsonString(argument: string, help: string, check = (text: string) => text): Option<Value> {
  return { argument, help, initial: undefined, flagOnly: true, parse: (text) => JSON.stringify(check(text)) };
}

function flag(help: string, json: string): Option<Value> {
  return { argument: '', help, initial: undefined, parse: () => json };
}

/** @returns the options that set a parameter, by name. They exclude each other, as `--passed` and `--failed` do. */
function optionsOf(parameter: Parameter, endpoints: readonly Endpoint[]): SayingOptions {
  const { member, takenBy } = parameter;
  const scope = takenBy.length < endpoints.length ? ` (${takenBy.join(', ')})` : '';
  switch (parameter.kind) {
    case 'key':
      return {}; // the operands are the key
    case 'metadata':
      return { [member]: metadataOption, [`${member}Json`]: metadataJsonOption };
    case 'boolean': {
      const { what, opposite } = parameter;
      return { [member]: flag(`${what}${scope}`, 'true'), [opposite.option]: flag(opposite.what, 'false') };
    }
    case 'one of': {
      const option = jsonString(parameter.argument, `${parameter.what}${scope}`, (text) => choose(text, parameter));
      return { [member]: { ...option, standard: parameter.standard, choices: parameter.choices } };
    }
    default:
      return { [member]: jsonString(parameter.argument, `${parameter.what}${scope}`) };
  }
}

/** Ignores case. @returns the choice as the API spells it. @throws Error if the word is none of the choices */
function choose(word: string, { name, choices }: ChoiceParameter): string {
  const choice = choices.find((known) => known.toLowerCase() === word.toLowerCase());
  if (choice === undefined) throw new Error(`is not a ${name}; use ${choices.join(' or ')}`);
  return choice;
}

const metadataOption: Option<Value> = {
  argument: 'NAME=TEXT',
  help: 'one member of the metadata, a text; NAME:=JSON for any value, as in rows:=10; may be repeated',
  initial: undefined,
  repeated: true,
  flagOnly: true,
  parse: (text, before) => {
    const [, name = '', json, value = ''] = /^([^=]*?)(:)?=(.*)$/s.exec(text) ?? [];
    if (name === '') throw new Error('is not of the form NAME=TEXT or NAME:=JSON');
    const members = typeof before === 'object' ? before : new Map<string, string>();
    if (members.has(name)) throw new Error('gives a name for the second time');
    return new Map([...members, [name, json === undefined ? JSON.stringify(value) : readValue(value)]]);
  },
};

const metadataJsonOption: Option<Value> = {
  ...text('OBJECT', 'the whole metadata as a JSON object; every digit is kept'),
  parse: (text) => readObject(text),
};

const LOCAL = 'http://127.0.0.1:3000';

/** @param endpoints the kinds of reports: the first operand names one of them, and the options are their parameters */
export function reportOf(endpoints: readonly Endpoint[]): Command {
  const saying: SayingOptions = Object.assign({}, ...allParameters(endpoints).map((one) => optionsOf(one, endpoints)));
  return defineCommand<Values>(describe(endpoints, saying), (values, output, operands) => {
    const all = values as Values & Said; // readOptions gives a value for each option
    const given = Object.keys(saying).filter((name) => all[name] !== undefined);
    const said = new Map(given.map((name) => [name, all[name]]));
    return run({ ...values, endpoints, said, operands }, output);
  });
}

function describe(endpoints: readonly Endpoint[], saying: SayingOptions): Description<Values> {
  const kinds = endpoints.map(({ name }) => name);
  return {
    summary: 'report a materialization, a check or an observation, or a file of them',
    about:
      'Sends a report and ends with 0 when it is recorded. While the service can not be reached or answers 408, 429 or 503\n' +
      'it is asked again, when its Retry-After allows. What may have been recorded is not sent again: where the connection\n' +
      'broke behind the report, or no reply came, or a 500.',
    operands: { text: `${kinds.join('|')} KEY...`, max: 1_000, choices: kinds },
    options: {
      ...saying,
      url: {
        argument: 'URL',
        help: 'the service; a path prefix and the name of a deployment belong to it',
        initial: LOCAL,
        parse: (text) => {
          if (/^https?:\/\//.test(text) && URL.canParse(text)) return text;
          throw new Error(`is not an address such as ${LOCAL} or https://assets.example/prod`);
        },
      },
      tokenFile: { ...options.deployments, help: 'hosted service: file that holds the token and nothing else' },
      tokenHeader: { ...options.tokenHeader, help: 'hosted service: the header that carries it' },
      retryFor: {
        argument: 'TIME',
        help: 'how long to go on asking a service that is away, for each report; 0 for one attempt',
        initial: 60_000,
        standard: '60s',
        parse: duration,
      },
      from: text('FILE|-', 'report the lines of a file, or of standard input'),
      fromLine: {
        argument: 'NUMBER',
        help: 'with --from: leave out the lines before this one',
        initial: 1,
        flagOnly: true,
        parse: (text) => integer(text, 1, Number.MAX_SAFE_INTEGER),
      },
    },
    notes: [
      ...keyNotes,
      '',
      'Lines:',
      '  {"type": "check", "asset_key": ["warehouse", "orders"], "check_name": "no_nulls", "passed": true}',
      '  The members are the parameters of the API; the lines of a journal will do as they are. They are sent in order, one',
      '  at a time; one that is refused is told, and the next one is sent.',
      '',
      'Examples:',
      '  assetlog report materialization warehouse/orders --partition 2026-11-20 --metadata rows:=10 --metadata by=cron',
      '  assetlog report check warehouse/orders --check-name no_nulls --failed --severity WARN',
      '  assetlog report observation warehouse/orders --url https://assets.example/prod --token-file token.txt',
      '  assetlog report --from reports.jsonl --retry-for 10m',
      '',
      'Exit codes:',
      '  0 recorded, 1 refused: the same will be refused again, 2 flags or files,',
      '  75 try later: the service was away, or it is in doubt whether the report was recorded',
    ],
  };
}

async function run(call: Call, output: Output): Promise<ExitCode> {
  const stop = new AbortController();
  let service: Service | undefined;
  try {
    const submission = call.from === undefined ? readOperands(call) : checkAlone(call);
    service = await openService(call, stop.signal, output);
    if (submission !== undefined) return await reportOne(submission, service, output);
    return await reportAll(call, service, stop, output);
  } catch (error) {
    output.progress('');
    output.complain((error as Error).message);
    return exitCodes.configuration;
  } finally {
    service?.close();
  }
}

interface Service {
  readonly url: string;
  send(submission: Submission): ReturnType<typeof deliver>;
  close(): void;
}

/** @throws Error for a URL with a user, a query or a fragment, and for a token that can not be read or sent */
async function openService(
  { url, tokenFile, tokenHeader, retryFor }: Values,
  stopped: AbortSignal,
  output: Output,
): Promise<Service> {
  const { origin, protocol, pathname, username, password, search, hash } = new URL(url);
  if (username + password + search + hash !== '') {
    throw new Error(
      '--url has a user, a query or a fragment; what a proxy asks for goes into --token-file and --token-header',
    );
  }
  const base = origin + pathname.replace(/\/+$/, '');
  const headers = {
    'Content-Type': 'application/json',
    'User-Agent': `assetlog/${version}`,
    ...(tokenFile === '' ? {} : { [tokenHeader]: await readToken(tokenFile, output) }),
  };
  const client = openClient(protocol, limits);
  const patience: Patience = {
    retryForMs: retryFor,
    stopped,
    limits,
    onWait: (reason, waitMs) => output.progress(`${base} ${reason}; again in ${(waitMs / 1000).toFixed(1)} s`),
  };
  const post = ({ endpoint, body }: Submission): Promise<Answer> =>
    client.call(new URL(`${base}${endpoint.path}/`), { method: 'POST', headers, body, replyMs: limits.replyMs });
  return { url: base, send: (submission) => deliver(() => post(submission), patience), close: client.close };
}

/** @throws Error if the file holds no valid token. Its message does not contain the token. */
async function readToken(path: string, { complain }: Output): Promise<string> {
  const { text, exposed } = await readSecret(path, limits.tokenBytesMax);
  const token = text.trim();
  if (!/^[\x21-\x7e][\x20-\x7e]*$/.test(token)) {
    throw new Error(`${path} holds no token, or more than a token; write it into one line of ASCII`);
  }
  if (exposed) complain(`everybody on this machine may read the token in ${path}; chmod 600 it`);
  return token;
}

async function reportOne(submission: Submission, { url, send }: Service, output: Output): Promise<ExitCode> {
  const found = await send(submission);
  output.progress('');
  if (found.kind === 'recorded') return exitCodes.done;
  const outlook = found.kind === 'in doubt' ? '; it may have been recorded, and sent again it may be there twice' : '';
  output.complain(`${url} ${found.reason}${found.kind === 'away' ? '; try again later' : outlook}`);
  return found.kind === 'in doubt' || found.kind === 'away' ? exitCodes.tryLater : exitCodes.refused;
}

async function reportAll(
  { from = '-', fromLine, endpoints }: Call,
  { send }: Service,
  stop: AbortController,
  output: Output,
): Promise<ExitCode> {
  const { stream, bytes } = from === '-' ? { stream: process.stdin, bytes: undefined } : await openStream(from);
  // A signal ends the run after the line that is being sent. The same signal again has its default action: it ends the process.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  stop.signal.addEventListener('abort', () => stream.destroy());
  async function* chunks(): AsyncIterable<Buffer> {
    try {
      yield* stream;
    } catch (error) {
      if (!stop.signal.aborted) throw new Error(`${from} can not be read: ${(error as Error).message}`);
    }
  }
  const read = (line: string) => readSubmission(line, endpoints);
  const { lineBytesMax } = limits;
  return reportLines({ chunks: chunks(), bytes, fromLine, lineBytesMax, read, send, stopped: stop.signal }, output);
}

/** @throws Error for operands and parameter options, which can not be combined with --from */
function checkAlone({ said, operands }: Call): undefined {
  const [name] = said.keys();
  if (operands.length === 0 && name === undefined) return;
  throw new Error(
    `${name === undefined ? 'a key' : `--${flagOf(name)}`} can not stand beside --from; it belongs into the lines`,
  );
}

/** @throws Error if the operands and options do not make a valid report */
function readOperands({ endpoints, said, operands: [first = '', ...words] }: Call): Submission {
  const endpoint = endpoints.find(({ name }) => name === first);
  if (endpoint === undefined || words.length === 0) {
    const kinds = endpoints.map(({ name }) => name);
    const hint = endpoint === undefined ? didYouMean(first, kinds) : '';
    throw new Error(
      `say what to report: assetlog report ${endpoint?.name ?? kinds.join('|')} KEY, or --from FILE${hint}`,
    );
  }
  const parameters = new Map<string, string>();
  for (const parameter of allParameters(endpoints)) {
    const options = Object.keys(optionsOf(parameter, endpoints));
    const flags = options.map((name) => `--${flagOf(name)}`);
    const [given, second] = options.filter((name) => said.has(name));
    if (!endpoint.parameters.includes(parameter)) {
      if (given !== undefined) throw new Error(`--${flagOf(given)} does not go with ${endpoint.name}; leave it out`);
    } else if (parameter.kind === 'key') {
      parameters.set(parameter.name, JSON.stringify(keyOf(words)));
    } else if (parameter.required && (given === undefined || second !== undefined)) {
      throw new Error(`a ${endpoint.name} needs ${flags.length > 1 ? 'one of ' : ''}${flags.join(' and ')}`);
    } else if (second !== undefined) {
      throw new Error(`give ${flags.join(' or ')}, not both`);
    } else if (given !== undefined) {
      parameters.set(parameter.name, jsonOf(said.get(given)));
    }
  }
  return submit(endpoint, parameters);
}

function jsonOf(value: Value = ''): string {
  return typeof value === 'string' ? value : objectOf(value);
}

function keyOf(words: readonly string[]): string[] {
  try {
    return readKey(words);
  } catch (error) {
    throw new Error(`${JSON.stringify(words.join(' '))} ${(error as Error).message}`);
  }
}
