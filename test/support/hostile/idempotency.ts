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
  rows,
  SECOND_KEY,
  SIZED,
  shown,
  TWO_ITEMS,
  taken,
  utf8,
} from './forms.ts';

/** Values of Idempotency-Key. Each is sent twice, with the same report. */
const goodKeys: readonly string[] = [
  ...['~', `${KEY}${'k'.repeat(255 - KEY.length)}`, `"${KEY}${'k'.repeat(255 - KEY.length)}"`],
  ...[`"${KEY}${'\\"'.repeat(255 - KEY.length)}"`, `${KEY}!#$%&'()*+-./:;<=>?@[\\]^_\`{|}~`, `"${KEY},;\\\\\\""`],
  ...[`\t ${KEY} \t`, `${KEY};a=1`, `:${KEY}:`, KEY.replace('key-', '-1.'), `__proto__${KEY}`],
];

/** Values of Idempotency-Key that are not a key. */
const badKeys: readonly string[] = [
  ...['', ' \t', `${KEY}${'k'.repeat(256 - KEY.length)}`, `"${KEY}${'k'.repeat(256 - KEY.length)}"`],
  ...[`"${'\\"'.repeat(256)}"`, 'k'.repeat(15_000), `"${'\\'.repeat(15_000)}`, '""', '"', `"${KEY}`, `${KEY}"`],
  ...[`"${KEY}\\"`, `"${KEY}\\a"`, `${KEY}"a`, `"${KEY}"a`, `"${KEY}";a=1`, `${KEY}; a=1`, `${KEY},a`],
  ...[`"${KEY}", "a"`, `${KEY},`, `${KEY} a`, `"${KEY} a"`, `${KEY}\ta`, `"${KEY}\ta"`, `${KEY}\xe9`, `"${KEY}\xff"`],
  ...[utf8(`${KEY}é`), `${KEY}\xa0`],
];

/** Members that make another event with the same key; the first event has `"metadata":{"a":1.0,"b":2}`. */
const otherEvents: readonly string[] = [
  ...['', '"metadata":null', '"metadata":{"b":2,"a":1.0}', '"metadata":{"a":1.00,"b":2}'],
  ...['"metadata":{"\\u0061":1.0,"b":2}', '"metadata":{"a":1.0,"b":2},"partition":""'],
  '"metadata":{"a":1.0,"b":2},"data_version":"v"',
  '"metadata":{"a":1.0,"b":2},"event_time":"2026-11-20T15:19:45Z"',
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
    ...goodKeys.map((value) =>
      row(`An idempotency key ${shown(value)} is accepted`, `${keyed(value)}${keyed(value)}`, both(taken, replayed)),
    ),
    ...badKeys.map((value) =>
      row(`An idempotency key ${shown(value)} is refused`, `${keyed(value)}${report()}`, both(keeps(400), taken)),
    ),
    ...[...['\0', '\x01', '\x0b', '\x7f'].map((byte) => `${KEY}${byte}`), `${KEY}\r\n a`, `${KEY}\n a`].map((value) =>
      row(`An idempotency key ${shown(value)} ends the connection`, keyed(value), ends(400)),
    ),
    ...otherEvents.map((members) =>
      row(
        `A report ${shown(members)} differs from the report with its idempotency key`,
        `${first}${event(members, named(KEY))}${first}`,
        both(both(taken, conflict), replayed),
      ),
    ),
    ...rows(keeps(400), {
      'Two equal idempotency keys': report(named(KEY), named(KEY)),
      'Two idempotency keys': report(named(`"${KEY}"`), named('"a"')),
      'Two halves of a quoted idempotency key': report(named(`"${KEY}`), named('a"')),
      'An empty idempotency key beside a good one': report(named(''), named(KEY)),
      'A batch with two idempotency keys in its head': batch(TWO_ITEMS, named(KEY), named(KEY)),
    }),
    ...rows(both(both(taken, replayed), replayed), {
      'A key is the same in quotes and bare, and its name in any case': `${good}${report(`IDEMPOTENCY-KEY: "${KEY}"`)}${report(`idempotency-key:${KEY}`)}`,
      'An asset key in another place makes the same event': `${good}${framed([SIZED, named(KEY)])}${reportTo(`${MATERIALIZATION}?asset_key=${KEY}`, named(KEY))}`,
    }),
    ...rows(both(taken, replayed), {
      'An escaped backslash in quotes equals a bare backslash': `${keyed(`${KEY}\\a`)}${keyed(`"${KEY}\\\\a"`)}`,
      'An item with a key and a report with that key are one event': `${batch(item(KEY), named('other'))}${good}`,
    }),
    ...rows(recorded(KEY, KEY), {
      'Idempotency_Key is another header': `${good}${report(`Idempotency_Key: ${KEY}`)}`,
      'An idempotency key in a trailer is ignored': twice(framed([CHUNKED], `${CHUNK}0\r\n${named(KEY)}\r\n\r\n`)),
    }),
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
      'A batch that is sent again has duplicates only',
      twice(batch(TWO_ITEMS, named(KEY))),
      both(twoRecorded, answered),
    ),
    row(
      'The key of a batch gives each item a key of its own, by its line',
      `${batch(`\n${TWO_ITEMS}`, named(`"${KEY}"`))}${reportTo(TARGET.replace('materialization', 'observation'), named(`${KEY}/2`))}`,
      both(twoRecorded, conflict),
    ),
    row('An item can have the key of a report', `${good}${batch(`${item(KEY)}\n${item(KEY)}`)}`, both(taken, answered)),
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
  ];
};

function twice(bytes: string): string {
  return `${bytes}${bytes}`;
}
