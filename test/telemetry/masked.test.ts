import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newToken } from '../../src/deployments/tokens.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { findTokens, masked, maskedReason, maskToken, maskTokens, withoutSecret } from '../../src/telemetry/masked.ts';

const MAX = 200;
const encoded = (text: string) =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');

test('a token of assetlog token is masked anywhere in a log line', () => {
  for (let count = 0; count < 100; count += 1) {
    const { token } = newToken();
    assert.equal(maskTokens(`a ${token}, b${token}/${token}c`), 'a ***, b***/***c');
  }
  for (const text of ['asl_', 'asl_orders', `asl-${'x'.repeat(43)}`, `asl_${'x'.repeat(42)}`]) {
    assert.equal(maskTokens(text), text);
  }
  const lines: string[] = [];
  const notices = createNotices('info', false, (line) => lines.push(line)).with({ deployment: newToken().token });
  notices.warn('refused', { path: `/${newToken().token}`, list: [newToken().token] });
  assert.doesNotMatch(lines.join(''), /asl_/);
  assert.equal(JSON.parse(lines[0] ?? '').path, '/***');
});

test('a token in a path is masked, in one part or in several, percent-encoded or not', () => {
  const { token } = newToken();
  const own = 'Pa55+word/with/slash/of+40+characters+==';
  const shown = (path: string) =>
    masked(
      path,
      findTokens(path, (text) => text === own, MAX),
    );
  for (const [path, expected] of [
    [`/prod/report_asset_check/${token}`, '/prod/report_asset_check/***'],
    [`/${token}/report_asset_check/${token}/`, '/***/report_asset_check/***/'],
    [`/prod/x/token=${token};y`, '/prod/x/token=***;y'],
    [`/prod/x/${encoded(token)}/y`, '/prod/x/***/y'],
    [`/prod/x/${token.replace('_', '%5F')}`, '/prod/x/***'],
    [`/prod/x/${own}`, '/prod/x/***'],
    [`/prod/${encodeURIComponent(own)}/y`, '/prod/***/y'],
    [`/${own}/${own}`, '/***/***'],
    ['/prod/report_asset_check/warehouse/orders', '/prod/report_asset_check/warehouse/orders'],
    ['/prod/%zz/%FF%FF%FF', '/prod/%zz/%FF%FF%FF'],
    ['', ''],
  ] as const) {
    assert.equal(shown(path), expected);
  }
  const tokens = findTokens(`/prod/${own}`, (text) => text === own, MAX);
  assert.equal(masked(`the key "${own}" and ${token}`, tokens), 'the key "***" and ***');
});

test('only the start of a path is searched, so that a long path costs no more', () => {
  let asked = 0;
  const path = 'ab/'.repeat(5_000);
  findTokens(
    path,
    () => {
      asked += 1;
      return false;
    },
    MAX,
  );
  assert.ok(asked <= 2 * MAX, `${asked}`);
});

test('a token that a service repeats is masked, whole, cut, percent-encoded or escaped', () => {
  const token = 'key/with"quote-and-more';
  for (const [text, expected] of [
    [`no ${token} here, ${token}`, 'no *** here, ***'],
    [JSON.stringify({ error: `no ${token} here` }), '{"error":"no *** here"}'],
    [
      `{"error":"${[...token].map((one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}"}`,
      '{"error":"***"}',
    ],
    [`/events?token=${encodeURIComponent(token)}&x`, '/events?token=***&x'],
    [encoded(token), '***'],
    [encoded(token).toUpperCase().replaceAll('%2D', '-'), '***'],
    [`${token.slice(0, 16)}…`, '***…'],
    [`${token.slice(0, 15)}…`, `${token.slice(0, 15)}…`],
    [`${token.slice(0, 10)}${token}`, `${token.slice(0, 10)}***`],
    ['', ''],
  ] as const) {
    assert.equal(maskToken(text, token), expected);
  }
  assert.equal(maskToken('an error', 'error'), 'an error', 'a word is no secret');
});

test('a secret with characters that begin an encoding, or that several bytes encode, is masked in each encoding', () => {
  for (const secret of [
    '100%pure%2Fgold',
    'back\\slash\\\\s',
    'a b%20c%%d\\"e',
    'pässwörd-é',
    '%%%%%%%%',
    '\\'.repeat(12),
    'k😀y-of-😀',
  ]) {
    const uri = encodeURIComponent(secret);
    const unicode = secret
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join('');
    for (const form of [
      secret,
      uri,
      uri.replace(/%../g, (byte) => byte.toLowerCase()),
      encoded(secret),
      uri.replaceAll('%20', '+'),
      JSON.stringify(secret).slice(1, -1),
      unicode,
      unicode.toUpperCase().replaceAll('\\U', '\\u'),
    ]) {
      for (const [before, after] of [
        ['Bearer ', ' is wrong'],
        ['/?p=', '&x=1'],
        ['', ''],
      ]) {
        assert.equal(maskToken(`${before}${form}${after}`, secret), `${before}***${after}`, `${form} of ${secret}`);
      }
      const short = secret.slice(0, 3);
      assert.equal(withoutSecret(`no ${encoded(short)} here`, short), '***', short);
    }
    assert.equal(maskToken('100%25 of \\\\ all %20 %', secret), '100%25 of \\\\ all %20 %');
  }
});

test('a token that the reason of a refusal quotes is masked, and no other text in quotes', () => {
  const own = 'my own "token" of 2026';
  const shown = (text: string) => maskedReason(text, ['/path'], (token) => token === own);
  assert.equal(
    shown(`no ${JSON.stringify(own)}; "other", "a\\"b" and "x" in /path`),
    'no "***"; "other", "a\\"b" and "x" in ***',
  );
  assert.equal(shown('an open "quote'), 'an open "quote');
  assert.equal(shown(`"\\x" ${newToken().token}`), '"\\x" ***');
});
