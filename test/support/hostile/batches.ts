/** Batches of reports. */

import {
  BYTE_ORDER_MARK,
  CHUNKED,
  ends,
  FIRST_ITEM,
  FIRST_KEY,
  type Forms,
  HOST,
  itemOf,
  KEY,
  keeps,
  LAST_CHUNK,
  type Outcome,
  type Row,
  row,
  SECOND_ITEM,
  SECOND_KEY,
  TWO_ITEMS,
  utf8,
  WRONG_ITEM,
} from './forms.ts';

export const LENIENT = 'Prefer: handling=lenient';

/** Lines that are not a batch. */
const badBatches: readonly (readonly [what: string, body: string])[] = [
  ['nothing but line ends', '\n\r\n\n'],
  ['a JSON array', `[${FIRST_ITEM}]`],
  ['two items on a line', `${FIRST_ITEM}${SECOND_ITEM}`],
  ['two items with a comma between them', `${FIRST_ITEM},\n${SECOND_ITEM}`],
  ['lines that end in CR alone', `${FIRST_ITEM}\r${SECOND_ITEM}`],
  ['lines that end in U+2028', `${FIRST_ITEM}${utf8('\u2028')}${SECOND_ITEM}`],
  ['an item over two lines', FIRST_ITEM.replace(',', ',\n')],
  ['a wrong item at its end', `${TWO_ITEMS}\n${WRONG_ITEM}`],
  ['a wrong item at its start', `${WRONG_ITEM}\n${TWO_ITEMS}`],
  ['an item that is a number', `${FIRST_ITEM}\n5`],
  ['an item that is null', `${FIRST_ITEM}\nnull`],
  ['an item that is an array', `${FIRST_ITEM}\n[]`],
  ['an item that is a string', `${FIRST_ITEM}\n"observation"`],
  ['an item without members', `${FIRST_ITEM}\n{}`],
  ['an item whose type is a number', FIRST_ITEM.replace('"observation"', '1')],
  ['an item whose type is empty', FIRST_ITEM.replace('observation', '')],
  ['an item whose type is in capitals', FIRST_ITEM.replace('observation', 'OBSERVATION')],
  ['an item whose type is constructor', FIRST_ITEM.replace('observation', 'constructor')],
  ['an item whose type is batch', FIRST_ITEM.replace('observation', 'batch')],
  ['two types in an item, the last one unknown', itemOf('first', ',"type":"x"')],
  ['two keys in an item, the last one null', itemOf('first', ',"asset_key":null')],
  ['a member constructor', itemOf('first', ',"constructor":{}')],
  ['a member of another kind of report', itemOf('first', ',"passed":true')],
  ['tags that are null', itemOf('first', ',"tags":null')],
  ['tags that are empty', itemOf('first', ',"tags":{}')],
  ['tags with a member __proto__', itemOf('first', ',"tags":{"__proto__":"v"}')],
  ['1,001 members in an item', itemOf('first', ',"seq":1'.repeat(1_001))],
  ['an event time without a zone', itemOf('first', ',"event_time":"2026-11-20T15:19:45"')],
  ['an event time in the year 0', itemOf('first', ',"event_time":"0000-12-31T23:59:59Z"')],
  ['an event time after the year 9999', itemOf('first', ',"event_time":"9999-12-31T23:59:59-00:01"')],
  ['an event time in a leap second', itemOf('first', ',"event_time":"2016-12-31T23:59:60Z"')],
  ['an item without a type', `${FIRST_ITEM}\n{"asset_key":"${KEY}"}`],
  ['an item whose type is __proto__', FIRST_ITEM.replace('observation', '__proto__')],
  ['an item whose type is a list', FIRST_ITEM.replace('"observation"', '["observation"]')],
  ['an unknown member', itemOf('first', ',"uri":"x"')],
  ['a member __proto__', itemOf('first', ',"__proto__":{"type":"check"}')],
  ['1,001 tags', itemOf('first', `,"tags":{${'"data_version":"v",'.repeat(1_000)}"data_version":"v"}`)],
  ['an invalid tag', itemOf('first', ',"tags":{"owner":"x"}')],
  ['an event time that is a number', itemOf('first', ',"event_time":1763650785')],
  ['an idempotency key with a space', itemOf('first', ',"idempotency_key":"a b"')],
  ['an idempotency key that is a number', itemOf('first', ',"idempotency_key":7')],
  ['an idempotency key that is empty', itemOf('first', ',"idempotency_key":""')],
  ['an idempotency key outside ASCII', itemOf('first', ',"idempotency_key":"\\u00e9"')],
  ['an idempotency key of 264 characters', itemOf('first', `,"idempotency_key":"${'k'.repeat(264)}"`)],
  [
    'one idempotency key for two events',
    `${itemOf('first', `,"idempotency_key":"${KEY}"`)}\n${itemOf('second', `,"idempotency_key":"${KEY}"`)}`,
  ],
  ['half of a pair in a key', itemOf('\\ud800')],
  ['a NUL after its items', `${TWO_ITEMS}\n\0`],
  ['a NUL in an item', `${FIRST_ITEM}\0\n${SECOND_ITEM}`],
  ['a form feed between its items', `${FIRST_ITEM}\n\f\n${SECOND_ITEM}`],
  ['UTF-16 with its mark', Buffer.from(`\ufeff${TWO_ITEMS}`, 'utf16le').toString('latin1')],
  ['UTF-16 without its mark', Buffer.from(TWO_ITEMS, 'utf16le').toString('latin1')],
  ['a record separator before each item (RFC 7464)', `\x1e${FIRST_ITEM}\n\x1e${SECOND_ITEM}`],
  ['a byte order mark in its second line', `${FIRST_ITEM}\n${BYTE_ORDER_MARK}${SECOND_ITEM}`],
  ['bytes that are not UTF-8', `${FIRST_ITEM}\n${itemOf('\xff')}`],
  ['metadata deeper than 128 levels', itemOf('first', `,"metadata":{"a":${'['.repeat(127)}${']'.repeat(127)}}`)],
  ['an item of 100,000 levels', `${FIRST_ITEM}\n${'['.repeat(100_000)}`],
  ['10,001 items', `${'{}\n'.repeat(10_001)}`],
  ['10,000 wrong items', `${'{}\n'.repeat(10_000)}`],
  [
    'a request in the body',
    `${FIRST_ITEM}\r\n\r\nPOST /report_asset_observation/${KEY} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
  ],
];

/** JSON that is not an array of reports. */
const badArrays: readonly (readonly [what: string, body: string])[] = [
  ['empty', '[]'],
  ['an object', FIRST_ITEM],
  ['lines', TWO_ITEMS],
  ['an array of arrays', `[[${FIRST_ITEM}]]`],
  ['an array with a trailing comma', `[${FIRST_ITEM},]`],
  ['an array that is never closed', `[${FIRST_ITEM}`],
  ['an array and more', `[${FIRST_ITEM}]${FIRST_ITEM}`],
  ['10,001 items', `[${'{},'.repeat(10_000)}{}]`],
  ['an array that holds null', `[${FIRST_ITEM},null]`],
  ['an array with a hole', `[${FIRST_ITEM},,${SECOND_ITEM}]`],
  ['an array of 100,000 levels', '['.repeat(100_000)],
  ['an item of over 128 levels', `[${itemOf('first', `,"metadata":{"a":${'['.repeat(127)}${']'.repeat(127)}}`)}]`],
  ['null', 'null'],
  ['UTF-16', Buffer.from(`[${FIRST_ITEM}]`, 'utf16le').toString('latin1')],
];

/** Values of Prefer that ask for lenient handling. */
const lenientPreferences: readonly string[] = [
  'HANDLING=Lenient',
  'handling="lenient"',
  'handling="len\\ient"',
  'handling\t= lenient',
  'handling=lenient;x="y,z"',
  'return=minimal, handling=lenient, handling=strict',
  ',, x="a, handling=strict", handling=lenient',
];

/** Values of Prefer that do not ask for it, and are not an error either. */
const otherPreferences: readonly (readonly [what: string, value: string])[] = [
  ['that is empty', ''],
  ['without a value', 'handling'],
  ['with an empty value', 'handling='],
  ['that is strict', 'handling=strict, handling=lenient'],
  ['that is a longer word', 'handling=lenients'],
  ['that is only the value', 'lenient'],
  ['with a colon', 'handling:lenient'],
  ['in single quotes', "handling='lenient'"],
  ['whose name is in quotes', '"handling"=lenient'],
  ['whose quotes are not closed', 'handling="lenient'],
  ['with another word after it', 'handling=lenient please'],
  ['that is in the quotes of another', 'x="handling=lenient"'],
  ['that is a parameter of another', 'x;handling=lenient'],
  ['after quotes that are not closed', 'x=", handling=lenient'],
  ['with two equals signs', 'handling==lenient'],
  ['with a second value', 'handling=lenient=x'],
  ['of a longer name', 'xhandling=lenient'],
  ['after a word that follows quotes', 'x="a"b, handling=lenient'],
  ['outside ASCII', 'handling=l\xe9nient'],
  ['after bytes outside ASCII', '\xff, handling=lenient'],
  ['of 15,000 spaces', `x=${' '.repeat(15_000)}\xff, handling=lenient`],
  ['of 15,000 commas and a mistake', `${','.repeat(15_000)}=`],
  ['of 15,000 quotes', '"'.repeat(15_000)],
];

export const batches = ({ BATCH, TARGET, head, reportTo, batch: send }: Forms): readonly Row[] => {
  const array = (body: string) => send(body, 'application/json');
  const lines = (body: string, ...headers: string[]) => send(body, 'application/x-ndjson', BATCH, ...headers);
  const keys = (...records: readonly string[]): Outcome => ({
    replies: [{ status: 200, records }],
    afterwards: 'kept',
  });
  const both = keys(FIRST_KEY, SECOND_KEY);
  const lenient: Outcome = { replies: [{ status: 207, records: [FIRST_KEY] }], afterwards: 'kept' };
  const chunk = `${TWO_ITEMS.length.toString(16)}\r\n${TWO_ITEMS}\r\n`;
  const known = `,"idempotency_key":"${KEY}"`;
  return [
    row('A batch of two lines is recorded', send(TWO_ITEMS), both),
    row('A batch that arrives byte by byte is recorded', send(TWO_ITEMS), both, { pieceBytes: 1 }),
    row(
      'A batch with a byte order mark and CR LF is recorded',
      send(`${BYTE_ORDER_MARK}\r\n${TWO_ITEMS.replace('\n', '\r\n\r\n')}\r\n`),
      both,
    ),
    row(
      'A chunked batch is recorded',
      `${reportTo(BATCH, 'Content-Type: application/jsonl', CHUNKED)}${chunk}${LAST_CHUNK}`,
      both,
    ),
    row('A batch in an array is recorded', array(`[ ${FIRST_ITEM} ,\n${SECOND_ITEM} ]`), both),
    row('A batch without its last slash is recorded', send(TWO_ITEMS, 'application/ndjson', BATCH.slice(0, -1)), both),
    row(
      'An item with a time in another zone is recorded',
      send(itemOf('first', ',"event_time":"2026-11-20T15:19:45+01:00"')),
      keys(FIRST_KEY),
    ),
    row(
      'An item that is sent twice with its idempotency key is recorded once',
      send(`${itemOf('first', known)}\n${itemOf('first', known)}`),
      keys(FIRST_KEY),
    ),
    row(
      'The good items of a batch with lenient handling are recorded',
      lines(`${FIRST_ITEM}\n${WRONG_ITEM}`, LENIENT),
      lenient,
    ),
    row('A batch with lenient handling and no good item is refused', lines(WRONG_ITEM, LENIENT), keeps(400)),
    row(
      'The first of two handlings decides',
      lines(`${FIRST_ITEM}\n${WRONG_ITEM}`, 'Prefer: handling=strict', LENIENT),
      keeps(400),
    ),
    ...lenientPreferences.map((value) =>
      row(`Prefer: ${value} is lenient handling`, lines(`${FIRST_ITEM}\n${WRONG_ITEM}`, `Prefer: ${value}`), lenient),
    ),
    row(
      'A preference in the second of two Prefer headers counts',
      lines(`${FIRST_ITEM}\n${WRONG_ITEM}`, 'Prefer: return=minimal', LENIENT),
      lenient,
    ),
    ...otherPreferences.map(([what, value]) =>
      row(
        `A preference ${what} is ignored`,
        `${lines(`${FIRST_ITEM}\n${WRONG_ITEM}`, `Prefer: ${value}`)}${reportTo(TARGET, `Prefer: ${value}`)}`,
        { replies: [{ status: 400 }, { status: 200, records: KEY }], afterwards: 'kept' },
      ),
    ),
    ...badBatches.map(([what, body]) => row(`A batch with ${what} is refused whole`, send(body), keeps(400))),
    ...badArrays.map(([what, body]) =>
      row(`A batch as JSON that is ${what} is refused whole`, array(body), keeps(400)),
    ),
    row('A batch without a body is refused', reportTo(BATCH), keeps(400)),
    ...['text/plain', 'application/x-ndjson+json', 'application/json-seq', 'application/x-ndjson; charset=utf-16'].map(
      (type) => row(`A batch of type ${type} is refused`, send(TWO_ITEMS, type), ends(400)),
    ),
    ...['application/x-ndjson;charset=UTF-8', 'APPLICATION/JSONL; charset="utf-8"; x=y', 'application/ndjson;'].map(
      (type) => row(`A batch of type ${type} is recorded`, send(TWO_ITEMS, type), both),
    ),
    row('A batch without a type is refused', `${reportTo(BATCH, 'Content-Length: 2')}{}`, ends(400)),
    row('A chunked batch without a type is refused', `${reportTo(BATCH, CHUNKED)}${chunk}${LAST_CHUNK}`, keeps(400)),
    row('A batch that is no whole gzip is refused', lines('\x1f\x8b\x08', 'Content-Encoding: gzip'), keeps(400)),
    row('A batch in another encoding is refused', lines('\x1f\x8b\x08', 'Content-Encoding: br'), ends(415)),
    row('A gzip batch without Content-Encoding is refused', send('\x1f\x8b\x08\0'), keeps(400)),
    row('A batch of lines with the type application/json is refused', array(`${TWO_ITEMS}\n`), keeps(400)),
    row(
      'The last of two equal members in an item counts',
      send(itemOf('other', `,"asset_key":["${KEY}","first"],"type":"check","type":"AssetObservation"`)),
      keys(FIRST_KEY),
    ),
    row(
      'A line of the journal is an item, and the members of its position are ignored',
      send(
        itemOf(
          'first',
          ',"seq":"x","id":[],"time":{},"crc":null,"from":0,"recorded":false,"tags":{"data_version":"v"}',
        ),
      ),
      keys(FIRST_KEY),
    ),
    row(
      'An item of 128 levels is recorded',
      send(itemOf('first', `,"metadata":{"a":${'['.repeat(126)}${']'.repeat(126)}}`)),
      keys(FIRST_KEY),
    ),
    row(
      'An array can be one level deeper than its items',
      array(`[${itemOf('first', `,"metadata":{"a":${'['.repeat(126)}${']'.repeat(126)}}`)}]`),
      keys(FIRST_KEY),
    ),
    row(
      'An item can have an idempotency key of 263 characters',
      send(itemOf('first', `,"idempotency_key":"${KEY}${'k'.repeat(263 - KEY.length)}"`)),
      keys(FIRST_KEY),
    ),
    row(
      'An item whose idempotency key is null has no key',
      send(`${itemOf('first', ',"idempotency_key":null')}\n${itemOf('second', ',"idempotency_key":null')}`),
      both,
    ),
    row('A batch of exactly 1 MiB is recorded', send(`${TWO_ITEMS}\n`.padEnd(1_048_576, ' ')), both),
    row(
      'A batch of 10,000 empty lines and an item is recorded',
      send(`${'\n'.repeat(10_000)}${FIRST_ITEM}`),
      keys(FIRST_KEY),
    ),
    row(
      'A chunked batch of one byte over 1 MiB is refused',
      `${reportTo(BATCH, 'Content-Type: application/jsonl', CHUNKED)}100001\r\n${TWO_ITEMS.padEnd(1_048_577, '\n')}\r\n${LAST_CHUNK}`,
      ends(413),
    ),
    row('A batch whose client disconnects in the middle is not recorded', send(TWO_ITEMS).slice(0, -1), ends(400), {
      half: true,
    }),
    row(
      'Lines to an endpoint of single reports are refused',
      send(TWO_ITEMS, 'application/x-ndjson', TARGET),
      ends(400),
    ),
    row(
      'A key after the path of a batch is no path',
      send(TWO_ITEMS, 'application/x-ndjson', `${BATCH}${KEY}`),
      ends(404),
    ),
    ...['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE'].flatMap((method) =>
      [BATCH, BATCH.slice(0, -1)].map((path) =>
        row(
          `${method} on ${path.endsWith('/') ? 'the path of a batch' : 'the same without its slash'} is refused`,
          head(`${method} ${path} HTTP/1.1`, HOST),
          keeps(405),
        ),
      ),
    ),
    ...[
      `${BATCH}/`,
      `${BATCH}.`,
      BATCH.replace('batch', 'BATCH'),
      BATCH.replace('_batch', '%5Fbatch'),
      BATCH.replace('batch', 'batches'),
    ].map((path) => row(`Nothing is at ${path.replace(/^\/prod/, '')}`, reportTo(path), keeps(404))),
    row(
      'A key in the query is none of its items',
      send('{"type":"observation"}', 'application/x-ndjson', `${BATCH}?asset_key=${KEY}`),
      keeps(400),
    ),
    row(
      'A batch with a malformed query is refused',
      send(TWO_ITEMS, 'application/x-ndjson', `${BATCH}?x=%zz`),
      keeps(400),
    ),
    row('A batch with a malformed Idempotency-Key is refused', lines(TWO_ITEMS, 'Idempotency-Key: "a'), keeps(400)),
    row(
      'A batch of one byte over 1 MiB is refused before it is sent',
      reportTo(BATCH, 'Content-Type: application/x-ndjson', 'Content-Length: 1048577'),
      ends(413),
    ),
    row('A report after a batch on the connection is a request of its own', `${send(TWO_ITEMS)}${reportTo(TARGET)}`, {
      replies: [
        { status: 200, records: [FIRST_KEY, SECOND_KEY] },
        { status: 200, records: KEY },
      ],
      afterwards: 'kept',
    }),
  ];
};
