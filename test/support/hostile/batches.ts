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
  rows,
  SECOND_ITEM,
  SECOND_KEY,
  shown,
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
  ['an item that is a string', `${FIRST_ITEM}\n"observation"`],
  ['an item whose type is a number', FIRST_ITEM.replace('"observation"', '1')],
  ['an item whose type is empty', FIRST_ITEM.replace('observation', '')],
  ['an item whose type is in capitals', FIRST_ITEM.replace('observation', 'OBSERVATION')],
  ['an item whose type is constructor', FIRST_ITEM.replace('observation', 'constructor')],
  ['an item whose type is batch', FIRST_ITEM.replace('observation', 'batch')],
  ['two types in an item, the last one unknown', itemOf('first', ',"type":"x"')],
  ['two keys in an item, the last one null', itemOf('first', ',"asset_key":null')],
  ['a member constructor', itemOf('first', ',"constructor":{}')],
  ['tags that are null', itemOf('first', ',"tags":null')],
  ['tags with a member __proto__', itemOf('first', ',"tags":{"__proto__":"v"}')],
  ['1,001 members in an item', itemOf('first', ',"seq":1'.repeat(1_001))],
  ['an item without a type', `${FIRST_ITEM}\n{"asset_key":"${KEY}"}`],
  ['an item whose type is __proto__', FIRST_ITEM.replace('observation', '__proto__')],
  ['an item whose type is a list', FIRST_ITEM.replace('"observation"', '["observation"]')],
  ['an unknown member', itemOf('first', ',"uri":"x"')],
  ['a member __proto__', itemOf('first', ',"__proto__":{"type":"check"}')],
  ['1,001 tags', itemOf('first', `,"tags":{${'"data_version":"v",'.repeat(1_000)}"data_version":"v"}`)],
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
const badArrays: readonly string[] = [
  ...['[]', FIRST_ITEM, TWO_ITEMS, `[[${FIRST_ITEM}]]`, `[${FIRST_ITEM},]`, `[${FIRST_ITEM}`],
  ...[`[${FIRST_ITEM}]${FIRST_ITEM}`, `[${'{},'.repeat(10_000)}{}]`, `[${FIRST_ITEM},null]`],
  ...[`[${FIRST_ITEM},,${SECOND_ITEM}]`, '['.repeat(100_000)],
  ...[`[${itemOf('first', `,"metadata":{"a":${'['.repeat(127)}${']'.repeat(127)}}`)}]`, 'null'],
  Buffer.from(`[${FIRST_ITEM}]`, 'utf16le').toString('latin1'),
];

/** Values of Prefer that ask for lenient handling. */
const lenientPreferences: readonly string[] = [
  ...['HANDLING=Lenient', 'handling="lenient"', 'handling="len\\ient"', 'handling\t= lenient'],
  ...['handling=lenient;x="y,z"', 'return=minimal, handling=lenient, handling=strict'],
  ',, x="a, handling=strict", handling=lenient',
];

/** Values of Prefer that do not ask for it, and are not an error either. */
const otherPreferences: readonly string[] = [
  ...['', 'handling', 'handling=', 'handling=strict, handling=lenient', 'handling=lenients', 'lenient'],
  ...['handling:lenient', "handling='lenient'", '"handling"=lenient', 'handling="lenient', 'handling=lenient please'],
  ...['x="handling=lenient"', 'x;handling=lenient', 'x=", handling=lenient', 'handling==lenient'],
  ...['handling=lenient=x', 'xhandling=lenient', 'x="a"b, handling=lenient', 'handling=l\xe9nient'],
  ...['\xff, handling=lenient', `x=${' '.repeat(15_000)}\xff, handling=lenient`, `${','.repeat(15_000)}=`],
  '"'.repeat(15_000),
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
    ...rows(both, {
      'A batch of two lines is recorded': send(TWO_ITEMS),
      'A byte order mark and CR LF': send(`${BYTE_ORDER_MARK}\r\n${TWO_ITEMS.replace('\n', '\r\n\r\n')}\r\n`),
      'A chunked batch is recorded': `${reportTo(BATCH, 'Content-Type: application/jsonl', CHUNKED)}${chunk}${LAST_CHUNK}`,
      'A batch in an array is recorded': array(`[ ${FIRST_ITEM} ,\n${SECOND_ITEM} ]`),
      'A batch without its last slash is recorded': send(TWO_ITEMS, 'application/ndjson', BATCH.slice(0, -1)),
      'An item whose idempotency key is null has no key': send(
        `${itemOf('first', ',"idempotency_key":null')}\n${itemOf('second', ',"idempotency_key":null')}`,
      ),
      'A batch of exactly 1 MiB is recorded': send(`${TWO_ITEMS}\n`.padEnd(1_048_576, ' ')),
    }),
    row('A batch that arrives byte by byte is recorded', send(TWO_ITEMS), both, { pieceBytes: 1 }),
    ...rows(keys(FIRST_KEY), {
      'An item with a time in another zone': send(itemOf('first', ',"event_time":"2026-11-20T15:19:45+01:00"')),
      'Two items with one idempotency key': send(`${itemOf('first', known)}\n${itemOf('first', known)}`),
      'The last of two equal members in an item counts': send(
        itemOf('other', `,"asset_key":["${KEY}","first"],"type":"check","type":"AssetObservation"`),
      ),
      'A line of the journal is an item, and the members of its position are ignored': send(
        itemOf(
          'first',
          ',"seq":"x","id":[],"time":{},"crc":null,"origin":{},"by":7,"from":0,"recorded":false,"tags":{"data_version":"v"}',
        ),
      ),
      'An item of 128 levels': send(itemOf('first', `,"metadata":{"a":${'['.repeat(126)}${']'.repeat(126)}}`)),
      'An array can be one level deeper than its items': array(
        `[${itemOf('first', `,"metadata":{"a":${'['.repeat(126)}${']'.repeat(126)}}`)}]`,
      ),
      'An item can have an idempotency key of 263 characters': send(
        itemOf('first', `,"idempotency_key":"${KEY}${'k'.repeat(263 - KEY.length)}"`),
      ),
      'A batch of 10,000 empty lines and an item is recorded': send(`${'\n'.repeat(10_000)}${FIRST_ITEM}`),
    }),
    ...rows(lenient, {
      'The good items of a batch with lenient handling are recorded': lines(`${FIRST_ITEM}\n${WRONG_ITEM}`, LENIENT),
      'A preference in the second Prefer': lines(`${FIRST_ITEM}\n${WRONG_ITEM}`, 'Prefer: return=minimal', LENIENT),
    }),
    ...rows(keeps(400), {
      'A batch with lenient handling and no good item': lines(WRONG_ITEM, LENIENT),
      'The first of two handlings decides': lines(`${FIRST_ITEM}\n${WRONG_ITEM}`, 'Prefer: handling=strict', LENIENT),
      'A batch without a body': reportTo(BATCH),
      'A chunked batch without a type': `${reportTo(BATCH, CHUNKED)}${chunk}${LAST_CHUNK}`,
      'A batch that is no whole gzip': lines('\x1f\x8b\x08', 'Content-Encoding: gzip'),
      'A gzip batch without Content-Encoding': send('\x1f\x8b\x08\0'),
      'A batch of lines with the type application/json': array(`${TWO_ITEMS}\n`),
      'A key in the query alone': send('{"type":"observation"}', 'application/x-ndjson', `${BATCH}?asset_key=${KEY}`),
      'A batch with a malformed query': send(TWO_ITEMS, 'application/x-ndjson', `${BATCH}?x=%zz`),
      'A batch with a malformed Idempotency-Key': lines(TWO_ITEMS, 'Idempotency-Key: "a'),
    }),
    ...lenientPreferences.map((value) =>
      row(`Prefer: ${value} is lenient handling`, lines(`${FIRST_ITEM}\n${WRONG_ITEM}`, `Prefer: ${value}`), lenient),
    ),
    ...otherPreferences.map((value) =>
      row(
        `A preference ${shown(value)} is ignored`,
        `${lines(`${FIRST_ITEM}\n${WRONG_ITEM}`, `Prefer: ${value}`)}${reportTo(TARGET, `Prefer: ${value}`)}`,
        { replies: [{ status: 400 }, { status: 200, records: KEY }], afterwards: 'kept' },
      ),
    ),
    ...badBatches.map(([what, body]) => row(`A batch with ${what} is refused whole`, send(body), keeps(400))),
    ...badArrays.map((body) => row(`A batch as JSON that is ${shown(body)} is refused whole`, array(body), keeps(400))),
    ...['text/plain', 'application/x-ndjson+json', 'application/json-seq', 'application/x-ndjson; charset=utf-16'].map(
      (type) => row(`A batch of type ${type} is refused`, send(TWO_ITEMS, type), ends(400)),
    ),
    ...['application/x-ndjson;charset=UTF-8', 'APPLICATION/JSONL; charset="utf-8"; x=y', 'application/ndjson;'].map(
      (type) => row(`A batch of type ${type} is recorded`, send(TWO_ITEMS, type), both),
    ),
    ...rows(ends(400), {
      'A batch without a type': `${reportTo(BATCH, 'Content-Length: 2')}{}`,
      'Lines to an endpoint of single reports': send(TWO_ITEMS, 'application/x-ndjson', TARGET),
    }),
    row('A batch in another encoding is refused', lines('\x1f\x8b\x08', 'Content-Encoding: br'), ends(415)),
    ...rows(ends(413), {
      'A chunked batch of one byte over 1 MiB': `${reportTo(BATCH, 'Content-Type: application/jsonl', CHUNKED)}100001\r\n${TWO_ITEMS.padEnd(1_048_577, '\n')}\r\n${LAST_CHUNK}`,
      'A batch of over 1 MiB': reportTo(BATCH, 'Content-Type: application/x-ndjson', 'Content-Length: 1048577'),
    }),
    row('A batch whose client disconnects in the middle is not recorded', send(TWO_ITEMS).slice(0, -1), ends(400), {
      half: true,
    }),
    row('Nothing is at a key', send(TWO_ITEMS, 'application/x-ndjson', `${BATCH}${KEY}`), ends(404)),
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
    row('A report after a batch on the connection is a request of its own', `${send(TWO_ITEMS)}${reportTo(TARGET)}`, {
      replies: [
        { status: 200, records: [FIRST_KEY, SECOND_KEY] },
        { status: 200, records: KEY },
      ],
      afterwards: 'kept',
    }),
  ];
};
