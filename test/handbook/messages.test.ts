/**
 * The page of messages. Every text with which a program ends, a service is not ready, or forwarding waits or stops is on it, or
 * is excused below with a reason. And the page has no message that the program does not have.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { texts } from '../../src/commands/all-commands.ts';
import { decisions } from '../../src/journal/open/recovery.ts';
import { page, pagePaths, pathOf } from '../support/handbook.ts';
import { type Literal, literalsIn } from '../support/literals.ts';
import { root } from '../support/program.ts';
import { sources } from '../support/sources.ts';

const PAGE = pathOf('messages');

/** The files and folders of `src/` with such messages. */
const searched = [
  'assets/',
  'commands/cli/data-folder.ts',
  'commands/cli/end.ts',
  'commands/forward/',
  'commands/main.ts',
  'commands/serve.ts',
  'commands/upkeep/',
  'config/',
  'deployments/file.ts',
  'deployments/journals.ts',
  'forward/',
  'http/app.ts',
  'http/socket/uploads.ts',
  'journal/',
  'reading/journals.ts',
  'server.ts',
  'service.ts',
  'service/',
];

/** The other files and folders of `src/`, by what their texts are. */
const unsearched: Readonly<Record<string, string>> = {
  'build.ts': 'a script that is no part of the program',
  'client/': 'failures that are retried, and end with the reply of the service',
  'commands/': 'help, results, and refusals that say what to write instead',
  'deployments/': 'replies with 401 and 403, and tokens',
  'embed.ts': 'errors in a test, at the line that is wrong',
  'embed/': 'errors in a test, at the line that is wrong',
  'event/': 'replies with 400, which say what to send',
  'history/': 'what is shown of an asset',
  'http/': 'replies, whose status is on the page http',
  'reading/': 'replies, whose status is on the page http',
  'release.ts': 'a script that is no part of the program',
  'telemetry/': 'the log, and descriptions of metrics',
  'test-mode/': 'replies to a test',
  'waiting/': 'no texts',
};

/** Files in these folders without such messages, by what their texts are. */
const excusedFiles: Readonly<Record<string, string>> = {
  'commands/serve.ts': 'what a start prints',
  'forward/destinations/clickhouse/ddl.ts': 'SQL',
  'forward/hub/received.ts': 'replies with 400, which a device shows as damage',
  'forward/hub/sources.ts': 'log lines of a hub that continues',
  'journal/line/line-schema.ts': 'a part of /openapi.json',
};

interface Text extends Literal {
  readonly path: string;
}

/** Many messages that a row explains with an example. */
const families: readonly { readonly span: string; readonly paths: string; readonly pattern: RegExp }[] = [
  { span: '--port "x" is not', paths: 'config/', pattern: /^(is (not|neither|one)|has more than|would let) / },
  { span: 'x.json, line 1, column 6: expected', paths: 'config/json-file.ts', pattern: /^line …, column …/ },
  { span: 'x.json, line 1: destinations[0].to', paths: 'config/json-file.ts', pattern: /^(must be|at least|is not) / },
  { span: 'x.json, line 1: destinations[0].to', paths: 'deployments/file.ts', pattern: /^(must be|is) / },
  { span: 'x.json, line 1: destinations[0].to', paths: 'forward/settings-file.ts', pattern: /^(must|is|has|means) / },
  { span: 'x.json, line 1: destinations[0].to', paths: 'forward/only.ts', pattern: /^(must be|has) / },
  { span: 'x.json, line 1: destinations[0].to', paths: 'forward/headers.ts', pattern: /^(must be|has|is) / },
  { span: 'x.json, line 1: destinations[0].to', paths: 'forward/destinations/kinds.ts', pattern: /^(must|has|names) / },
  { span: 'answers 403', paths: 'forward/destinations/http.ts', pattern: /^answers …: …/ },
  { span: 'answers 503', paths: 'forward/destinations/clickhouse/answers.ts', pattern: /^answers …: …/ },
];

/** Texts without a row, by the reason: parts of them, or patterns. */
interface Excuse {
  readonly reason: string;
  /** Beginnings of the paths of its files. */
  readonly paths: readonly string[];
  readonly texts: readonly (string | RegExp)[];
}

const excuses: readonly Excuse[] = [
  {
    reason: 'it says itself what to write instead',
    paths: ['commands/', 'config/', 'deployments/', 'forward/settings-file.ts', 'journal/entry.ts', 'service'],
    texts: [/[;,] (add|choose|give|leave|list|make|move|name|rename|save|send|use|write|stop it) /],
  },
  {
    reason: 'the beginning of the message names the mistake in the command line',
    paths: ['config/'],
    texts: [
      /needs a value: …/,
      /^unexpected argument/,
      'options are written --name value',
      'a value of several words needs quotes',
      'it takes no value',
      'at most 64 characters',
      '--watch-asset starts with',
      'and no more are read',
    ],
  },
  {
    reason: 'it says itself what to do, or that another try is enough',
    paths: ['commands/', 'config/', 'forward/', 'http/', 'journal/', 'reading/', 'service'],
    texts: [
      'name a destination of',
      'or check headers',
      /^the proxy in … …$/,
      'nothing is forwarded; start a service',
      /^… cannot be read: …; …$/,
      'check its file system, or the program that writes',
      'may write to',
      'o-w it',
      'run: nats stream',
      'nats stream edit',
      'let account and server',
      'create another one',
      'add jetstream',
      /^is version …/,
      'forward ddl clickhouse',
      'let the user change',
      'run assetlog verify',
      'run assetlog repair, then',
      'erase fewer at a time',
      'a restart of the service erases the rest',
      'give it a name of its own',
      'continue with SIGHUP',
      'is a hook with "on"',
      'set it with forward from',
      'the first event that it lacks',
      'gunzip',
      'give the service a new --data folder',
      'was removed or replaced by another program',
      'another program changed it',
      'the service ends without it',
      'stays in effect; see the log',
      'no other file is read before it does',
      'the disk does not keep up',
      'send the report again later',
      'too many readings are active',
      /^the data folder is (in|on) /,
      'supports no socket files',
    ],
  },
  {
    reason: 'the table of states in forward-mend.md has it',
    paths: ['forward/pipe/'],
    texts: ['no service uses the folder', 'the service does not have this destination'],
  },
  {
    reason: 'the beginning of the message names the option',
    paths: ['forward/settings-file.ts'],
    texts: [/^--on-failed-check must be/, '{"file": "PATH"} or "none"', 'user and passwordFile are members'],
  },
  {
    reason: 'a command prints it as a result',
    paths: ['commands/'],
    texts: [
      'is not a seq such as 7',
      /^alarms: … open/,
      'tries again at …',
      'removed before it confirmed them',
      /^assetlog forward dead …/,
      'DOES NOT WORK',
      'no event yet',
      /^backed up … to …/,
      'nothing to repair',
      /this (was|is to be) done/,
      /^(note|remove|write|lines|removed|erased|bad|end) /,
      'before the first bad line',
      'damaged or not read',
      'shows how it can be repaired',
      'it was never forwarded',
      'run it again to continue',
      'has the events before the damage',
      'uses …; stop it',
      'were accepted',
    ],
  },
  {
    reason: 'the answer of a service to a command, which prints it with what to do',
    paths: [
      'service/door.ts',
      'journal/lock/protocol.ts',
      'forward/pipe/retry.ts',
      'assets/journal-assets.ts',
      'deployments/',
    ],
    texts: [
      'this service keeps no state of assets',
      'another retry is in progress',
      'forwarding to … has not started',
      'its journal is not open',
      'the request names no file',
      'the service does not know the request',
      'the service does not forward to …',
    ],
  },
  {
    reason: 'a change by hand was done',
    paths: ['forward/by-hand.ts'],
    texts: ['continues with event …', 'the journal has the id', 'the journal ends with event'],
  },
  {
    reason: 'forward test prints it for a destination that works',
    paths: ['forward/destinations/kinds.ts'],
    texts: [/^it is (not )?a hub/, 'was not tried'],
  },
  {
    reason: 'it is a part of a message, and another part has a row',
    paths: [''],
    texts: [
      '; debug logs a line for each request',
      'waits for another file',
      /^not set up$/,
      /^the service stops$/,
      /^the event was erased$/,
      'send the report again when the service is back',
      /^keep it, and give an empty folder/,
      /^(it is damaged|the disk is full|another process writes to it)$/,
      /^it (does not have all earlier events|has not acknowledged an event)/,
      /^forwarding is stopped$/,
      'identity --new --seq … leaves events out',
      'unless it knows this journal',
      'ahead of the journal',
      'client certificates are not sent',
      'captive portal',
      /^name a CA file|has its CA$/,
      'what the user may do',
      /^a token file/,
      'begin as NATS does',
      'lines in a second',
      /--(discard|subjects|ack|no-transform|allow-batch)/,
      /has a stream … that …/,
      /^a (line|message) (has|is not)/,
      /^forward (from|identity)/,
      'stop the service and run assetlog …',
      'before the destination has a later event',
      /this journal, which ends with …, does not/,
      'is the first event recorded after',
      'it is tried again every',
      'unless it can be asked',
      'its lines are not in order',
      /^the events … to …$/,
      'or give the journal a new id',
      'the disk accepts no more bytes',
      'the disk quota is used up',
      /^(held back until it does|shown, and the last of them)/,
      /^(retention removed them|an earlier repair could)/,
      /^; (this end is skipped|the rest of this file|reading continues|… skipped)/,
      'shows how to repair it',
      'no space to copy',
      'let the user of the service',
      'make it writable',
      'or choose another with --data',
      'the folder … cannot be read',
      'make it readable',
      'choose another with --data',
      /^(holds journals of deployments|was made with --deployments|--data … for that journal)/,
      /^report and read|, empty the journal|; see --deployments, or use/,
      /^(every user of this machine|the group …)$/,
      'so decide',
      'the file of --forward …',
      'the start has ended',
      'was locked by another process',
    ],
  },
  {
    reason: 'it is why an event is in the dead letters',
    paths: ['forward/'],
    texts: [
      'an operator gave it up',
      ', and the destination may have it',
      'not all can be read',
      'its line is too long for this file',
      'when the service stopped',
      'an earlier request may have been recorded',
      'and this one would be larger',
    ],
  },
  {
    reason: 'a destination said something unexpected, and is asked again at once',
    paths: ['forward/'],
    texts: [
      /^has (event … of|another last message|not been asked yet|not answered before)/,
      'it answered with event',
      'is no longer used',
      /which is not a (number|list)/,
      'acknowledges … of … events',
      'knows the insert of the events',
      'the next event that this hub needs',
    ],
  },
  {
    reason: 'it is sent to a destination',
    paths: ['forward/destinations/'],
    texts: [/^(CONNECT|PUB|HPUB|NATS|SELECT|INSERT) ?/, 'max(seq)'],
  },
  {
    reason: 'a log line, and what it says of reports or forwarding has a row',
    paths: [''],
    texts: [
      'a source has lost events',
      'the limit of journals is near',
      'events are gone that a destination has not',
      'events are removed that a destination has not',
      'events cannot be forwarded now',
      'an event is in doubt',
      'a request failed because of',
      'a body could not be received',
      'the file system reports no free space',
      'reports could not be encoded',
      'the disk does not answer;',
      'the line of an earlier report cannot be read',
      'retention would remove events',
      'at the next start',
      'forwarding did not end',
      'is no longer locked',
      'and the removed bytes are from',
      'are not shown; see assetlog verify',
    ],
  },
  {
    reason: 'a reply to a client, and http.md has its status',
    paths: [''],
    texts: [
      'a GET of this path has no body',
      'the body stalled',
      'send them in parts',
      'overrides another key',
      'an unknown parameter is ignored',
      'reading is off',
      'only a service without deployments can be reset',
      /^(--strict refuses it|test mode is strict|…; --strict=false ignores it)$/,
    ],
  },
  {
    reason: 'a reader, a repair or a backup says itself what is wrong and what to do',
    paths: ['journal/look/'],
    texts: [
      'this end was left out',
      'holds a backup of another journal',
      'does not answer: its newest lines',
      'move it out of the folder',
      'in other files',
      'started while its journal was copied',
      'differs from that in',
      'before they were copied',
      'does not end with a line',
      'it is read again',
      'is read from its start',
    ],
  },
  {
    reason: 'it shows a defect of the service, and ends with exit code 1, or stops the destination',
    paths: [''],
    texts: [
      'would be passed, and no dead letter names them',
      'the lines of a batch end with',
      'the keys of ',
      'keys are not looked up here',
      'no line starts at byte',
      /^the line at byte …/,
      'a reader of … has the line',
      'bytes before the end of a line that was there',
      'its id is too long',
      /^only … of … bytes were written/,
      'is not the URL of an engine',
    ],
  },
];

const plain = (text: string) => text.replace(/\s+/g, ' ').trim();
const help = plain(Object.values(texts()).join('\n'));
const kinds: ReadonlySet<string> = new Set(Object.entries(decisions).flatMap(([kind, { why }]) => [kind, why]));

/** The first cells of the rows, and the messages in them. */
const rows = page('messages').match(/^\| .*`.*\|$/gm) ?? [];
const spans = rows.flatMap((row) =>
  [...(row.split(' | ')[0] ?? '').matchAll(/`([^`]+)`/g)].map(([, span = '']) => span),
);

/** Texts of three and more words, in all folders of `src/`. */
const all: readonly Text[] = [...sources]
  .flatMap(([path, source]) => literalsIn(source).map((literal) => ({ ...literal, text: plain(literal.text), path })))
  .filter(({ text }) => text.split(' ').filter((word) => /\p{L}/u.test(word)).length >= 3);
const startsWithOne = (path: string, starts: readonly string[]) => starts.some((start) => path.startsWith(start));
const found = all.filter(({ path }) => startsWithOne(path, searched) && !Object.hasOwn(excusedFiles, path));

/** Whether a log line says it while the service continues. */
const isLogged = ({ before }: Text) => /\.(info|debug|warn)\(\s*$/.test(before);

const isExcused = ({ path, text }: Text, { paths, texts: parts }: Excuse) =>
  paths.some((start) => path.startsWith(start)) && parts.some((part) => isIn(text, part));
const isIn = (text: string, part: string | RegExp) =>
  typeof part === 'string' ? text.includes(part) : part.test(text);

/** Whether a text is a row, or it is clear from the code that it needs none. */
function isFound(message: Text): boolean {
  const { text, path } = message;
  return (
    spans.some((span) => text.includes(span)) ||
    families.some(({ paths, pattern }) => path.startsWith(paths) && pattern.test(text)) ||
    isLogged(message) ||
    help.includes(text) ||
    kinds.has(text)
  );
}

const rowless = found.filter((message) => !isFound(message));

test('each message of the program is on the page of messages, or is excused with a reason', () => {
  const missing = rowless.filter((message) => !excuses.some((excuse) => isExcused(message, excuse)));
  const list = missing.map(({ path, line, text }) => `src/${path}:${line}: ${text}`).join('\n');
  const remedy = `add a part of each to the first cell of a row of ${PAGE}, or to the excuses of test/handbook/messages.test.ts`;
  assert.equal(missing.length, 0, `messages without a row; ${remedy}:\n${list}`);
});

test('each message on the page of messages is in the program', () => {
  const all = [...sources.values()].flatMap((source) => literalsIn(source).map(({ text }) => plain(text)));
  const examples = families.map(({ span }) => span);
  const stale = spans.filter((span) => !examples.includes(span) && !all.some((text) => text.includes(span)));
  assert.deepEqual(stale, [], 'no text of the program contains these');
  assert.deepEqual(
    examples.filter((span) => !spans.includes(span)),
    [],
    'these examples are missing on the page',
  );
  assert.deepEqual(
    spans.filter((span) => !span.includes(' ')),
    [],
    'one word would match too many messages',
  );
  const double = spans.filter((span, at) => spans.indexOf(span) !== at);
  assert.deepEqual(double, [], 'a message has one row');
});

test('each excuse of a message without a row is needed', () => {
  const unneeded = excuses.flatMap((excuse) =>
    excuse.texts.filter((part) => !rowless.some((message) => isExcused(message, { ...excuse, texts: [part] }))),
  );
  assert.deepEqual(unneeded, []);
  assert.deepEqual(
    Object.keys(excusedFiles).filter((path) => !sources.has(path)),
    [],
  );
});

test('each folder is searched or left out with a reason, and no message has a code name that is on no page', () => {
  const paths = [...sources.keys()];
  assert.deepEqual(
    paths.filter((path) => !startsWithOne(path, [...searched, ...Object.keys(unsearched)])),
    [],
  );
  const pages = pagePaths.map((path) => readFileSync(join(root, path), 'utf8')).join('\n');
  const words = new Set(pages.match(/\w+/g));
  const NOT_OURS = ['enableServiceLinks', 'argMax', 'getBuiltinModule', 'toNotFake']; // of Kubernetes, SQL, Node, Vitest
  const names = all
    .filter(({ path }) => !Object.hasOwn(excusedFiles, path))
    .flatMap(({ path, line, text }) =>
      (text.match(/(?<!\w)\p{Ll}+\p{Lu}\w*/gu) ?? [])
        .filter((name) => !words.has(name) && !NOT_OURS.includes(name))
        .map((name) => `src/${path}:${line}: ${name} in ${text}`),
    );
  assert.deepEqual(names, []);
});
