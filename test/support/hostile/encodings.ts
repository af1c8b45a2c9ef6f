/** Content-Type, and bodies that are not UTF-8. */

import { CHUNKED, CHUNKS, ends, type Forms, keeps, type Row, row, rows, shown, taken, utf8 } from './forms.ts';

/** Values of Content-Type that are refused before the body is read, so the connection ends. */
const badTypes: readonly string[] = [
  ...['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', ''],
  ...['application/json, application/json', 'application/jsonp', 'application/ld+json', 'text/json'],
  ...['application/json; charset=iso-8859-1', 'application/json; charset=utf-16', 'application/json; charset='],
  ...['application/json; charset="utf-8', 'application/json; charset=utf-8; charset=latin1'],
];

/** Bytes that are not UTF-8. */
const badBytes: readonly (readonly [what: string, bytes: string])[] = [
  ['a byte that starts no character', '\xff'],
  ['a continuation byte alone', '\x80'],
  ['a character that is cut', '\xc3'],
  ['an emoji that is cut', '\xf0\x9f\x98'],
  ['an overlong slash', '\xc0\xaf'],
  ['an overlong NUL', '\xc0\x80'],
  ['an overlong character of three bytes', '\xe0\x80\xaf'],
  ['a surrogate', '\xed\xa0\x80'],
  ['a pair of surrogates', '\xed\xa0\xbd\xed\xb8\x80'],
  ['a character beyond U+10FFFF', '\xf4\x90\x80\x80'],
];

export const encodings = ({ TARGET, report, framed, json, typed }: Forms): readonly Row[] => [
  ...['gzip', 'br', 'deflate', 'identity, gzip', 'unknown'].map((coding) =>
    row(`Content-Encoding ${coding} is refused`, json('{}', TARGET, `Content-Encoding: ${coding}`), ends(415)),
  ),
  row(
    'Two Content-Encodings are refused when one is unknown',
    json('{}', TARGET, 'Content-Encoding: identity', 'Content-Encoding: gzip'),
    ends(415),
  ),
  row(
    'Content-Encoding gzip on a chunked body is refused when the body has arrived',
    framed([CHUNKED, 'Content-Encoding: gzip'], CHUNKS),
    keeps(415),
  ),
  ...rows(taken, {
    'Content-Encoding identity is no encoding': json('{}', TARGET, 'Content-Encoding: Identity'),
    'Content-Encoding that is empty is no encoding': json('{}', TARGET, 'Content-Encoding:'),
    'Content-Encoding without a body is ignored': report('Content-Encoding: gzip'),
    'Content-Type in other letters, a quoted charset': typed('Content-Type: Application/JSON ; a=b; Charset="UTF\\-8"'),
    'Any Content-Type is accepted without a body': report('Content-Type: nonsense', 'Content-Length: 0'),
    'A byte order mark is skipped': json(utf8('\ufeff{}')),
    'U+FFFD, U+FFFF and U+2028 are characters': json(utf8('{"description":"\ufffd\uffff\u2028"}')),
  }),
  ...badTypes.map((value) =>
    row(`A body whose Content-Type is ${shown(value)} is refused`, typed(`Content-Type: ${value}`), ends(400)),
  ),
  row('A body without Content-Type is refused', typed(), ends(400)),
  ...rows(keeps(400), {
    'A chunked body without Content-Type is refused when the body has arrived': `${report(CHUNKED)}${CHUNKS}`,
    'A body in UTF-16 with its mark': json(Buffer.from('\ufeff{}', 'utf16le').toString('latin1')),
    'A body in UTF-16 without its mark': json(Buffer.from('{}', 'utf16le').toString('latin1')),
    'A body in UTF-32': json('{\0\0\0}\0\0\0'),
    'Two byte order marks': json(utf8('\ufeff\ufeff{}')),
    'A byte order mark alone': json(utf8('\ufeff')),
    'A body cut inside a character': json(`{"description":"x\xe2\x82`),
    'A gzip stream with the type JSON': json('\x1f\x8b\x08\x00\x00\x00\x00\x00'),
  }),
  ...badBytes.map(([what, bytes]) =>
    row(`A body with ${what} is refused`, json(`{"description":"${bytes}"}`), keeps(400)),
  ),
];
