/** Content-Type, and bodies that are not UTF-8. */

import { CHUNKED, CHUNKS, ends, type Forms, keeps, type Row, row, taken, utf8 } from './forms.ts';

/** Values of Content-Type that are refused before the body is read, so the connection ends. */
const badTypes: readonly (readonly [what: string, value: string])[] = [
  ['text/plain', 'text/plain'],
  ['a form', 'application/x-www-form-urlencoded'],
  ['a form of several parts', 'multipart/form-data; boundary=x'],
  ['empty', ''],
  ['a list', 'application/json, application/json'],
  ['a longer word', 'application/jsonp'],
  ['JSON of another kind', 'application/ld+json'],
  ['text/json', 'text/json'],
  ['latin1', 'application/json; charset=iso-8859-1'],
  ['UTF-16', 'application/json; charset=utf-16'],
  ['an empty charset', 'application/json; charset='],
  ['a charset that is not closed', 'application/json; charset="utf-8'],
  ['two charsets, one of them good', 'application/json; charset=utf-8; charset=latin1'],
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
    row(
      `Content-Encoding ${coding} on a body is refused before it is read`,
      json('{}', TARGET, `Content-Encoding: ${coding}`),
      ends(415),
    ),
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
  row('Content-Encoding identity is no encoding', json('{}', TARGET, 'Content-Encoding: Identity'), taken),
  row('Content-Encoding that is empty is no encoding', json('{}', TARGET, 'Content-Encoding:'), taken),
  row('Content-Encoding without a body is ignored', report('Content-Encoding: gzip'), taken),
  ...badTypes.map(([what, value]) =>
    row(`A body whose Content-Type is ${what} is refused`, typed(`Content-Type: ${value}`), ends(400)),
  ),
  row('A body without Content-Type is refused', typed(), ends(400)),
  row(
    'A chunked body without Content-Type is refused when the body has arrived',
    `${report(CHUNKED)}${CHUNKS}`,
    keeps(400),
  ),
  row(
    'Content-Type in other letters with a quoted charset is JSON',
    typed('Content-Type: Application/JSON ; a=b; Charset="UTF\\-8"'),
    taken,
  ),
  row('Any Content-Type is accepted without a body', report('Content-Type: nonsense', 'Content-Length: 0'), taken),
  ...badBytes.map(([what, bytes]) =>
    row(`A body with ${what} is refused`, json(`{"description":"${bytes}"}`), keeps(400)),
  ),
  row(
    'A body in UTF-16 with its mark is refused',
    json(Buffer.from('\ufeff{}', 'utf16le').toString('latin1')),
    keeps(400),
  ),
  row(
    'A body in UTF-16 without its mark is refused',
    json(Buffer.from('{}', 'utf16le').toString('latin1')),
    keeps(400),
  ),
  row('A body in UTF-32 is refused', json('{\0\0\0}\0\0\0'), keeps(400)),
  row('A byte order mark is skipped', json(utf8('\ufeff{}')), taken),
  row('Two byte order marks are refused', json(utf8('\ufeff\ufeff{}')), keeps(400)),
  row('A byte order mark alone is refused', json(utf8('\ufeff')), keeps(400)),
  row('A body cut inside a character is refused', json(`{"description":"x\xe2\x82`), keeps(400)),
  row('U+FFFD, U+FFFF and U+2028 are characters', json(utf8('{"description":"\ufffd\uffff\u2028"}')), taken),
  row('A gzip stream with the type JSON is refused', json('\x1f\x8b\x08\x00\x00\x00\x00\x00'), keeps(400)),
];
