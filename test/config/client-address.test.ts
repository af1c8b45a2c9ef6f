import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClientAddress, readNetwork } from '../../src/config/client-address.ts';
import { readConfig } from '../../src/config/options-of-service.ts';

const clientOf = createClientAddress(
  ['127.0.0.1', '10.0.0.0/8', '2001:db8::/32', '::ffff:192.0.2.0/120'].map(readNetwork),
);

function client(peer: string, ...lines: string[]): string {
  return clientOf(
    peer,
    lines.flatMap((line) => ['Host', 'localhost', 'X-Forwarded-For', line]),
  );
}

test('without a trusted proxy the client is the peer of the connection, whatever the header contains', () => {
  assert.equal(client('203.0.113.1', '203.0.113.9'), '203.0.113.1');
  assert.equal(createClientAddress([])('127.0.0.1', ['X-Forwarded-For', '203.0.113.9']), '127.0.0.1');
  assert.equal(createClientAddress([])('', []), '', 'a connection that is gone has no address');
});

test('after trusted proxies the client is the last address that is not a trusted proxy', () => {
  const table: readonly (readonly [peer: string, lines: readonly string[], client: string])[] = [
    ['127.0.0.1', ['203.0.113.9'], '203.0.113.9'],
    ['127.0.0.1', ['198.51.100.7, 203.0.113.9'], '203.0.113.9'], // the client invented the first one
    ['127.0.0.1', ['198.51.100.7, 203.0.113.9, 10.1.2.3,\t10.9.9.9'], '203.0.113.9'],
    ['127.0.0.1', ['198.51.100.7', '203.0.113.9', '10.1.2.3'], '203.0.113.9'], // several lines are one list
    ['127.0.0.1', ['10.1.2.3, 10.4.5.6'], '10.1.2.3'], // trusted proxies only: the first of them is the client
    ['127.0.0.1', [], '127.0.0.1'],
    ['::ffff:127.0.0.1', ['203.0.113.9'], '203.0.113.9'], // the form of a socket for both families
    ['::ffff:7f00:1', ['203.0.113.9'], '203.0.113.9'],
    ['192.0.2.200', ['203.0.113.9'], '203.0.113.9'], // in a network that was given as IPv6
    ['192.0.3.1', ['203.0.113.9'], '192.0.3.1'],
    ['127.0.0.2', ['203.0.113.9'], '127.0.0.2'],
    ['2001:db8::5', ['2001:DB9:0::0:1'], '2001:db9::1'],
    ['2001:db9::5', ['203.0.113.9'], '2001:db9::5'],
    ['127.0.0.1', ['fe80::1%eth0'], 'fe80::1'],
  ];
  for (const [peer, lines, expected] of table) assert.equal(client(peer, ...lines), expected, `${peer}: ${lines}`);
});

test('a port added by a proxy is left out', () => {
  for (const [entry, expected] of Object.entries({
    '203.0.113.9:5678': '203.0.113.9',
    '[2001:db9::1]:80': '2001:db9::1',
    '[2001:db9::1]': '2001:db9::1',
    '::ffff:203.0.113.9': '203.0.113.9',
    '2001:db9::1:80': '2001:db9::1:80',
  })) {
    assert.equal(client('127.0.0.1', entry), expected, entry);
    assert.equal(client('127.0.0.1', `${entry}, 10.0.0.1:99`), expected, entry);
  }
});

test('at an invalid address the search ends with the proxy that wrote it; earlier entries do not count', () => {
  for (const bad of [
    ...['unknown', '', ' ', '-', '203.0.113', '203.0.113.9:', '203.0.113.09'],
    ...['[::1', '::1]:80', '_hidden', '1.2.3.4 5.6.7.8'],
  ]) {
    assert.equal(client('127.0.0.1', `198.51.100.7, ${bad}`), '127.0.0.1', JSON.stringify(bad));
    assert.equal(client('127.0.0.1', `198.51.100.7, ${bad}, 10.0.0.1`), '10.0.0.1', JSON.stringify(bad));
    assert.equal(client('127.0.0.1', `${bad}, 203.0.113.9`), '203.0.113.9', JSON.stringify(bad));
  }
});

test('--trusted-proxy accepts addresses and networks, and reports what is wrong with other values', () => {
  const env = { ASSETLOG_TRUSTED_PROXY: '127.0.0.1,10.0.0.0/8' };
  const read = readConfig(['--deployments', 'f'], env);
  assert.deepEqual(read.kind === 'valid' && read.config.trustedProxy, [
    { address: '127.0.0.1', family: 'ipv4', bits: 32 },
    { address: '10.0.0.0', family: 'ipv4', bits: 8 },
  ]);
  const several = readConfig(['--trusted-proxy', '::1', '--trusted-proxy=2001:DB8::/32'], env);
  assert.deepEqual(several.kind === 'valid' && several.config.trustedProxy, [
    { address: '::1', family: 'ipv6', bits: 128 },
    { address: '2001:db8::', family: 'ipv6', bits: 32 },
  ]);
  const noAddress = 'is not an address such as 127.0.0.1, or a network such as 10.0.0.0/8';
  const anyClient = 'would let every client choose its address; name the proxies only';
  for (const [text, problem] of Object.entries({
    localhost: noAddress,
    '10.0.0': noAddress,
    '10.0.0.0/': noAddress,
    '10.0.0.0/8/8': noAddress,
    '10.0.0.0/x': noAddress,
    '127.0.0.1:80': noAddress,
    '[::1]': noAddress,
    '10.0.0.0/33': 'has more than the 32 bits of its address',
    '::1/129': 'has more than the 128 bits of its address',
    '0.0.0.0/0': anyClient,
    '::/0': anyClient,
    '::ffff:0.0.0.0/96': anyClient,
  })) {
    assert.deepEqual(readConfig(['--trusted-proxy', text], {}), {
      kind: 'invalid',
      problems: [`--trusted-proxy "${text}" ${problem}`],
    });
  }
});
