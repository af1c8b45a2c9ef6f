/** Idempotency keys. */

import { LENIENT } from './batches.ts';
import {
  announced,
  answered,
  both,
  CHUNK,
  CHUNKED,
  ends,
  FIRST_KEY,
  type Forms,
  KEY,
  keeps,
  type Outcome,
  type Row,
  recorded,
  repeated,
  replayed,
  row,
  SECOND_KEY,
  SIZED,
  TWO_ITEMS,
  taken,
  utf8,
} from './forms.ts';

/** Values of Idempotency-Key. Each is sent twice, with the same report. */
const goodKeys: readonly (readonly [what: string, value: string])[] = [
  ['of one character', '~'],
  ['of 255 characters', `${KEY}${'k'.repeat(255 - KEY.length)}`],
  ['of 255 characters in quotes', `"${KEY}${'k'.repeat(255 - KEY.length)}"`],
  ['of 255 characters, most of them escaped', `"${KEY}${'\\"'.repeat(255 - KEY.length)}"`],
  ['with all characters that need no quotes', `${KEY}!#$%&'()*+-./:;<=>?@[\\]^_\`{|}~`],
  ['with a comma, a semicolon and escapes in quotes', `"${KEY},;\\\\\\""`],
  ['with white space around it', `\t ${KEY} \t`],
  ['that looks like a parameter', `${KEY};a=1`],
  ['that looks like a byte sequence (RFC 8941)', `:${KEY}:`],
  ['that looks like a number', KEY.replace('key-', '-1.')],
  ['that is __proto__ and more', `__proto__${KEY}`],
];

/** Values of Idempotency-Key that are not a key. */
const badKeys: readonly (readonly [what: string, value: string])[] = [
  ['that is empty', ''],
  ['of white space', ' \t'],
  ['of 256 characters', `${KEY}${'k'.repeat(256 - KEY.length)}`],
  ['of 256 characters in quotes', `"${KEY}${'k'.repeat(256 - KEY.length)}"`],
  ['of 256 escaped characters', `"${'\\"'.repeat(256)}"`],
  ['of 15,000 characters', 'k'.repeat(15_000)],
  ['of 15,000 backslashes', `"${'\\'.repeat(15_000)}`],
  ['that is empty in quotes', '""'],
  ['that is one quote', '"'],
  ['whose quotes are not closed', `"${KEY}`],
  ['whose quotes are not opened', `${KEY}"`],
  ['whose closing quote is escaped', `"${KEY}\\"`],
  ['with an escape of another character', `"${KEY}\\a"`],
  ['with a quote inside', `${KEY}"a`],
  ['with something after its quotes', `"${KEY}"a`],
  ['with a parameter', `"${KEY}";a=1`],
  ['with a parameter after a space', `${KEY}; a=1`],
  ['that is a list', `${KEY},a`],
  ['that is a list of quoted keys', `"${KEY}", "a"`],
  ['with a comma after it', `${KEY},`],
  ['with a space', `${KEY} a`],
  ['with a space in quotes', `"${KEY} a"`],
  ['with a tab', `${KEY}\ta`],
  ['with a tab in quotes', `"${KEY}\ta"`],
  ['with a byte outside ASCII', `${KEY}\xe9`],
  ['with a byte outside ASCII in quotes', `"${KEY}\xff"`],
  ['in UTF-8', utf8(`${KEY}é`)],
  ['with a no-break space after it', `${KEY}\xa0`],
];

/** Members that make another event with the same key; the first event has `"metadata":{"a":1.0,"b":2}`. */
const otherEvents: readonly (readonly [what: string, members: string])[] = [
  ['without metadata', ''],
  ['with null for metadata', '"metadata":null'],
  ['with its metadata in another order', '"metadata":{"b":2,"a":1.0}'],
  ['with another spelling of a number', '"metadata":{"a":1.00,"b":2}'],
  ['with another escape', '"metadata":{"\\u0061":1.0,"b":2}'],
  ['with a partition', '"metadata":{"a":1.0,"b":2},"partition":""'],
  ['with a data version', '"metadata":{"a":1.0,"b":2},"data_version":"v"'],
  ['with a time', '"metadata":{"a":1.0,"b":2},"event_time":"2026-11-20T15:19:45Z"'],
];

/** Reports with an idempotency key, which contains the key of the row, so that no row meets the report of another. */
export const idempotency = ({
  MATERIALIZATION,
  TARGET,
  BATCH,
  GOOD_LINE,
  head,
  reportTo,
  report,
  framed,
  json,
  batch: send,
}: Forms): readonly Row[] => {
  const named = (value: string) => `Idempotency-Key: ${value}`;
  const keyed = (value: string) => report(named(value));
  const good = keyed(KEY);
  const event = (members: string, ...more: readonly string[]) => json(`{${members}}`, TARGET, ...more);
  const first = event('"metadata":{"a":1.0,"b":2}', named(KEY));
  const batch = (body: string, ...more: readonly string[]) => send(body, 'application/x-ndjson', BATCH, ...more);
  const item = (key: string) => `{"type":"materialization","asset_key":"${KEY}","idempotency_key":"${key}"}`;
  const twoRecorded: Outcome = { replies: [{ status: 200, records: [FIRST_KEY, SECOND_KEY] }], afterwards: 'kept' };
  const conflict = keeps(422);
  return [
    ...goodKeys.map(([what, value]) =>
      row(`An idempotency key ${what} is accepted`, `${keyed(value)}${keyed(value)}`, both(taken, replayed)),
    ),
    ...badKeys.map(([what, value]) =>
      row(`An idempotency key ${what} is refused`, `${keyed(value)}${report()}`, both(keeps(400), taken)),
    ),
    ...[...['\0', '\x01', '\x0b', '\x7f'].map((byte) => `${KEY}${byte}`), `${KEY}\r\n a`, `${KEY}\n a`].map((value) =>
      row(
        `A request with ${JSON.stringify(value.slice(KEY.length))} in an idempotency key is refused`,
        keyed(value),
        ends(400),
      ),
    ),
    ...otherEvents.map(([what, members]) =>
      row(
        `A report ${what} differs from the report with its idempotency key`,
        `${first}${event(members, named(KEY))}${first}`,
        both(both(taken, conflict), replayed),
      ),
    ),
    row('Two equal idempotency keys are refused', report(named(KEY), named(KEY)), keeps(400)),
    row('Two idempotency keys are refused', report(named(`"${KEY}"`), named('"a"')), keeps(400)),
    row('Two halves of a quoted idempotency key are refused', report(named(`"${KEY}`), named('a"')), keeps(400)),
    row('An empty idempotency key beside a good one is refused', report(named(''), named(KEY)), keeps(400)),
    row(
      'A key is the same in quotes and bare, and its name in any case',
      `${good}${report(`IDEMPOTENCY-KEY: "${KEY}"`)}${report(`idempotency-key:${KEY}`)}`,
      both(both(taken, replayed), replayed),
    ),
    row(
      'An escaped backslash in quotes equals a bare backslash',
      `${keyed(`${KEY}\\a`)}${keyed(`"${KEY}\\\\a"`)}`,
      both(taken, replayed),
    ),
    row('Idempotency_Key is another header', `${good}${report(`Idempotency_Key: ${KEY}`)}`, recorded(KEY, KEY)),
    row(
      'An idempotency key in a trailer is ignored',
      twice(framed([CHUNKED], `${CHUNK}0\r\n${named(KEY)}\r\n\r\n`)),
      recorded(KEY, KEY),
    ),
    row(
      'An idempotency key in the query or in the body of a report is ignored',
      `${twice(reportTo(`${TARGET}?idempotency_key=${KEY}&Idempotency-Key=${KEY}`))}${twice(event(`"idempotency_key":"${KEY}"`))}`,
      recorded(KEY, KEY, KEY, KEY),
    ),
    row('White space before the colon of Idempotency-Key is refused', report(`Idempotency-Key : ${KEY}`), ends(400)),
    row(
      'A report with an idempotency key and HTTP/1.0 is replayed as well',
      `${good}${head(GOOD_LINE.replace('1.1', '1.0'), named(KEY))}`,
      both(taken, announced(replayed)),
    ),
    row(
      'A report that is sent again while it is on its way is recorded once',
      good.repeat(12),
      both(taken, repeated(11, replayed)),
      { pieceBytes: 65_536 },
    ),
    row(
      'A report that is refused leaves its idempotency key free',
      `${event('"partition":5', named(KEY))}${good}${good}`,
      both(both(keeps(400), taken), replayed),
    ),
    row(
      'An asset key in another place makes the same event',
      `${good}${framed([SIZED, named(KEY)])}${reportTo(`${MATERIALIZATION}?asset_key=${KEY}`, named(KEY))}`,
      both(both(taken, replayed), replayed),
    ),
    row(
      'A time in another zone makes the same event, another fraction does not',
      ['15:19:45Z', '16:19:45%2B01:00', '15:19:45.0Z']
        .map((time) => reportTo(`${TARGET}?event_time=2026-11-20T${time}`, named(KEY)))
        .join(''),
      both(both(taken, replayed), conflict),
    ),
    row(
      'Another kind of report is another event',
      `${good}${reportTo(TARGET.replace('materialization', 'observation'), named(KEY))}`,
      both(taken, conflict),
    ),
    row(
      'A batch that is sent again with its key has duplicates only',
      twice(batch(TWO_ITEMS, named(KEY))),
      both(twoRecorded, answered),
    ),
    row(
      'The key of a batch gives each item a key of its own, by its line',
      `${batch(`\n${TWO_ITEMS}`, named(`"${KEY}"`))}${reportTo(TARGET.replace('materialization', 'observation'), named(`${KEY}/2`))}`,
      both(twoRecorded, conflict),
    ),
    row(
      'An item with a key and a report with that key are one event',
      `${batch(item(KEY), named('other'))}${good}`,
      both(taken, replayed),
    ),
    row(
      'An item with the key of a report is a duplicate',
      `${good}${batch(`${item(KEY)}\n${item(KEY)}`)}`,
      both(taken, answered),
    ),
    row(
      'A batch in which a key belongs to another event is refused whole',
      `${first}${batch(`${TWO_ITEMS}\n${item(KEY)}`)}`,
      both(taken, keeps(400)),
    ),
    row(
      'A lenient batch leaves out an item whose key belongs to another event',
      `${first}${batch(`${TWO_ITEMS}\n${item(KEY)}`, LENIENT)}`,
      both(taken, { ...twoRecorded, replies: [{ ...twoRecorded.replies[0], status: 207 }] }),
    ),
    row(
      'A batch with two idempotency keys in its head is refused',
      batch(TWO_ITEMS, named(KEY), named(KEY)),
      keeps(400),
    ),
  ];
};

function twice(bytes: string): string {
  return `${bytes}${bytes}`;
}
