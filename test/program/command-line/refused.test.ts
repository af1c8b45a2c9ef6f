/** Command lines that are refused: the exit code, and the one sentence that says what is wrong and what to do. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { segmentName } from '../../../src/journal/segments.ts';
import { type CommandRow, runRows } from '../../support/command-rows.ts';
import { newFolder } from '../../support/program.ts';
import { FIRST, segment } from '../../support/segments.ts';

/** A journal of three files, another journal, one of two deployments, one whose file is a folder, and places without a journal. */
function folders(t: TestContext) {
  const folder = newFolder(t);
  const at = (path: string) => join(folder, path);
  for (const name of ['data', 'other', 'hosted/prod', 'hosted/test', `broken/${FIRST}`, 'empty'])
    mkdirSync(at(name), { recursive: true });
  for (const firstSeq of [1, 101, 201]) writeFileSync(at(`data/${segmentName(firstSeq)}`), segment(firstSeq, 100));
  for (const name of ['other', 'hosted/prod', 'hosted/test']) writeFileSync(at(`${name}/${FIRST}`), segment(1, 100));
  writeFileSync(at('file'), '');
  symlinkSync(at('data'), at('link'));
  return {
    DATA: at('data'),
    LINK: at('link'),
    OTHER: at('other'),
    HOSTED: at('hosted'),
    BROKEN: at('broken'),
    EMPTY: at('empty'),
    FILE: at('file'),
    TO: at('backups/of-data'),
  };
}

test('an unknown command or option is refused with the nearest one, and a control character is shown as its escape', async () => {
  await runRows({}, [
    ['--prot 1', 2, '', 'assetlog: unknown option --prot; did you mean --port?'],
    ['serv', 2, '', 'assetlog: unknown command "serv"; did you mean serve?'],
    ['toString', 2, '', 'assetlog: unknown command "toString"'],
    ['completion', 2, '', 'assetlog: name a shell: assetlog completion bash|zsh'],
    ['completion bsh', 2, '', 'assetlog: name a shell: assetlog completion bash|zsh; did you mean bash?'],
    ['healthcheck --data x', 2, '', 'assetlog: unknown option --data'],
    ['events --data /no\u202e\u2028', 2, '', /^assetlog: there is no journal in \/no\\u202e\\u2028: /],
    [
      'events --partition a\u001b\u0085',
      2,
      '',
      /^assetlog: --partition "a\\u001b\\u0085" has the control character U\+001B; /,
    ],
  ]);
});

test('a search that is no search, and a folder without a journal, are refused', async (t) => {
  await runRows(folders(t), [
    ['events $DATA --key a//b', 2, '', /^assetlog: --key "a\/\/b" is not a key; write warehouse\/orders, or /],
    ['events $DATA --key [1]', 2, '', /is not a key/],
    [`events $DATA --contains ''`, 2, '', /--contains needs a value: --contains TEXT/],
    [`events $DATA --contains ${'x'.repeat(101)}`, 2, '', /is not a text of 1 to 100 characters/],
    ['events $DATA --severity bad', 2, '', /--severity "bad" is not a severity; use WARN or ERROR/],
    ['events $DATA --id 3', 2, '', /--id "3" is not the id of an event, such as 01a1fb95-/],
    ['events $DATA --until-seq -1', 2, '', /--until-seq "-1" is not a whole number from 0 to /],
    ['events $DATA --key-begins-with a//b', 2, '', /--key-begins-with "a\/\/b" is not the start of a key; write /],
    ['events $DATA --type checks', 2, '', /is not a type; use one of materialization, check, observation/],
    ['events $DATA --since 2026-02-30', 2, '', /is not a time such as 2026-11-20, /],
    ['events $DATA --until yesterday', 2, '', /is not a time/],
    ['events $DATA --last 0', 2, '', /is not a whole number from 1 to 1000000/],
    ['events $DATA --passed --failed', 2, '', /use one of --passed and --failed/],
    ['events $DATA --csv --json', 2, '', 'assetlog: use one of --json, --table and --csv'],
    ['events $DATA --by id', 2, '', /--by "id" is not a time of an event; use time or event_time/],
    ['events $DATA --by event_time --follow', 2, '', /leave out --by event_time/],
    ['events --data $TO', 2, '', /there is no journal in \$TO: ENOENT.*; give its folder with --data/],
    ['events $TO --data $DATA', 2, '', /\$TO" and --data \S+ are not the same; give one of them/],
    [
      'events $BROKEN',
      5,
      '',
      /^assetlog: the journal in \$BROKEN could not be shown: .*is not a regular file; move it away/,
    ],
    ['assets $DATA --csv --table', 2, '', 'assetlog: use one of --json, --table and --csv'],
    ['assets $DATA --stale 26', 2, '', /is not a duration such as 30m, 26h or 2d/],
    ['assets $DATA --by=event_time', 2, '', /^assetlog: --by is gone; the state goes by when things happened/],
    ['assets $DATA --since 1h', 2, '', /^assetlog: --since is gone; use assetlog events --since/],
    ['assets $DATA --until 1h', 2, '', /^assetlog: --until is gone; use assetlog events --until/],
    ['assets $DATA --source 1h', 2, '', /^assetlog: --source is gone; use assetlog events --source/],
    ['assets $DATA other', 2, '', /give one folder, or forget KEY/],
    ['asset ware --data $DATA', 1, '', 'assetlog: no asset has the key ware; assetlog assets lists all'],
    [`asset '["a/1"]' --data $DATA`, 1, '', 'assetlog: no asset has the key ["a/1"]; run: assetlog asset a/1'],
    [
      'asset --data $DATA',
      2,
      '',
      'assetlog: give the KEY of an asset, such as warehouse/orders; assetlog assets lists all',
    ],
    ['asset a//b --data $DATA', 2, '', /^assetlog: "a\/\/b" is not a key; write /],
    ['asset a --data $DATA --json --table', 2, '', 'assetlog: use one of --json, --table and --csv'],
    ['asset a --data $HOSTED', 2, '', /give one of them, such as --data /],
  ]);
});

test('a wrong call of forget or erase is refused, and changes nothing', async (t) => {
  const values = folders(t);
  await runRows(values, [
    ['assets forget --data $DATA', 2, '', /give forget KEY, or forget with --key-prefix and --stale/],
    ['assets forget a/1 --key-prefix a --stale 1d --data $DATA', 2, '', /give forget KEY/],
    ['assets forget --key-prefix a --data $DATA', 2, '', /give forget KEY/],
    [
      'assets forget --key-prefix a --stale 0s --failing --data $DATA',
      2,
      '',
      /forget does not accept --failing; leave it out/,
    ],
    ['assets forget a//b --data $DATA', 2, '', /"a\/\/b" is not a key/],
    ['assets forget a/1 --url http://127.0.0.1:1 --data $DATA', 2, '', /leave --url out/],
    ['assets forget nothing --data $DATA', 2, '', /has no such asset/],
    ['erase $DATA', 2, '', /say which events to erase/],
    ['erase $DATA --passed --failed --key a', 2, '', /use one of --passed and --failed/],
  ]);
  assert.deepEqual(readdirSync(values.DATA), [1, 101, 201].map(segmentName));
});

test('a folder that cannot be a backup of this journal is refused with the reason', async (t) => {
  const values = folders(t);
  await runRows(values, [
    ['backup --data $DATA', 2, '', 'assetlog: no folder for the backup; give one with --to'],
    ['backup --data $DATA --to $DATA', 2, '', / is \$DATA, or inside it; give a folder elsewhere/],
    ['backup --data $DATA --to $LINK/deep/er', 2, '', / is \$DATA, or inside it; give a folder elsewhere/],
    [
      'backup --data $DATA --to $OTHER',
      2,
      '',
      /holds a backup of another journal, .*events-0{19}1\.jsonl differs from that in .*give an empty folder with --to\n$/,
    ],
    ['backup --data $EMPTY/none --to $TO', 2, '', /there is no journal in /],
    ['backup --data $TO --to $OTHER', 2, '', /there is no journal in /],
    [
      'backup --data $DATA --to $FILE/deep',
      2,
      '',
      /the folder \$FILE\/deep cannot be used: ENOTDIR.*; make it writable or give another with --to\n$/,
    ],
  ]);
  assert.deepEqual(readdirSync(values.DATA).length, 3);
});

const NOTHING_TO_REPAIR = { damaged: [], written: [], newly_lost: [], done: false };

test('verify and repair report a missing or unreadable journal in one line, and create nothing', async (t) => {
  const values = folders(t);
  await runRows(values, [
    ['verify $EMPTY', 2, '', /^assetlog: there is no journal in [^\n]*; give its folder with --data\n$/],
    ['repair $EMPTY/else', 2, '', /^assetlog: there is no journal in [^\n]*; give its folder with --data\n$/],
    [
      'verify $BROKEN',
      5,
      '',
      /^assetlog: the journal in \$BROKEN could not be read or repaired: .*is not a regular file; move it away[^\n]*\n$/,
    ],
    ['repair --yes $EMPTY/some/where', 0, 'nothing to repair: there is no journal in $EMPTY/some/where yet'],
    ['repair --yes --json $EMPTY', 0, [NOTHING_TO_REPAIR]],
    [
      'repair --yes $FILE',
      2,
      '',
      /^assetlog: there is no journal in [^\n]*ENOTDIR[^\n]*; give its folder with --data\n$/,
    ],
  ]);
  assert.deepEqual(readdirSync(values.EMPTY), []);
});

test('a report that is wrong is refused before anything is sent, and no login is shown', async () => {
  const MATERIALIZATION = 'report materialization warehouse/orders';
  const CHECK = 'report check k --check-name c --passed';
  const rows: readonly (readonly [line: string, problem: RegExp])[] = [
    ['report', /name what to report: assetlog report materialization\|check\|observation KEY, or --from FILE/],
    ['report materialisation k', /; did you mean materialization\?/],
    ['report check', /assetlog report check KEY/],
    ['report observation a//b', /"a\/\/b" is not a key; write/],
    [`${MATERIALIZATION} --passed`, /--passed does not go with materialization; leave it out/],
    [`${MATERIALIZATION} --check-name c`, /--check-name does not go with/],
    ['report observation k --severity WARN', /--severity does not go with observation/],
    [`${CHECK} --data-version 1`, /--data-version does not go with check/],
    [`${CHECK} --failed`, /one of --passed and --failed/],
    ['report check k --passed', /a check needs --check-name/],
    ['report check k --check-name c', /one of --passed and --failed/],
    [`${CHECK} --severity FATAL`, /--severity "FATAL" is not a severity; use WARN or ERROR/],
    [`${MATERIALIZATION} --metadata rows`, /--metadata "rows" is not of the form NAME=TEXT or NAME:=JSON/],
    [`${MATERIALIZATION} --metadata a:=@file`, /--metadata "a:=@file" is not valid JSON/],
    [`${MATERIALIZATION} --url me:secret@host`, /--url "me:\*\*\*@host" is not a URL/],
    [`${MATERIALIZATION} --metadata a:=True`, /"a:=True" is not valid JSON at column 1: True is not a JSON value/],
    [`${MATERIALIZATION} --metadata a=1 --metadata a=2`, /gives a name a second time/],
    [`${MATERIALIZATION} --metadata a=1 --metadata-json {}`, /give --metadata or --metadata-json, not both/],
    [`${MATERIALIZATION} --metadata-json []`, /"\[\]" is array; give a JSON object/],
    [`${MATERIALIZATION} --retry-for 60`, /--retry-for "60" is not a duration of at most a week, such as 500ms, 60s/],
    [
      `${MATERIALIZATION} --timeout 0`,
      /--timeout "0" leaves no time for an attempt; write a duration such as 500ms or 10s/,
    ],
    [`${MATERIALIZATION} --timeout 10`, /--timeout "10" is not a duration of at most a week/],
    [`${MATERIALIZATION} --url localhost:3000`, /--url "localhost:3000" is not a URL such as http:/],
    [
      `${MATERIALIZATION} --url http://me:secret@localhost`,
      /--url has a login before its host; leave it out, and write .* into the file of --token-file, with --token-header Auth/,
    ],
    [
      `${MATERIALIZATION} --url http://h?token=secret`,
      /--url has a query or a fragment; leave it out: a token goes into/,
    ],
    [`${MATERIALIZATION} --token-file /nowhere/token`, /ENOENT/],
    [
      `${MATERIALIZATION} --idempotency-key 'a b'`,
      /--idempotency-key "a b" is not 1 to 255 visible ASCII characters\n/,
    ],
    ['report --from - --run-id ä', /--run-id "ä" is not 1 to 238 visible ASCII characters\n/],
    ['report --from x.jsonl check k', /a key cannot be combined with --from/],
    ['report --from x.jsonl --partition p', /--partition cannot be combined with --from/],
    ['report --from /nowhere/x.jsonl', /ENOENT/],
    ['report --from /', /\/ cannot be read: EISDIR/],
    ['report observation k --keep-times', /--keep-times needs --from; for a single report give --event-time\n$/],
    [
      `${MATERIALIZATION} --url http://me:secret@h:3000/report_asset_materialization/`,
      /--url names the endpoint report_asset_materialization; give .*: --url http:\/\/h:3000\n$/,
    ],
    [
      `${MATERIALIZATION} --url https://h/a/prefix/prod/report_asset_observation/warehouse/orders`,
      /--url names the endpoint report_asset_observation; give .*: --url https:\/\/h\/a\/prefix\/prod\n$/,
    ],
    [
      `${MATERIALIZATION} --url http://h//report_asset_check//`,
      /--url names the endpoint report_asset_check; give .*: --url http:\/\/h\n$/,
    ],
  ];
  // No service listens there: a request would end with another code.
  const env = { ASSETLOG_URL: 'http://127.0.0.1:1', ASSETLOG_RETRY_FOR: '0' };
  const all = rows.map(([line, problem]): CommandRow => [line, 2, '', problem]);
  await runRows({}, all, { env });
});

test('a token with rights that do not exist, or an end that is no later day, is not made', async () => {
  const noRights = 'is not a list of rights; use report, read, forward, erase or report,read,forward,erase';
  const noDay = /is not a day that exists, such as 2027-01-31 \(until its end in UTC\), or /;
  const past = 'is in the past; give a later date';
  const now = new Date(Date.now() - 1_000).toISOString();
  await runRows({ NOW: now }, [
    ['token --may write', 2, '', `assetlog: --may "write" ${noRights}`],
    [`token --may 'report read'`, 2, '', `assetlog: --may "report read" ${noRights}`],
    ['token --may read,read', 2, '', `assetlog: --may "read,read" ${noRights}`],
    ['token --not-after 2026-02-30', 2, '', noDay],
    ['token --not-after 2026-12-31T12:00', 2, '', noDay],
    ['token --not-after tomorrow', 2, '', noDay],
    ['token --not-after 2020-01-31', 2, '', `assetlog: --not-after "2020-01-31" ${past}`],
    ['token --not-after $NOW', 2, '', `assetlog: --not-after "$NOW" ${past}`],
  ]);
});

test('a service does not start with a value that no option accepts', async (t) => {
  const values = folders(t);
  const keys = Array.from({ length: 21 }, (_, at) => `--watch-asset a${at}`).join(' ');
  await runRows(values, [
    [`serve ${keys}`, 2, '', /--watch-asset "a20" is one more than 20/],
    ['serve --watch-asset a//b', 2, '', /--watch-asset "a\/\/b" is not/],
    [`serve --watch-asset 'a\u0007'`, 2, '', /--watch-asset "a\\u0007" has the control character U\+0007/],
    [
      'serve --deployments x --watch-asset .x/a',
      2,
      '',
      /--watch-asset starts with the deployment, as in prod\/warehouse/,
    ],
    ['serve --trusted-proxy proxy.example', 2, '', /"proxy\.example" is not an address such as 127\.0\.0\.1/],
    [
      'serve --port 0 --data $TO --deployments $EMPTY',
      2,
      '',
      'assetlog: --deployments: $EMPTY is a folder; give a file',
    ],
    [
      'serve --port 0 --data $TO --deployments $EMPTY/none',
      2,
      '',
      /^assetlog: --deployments: ENOENT[^\n]*\$EMPTY\/none'\n$/,
    ],
    [
      'serve --port 0 --data $TO --deployments $FILE',
      2,
      '',
      /^assetlog: \$FILE, line 1, column 1: the text ends where a value should be\n$/,
    ],
    ['serve --test --deployments $FILE', 2, '', /--test has no --deployments/],
    [`serve --name 'a\nb'`, 2, '', /--name/],
  ]);
});
