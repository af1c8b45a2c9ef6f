/** `assetlog report`: one report from options, or many from lines, to a service of this API wherever it runs. */

import { reportLines } from './bulk.ts';
import { type Answer, openClient } from './client.ts';
import { defineCommand, type ExitCode, exitCodes, type Output } from './command.ts';
import { limits, options, version } from './config.ts';
import { deliver, type Patience } from './delivery.ts';
import { openStream, readSecret } from './disk.ts';
import { keyNotes, readKey } from './key.ts';
import { didYouMean, duration, flagOf, integer, type Option, type Options } from './options.ts';
import { kinds, objectOf, readObject, readValue, type Submission, submit, takes } from './submission.ts';

interface Values extends Said {
  readonly url: string;
  readonly tokenFile: string;
  readonly tokenHeader: string;
  readonly retryFor: number;
  readonly from: string | undefined;
  readonly fromLine: number;
}

/** What the options say about the asset. */
interface Said {
  readonly partition: string | undefined;
  readonly dataVersion: string | undefined;
  readonly description: string | undefined;
  readonly metadata: ReadonlyMap<string, string> | undefined;
  readonly metadataJson: string | undefined;
  readonly checkName: string | undefined;
  readonly passed: boolean;
  readonly failed: boolean;
  readonly severity: string | undefined;
}

function text(argument: string, help: string): Option<string | undefined> {
  return { argument, help, initial: undefined, flagOnly: true, parse: (text) => text };
}

function flag(help: string): Option<boolean> {
  return { argument: '', help, initial: false, parse: () => true };
}

const severities = ['WARN', 'ERROR'] as const;

const said: Options<Said> = {
  partition: text('NAME', 'partition of the asset'),
  dataVersion: text('TEXT', 'version of the data (materialization, observation)'),
  description: text('TEXT', 'for people (materialization, observation)'),
  metadata: {
    argument: 'NAME=TEXT',
    help: 'one member of the metadata, a text; NAME:=JSON for any value, as in rows:=10; may be repeated',
    initial: undefined,
    repeated: true,
    flagOnly: true,
    parse: (text, before = new Map()) => {
      const [, name = '', json, value = ''] = /^([^=]*?)(:)?=(.*)$/s.exec(text) ?? [];
      if (name === '') throw new Error('is not of the form NAME=TEXT or NAME:=JSON');
      if (before.has(name)) throw new Error('gives a name for the second time');
      return new Map([...before, [name, json === undefined ? JSON.stringify(value) : readValue(value)]]);
    },
  },
  metadataJson: { ...text('OBJECT', 'the whole metadata as a JSON object; every digit is kept'), parse: readObject },
  checkName: text('NAME', 'name of the check (check)'),
  passed: flag('the check passed (check)'),
  failed: flag('it did not'),
  severity: {
    ...text('LEVEL', 'WARN or ERROR: how bad it is that a check failed (check)'),
    standard: 'ERROR',
    choices: severities,
    parse: (text) => {
      const severity = severities.find((known) => known === text.toUpperCase());
      if (severity === undefined) throw new Error('is not a severity; use WARN or ERROR');
      return severity;
    },
  },
};

const LOCAL = 'http://127.0.0.1:3000';

export const report = defineCommand<Values>(
  {
    summary: 'report a materialization, a check or an observation, or a file of them',
    about:
      'Sends a report and ends with 0 when it is recorded. While the service can not be reached or answers 408, 429 or 503\n' +
      'it is asked again, when its Retry-After allows. What may have been recorded is not sent again: where the connection\n' +
      'broke behind the report, or no reply came, or a 500.',
    operands: { text: `${kinds.join('|')} KEY...`, max: 1_000, choices: kinds },
    options: {
      ...said,
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
  },
  run,
);

async function run(values: Values, output: Output, operands: readonly string[]): Promise<ExitCode> {
  const stop = new AbortController();
  let service: Service | undefined;
  try {
    const submission = values.from === undefined ? readOperands(values, operands) : checkAlone(values, operands);
    service = await openService(values, stop.signal, output);
    if (submission !== undefined) return await reportOne(submission, service, output);
    return await reportAll(values.from ?? '-', values.fromLine, service, stop, output);
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

/** @throws Error for a URL or a token that can not be sent */
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
  const post = ({ kind, body }: Submission): Promise<Answer> =>
    client.call(new URL(`${base}/report_asset_${kind}/`), { method: 'POST', headers, body, replyMs: limits.replyMs });
  return { url: base, send: (submission) => deliver(() => post(submission), patience), close: client.close };
}

/** @throws Error that does not show the token */
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
  from: string,
  fromLine: number,
  { send }: Service,
  stop: AbortController,
  output: Output,
): Promise<ExitCode> {
  const { stream, bytes } = from === '-' ? { stream: process.stdin, bytes: undefined } : await openStream(from);
  // The first signal ends the run behind the line that is on its way, the second one ends it at once.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  stop.signal.addEventListener('abort', () => stream.destroy());
  async function* chunks(): AsyncIterable<Buffer> {
    try {
      yield* stream;
    } catch (error) {
      if (!stop.signal.aborted) throw new Error(`${from} can not be read: ${(error as Error).message}`);
    }
  }
  return reportLines({ chunks: chunks(), bytes, fromLine, send, stopped: stop.signal }, output);
}

/** @throws Error for what can not stand beside --from */
function checkAlone(values: Values, operands: readonly string[]): undefined {
  const [name] = Object.keys(said).filter((name) => values[name as keyof Said]);
  if (operands.length === 0 && name === undefined) return;
  throw new Error(
    `${name === undefined ? 'a key' : `--${flagOf(name)}`} can not stand beside --from; it belongs into the lines`,
  );
}

/** @throws Error for operands and options that do not make a report */
function readOperands(values: Values, [first = '', ...words]: readonly string[]): Submission {
  const kind = kinds.find((known) => known === first);
  if (kind === undefined || words.length === 0) {
    const hint = kind === undefined ? didYouMean(first, kinds) : '';
    throw new Error(`say what to report: assetlog report ${kind ?? kinds.join('|')} KEY, or --from FILE${hint}`);
  }
  const { partition, dataVersion, description, checkName, severity, passed, failed, metadata, metadataJson } = values;
  const parameters = new Map([['asset_key', JSON.stringify(keyOf(words))]]);
  const set = (option: string, json: string | undefined, name = flagOf(option).replace('-', '_')) => {
    if (json === undefined) return;
    if (!takes(kind, name)) throw new Error(`--${flagOf(option)} does not go with ${kind}; leave it out`);
    parameters.set(name, json);
  };
  for (const [option, text] of Object.entries({ partition, dataVersion, description, checkName, severity })) {
    set(option, JSON.stringify(text));
  }
  if (passed || failed) set(passed ? 'passed' : 'failed', String(passed), 'passed');
  if (kind === 'check' && (checkName === undefined || passed === failed)) {
    throw new Error('a check needs --check-name, and one of --passed and --failed');
  }
  if (metadata !== undefined && metadataJson !== undefined) {
    throw new Error('give --metadata or --metadata-json, not both');
  }
  set('metadata', metadata === undefined ? metadataJson : objectOf(metadata));
  return submit(kind, parameters);
}

function keyOf(words: readonly string[]): string[] {
  try {
    return readKey(words);
  } catch (error) {
    throw new Error(`${JSON.stringify(words.join(' '))} ${(error as Error).message}`);
  }
}
