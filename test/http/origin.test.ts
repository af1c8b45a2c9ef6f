/** Accepted origins and host names; `hostile/access.ts` has the requests that a page can make a browser send. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type HeaderFields, readFields } from '../../src/http/headers.ts';
import { type Head, Refusal } from '../../src/http/message.ts';
import { createAccess, hostOf, isLoopback } from '../../src/http/origin.ts';

type Sent = Partial<Head> & Partial<Pick<HeaderFields, 'origin' | 'fetchSite'>>;

function head({ origin, fetchSite, ...part }: Sent): Head {
  const nothing = {
    fields: { ...readFields([]), origin, fetchSite },
    navigates: false,
    expect: undefined,
    token: undefined,
  };
  return { method: 'POST', path: '/', query: '', authority: 'localhost:3000', bodyBytes: 0, ...nothing, ...part };
}

function verdict(check: ReturnType<typeof createAccess>, part: Sent, opensPage = false): string {
  try {
    check(head(part), opensPage);
    return 'may';
  } catch (error) {
    if (error instanceof Refusal && error.reply.status === 403) return error.message;
    throw error;
  }
}

const local = createAccess({ address: '127.0.0.1', allowedHosts: ['edge.example'] });
const open = createAccess({ address: '0.0.0.0', allowedHosts: [] });

test('on loopback only the names of this machine and the configured names are accepted as Host', () => {
  for (const authority of ['localhost', '[::1]:3000', 'Edge.Example:99', undefined]) {
    assert.equal(verdict(local, { authority }), 'may', authority);
    assert.equal(verdict(local, { authority }), 'may', `${authority} again`);
  }
  for (const authority of ['127.0.0.2', '[::2]', 'localhos', 'edge.example.org'])
    assert.match(verdict(local, { authority }), /^Host ".*" is not this service; .*--allowed-host/, authority);
  assert.equal(verdict(createAccess({ address: '127.0.0.2', allowedHosts: [] }), { authority: '127.0.0.2:1' }), 'may');
});

test('on other interfaces any Host is accepted, until --allowed-host lists the names of the service', () => {
  assert.equal(verdict(open, { authority: 'anything.example' }), 'may');
  const named = createAccess({ address: '0.0.0.0', allowedHosts: ['good.example'] });
  for (const authority of ['good.example:3000', 'localhost', '192.0.2.7:3000', '[2001:db8::1]', undefined])
    assert.equal(verdict(named, { authority }), 'may', authority);
  assert.match(verdict(named, { authority: 'evil.example' }), /^Host "evil\.example" is not this service/);
});

test('a default port can be written or omitted', () => {
  const pairs = [
    ['https://edge.example', 'edge.example:443'],
    ['http://edge.example', 'edge.example:80'],
    ['http://edge.example:80', 'edge.example'],
    ['https://edge.example', 'edge.example'],
  ] as const;
  for (const [origin, authority] of pairs) assert.equal(verdict(local, { origin, authority }), 'may', origin);
  assert.match(verdict(local, { origin: 'http://edge.example', authority: 'edge.example:443' }), /^Origin/);
});

test('a page with a rebound host name is refused on every address, unless the name is allowed', () => {
  const named = createAccess({ address: '0.0.0.0', allowedHosts: ['good.example'] });
  for (const from of [
    (name: string) => ({ origin: `http://${name}`, authority: name }),
    (name: string) => ({ method: 'GET', fetchSite: 'same-origin', authority: name }), // has no Origin
  ]) {
    for (const check of [local, open])
      assert.match(verdict(check, from('evil.example:3000')), /^Host "evil\.example:3000"/);
    for (const name of ['192.0.2.7:3000', '[2001:db8::1]:3000', 'localhost'])
      assert.equal(verdict(open, from(name)), 'may');
    assert.equal(verdict(named, from('good.example:3000')), 'may');
    assert.match(verdict(named, from('evil.example')), /^Host/);
  }
  assert.equal(verdict(open, { method: 'GET', fetchSite: 'none', authority: 'anything.example' }), 'may'); // opened by a person
});

test('a page of another site can only open the page of the service in a tab', () => {
  const opens = { method: 'GET', fetchSite: 'cross-site', navigates: true };
  for (const check of [local, open]) {
    for (const fetchSite of ['cross-site', 'same-site'])
      assert.equal(verdict(check, { ...opens, fetchSite }, true), 'may');
    assert.match(
      verdict(check, opens, false),
      /^Sec-Fetch-Site is "cross-site": web pages of other sites are refused$/,
    );
    for (const part of [{ navigates: false }, { method: 'HEAD' }, { method: 'POST' }])
      assert.match(verdict(check, { ...opens, ...part }, true), /^Sec-Fetch-Site/, JSON.stringify(part));
    assert.match(verdict(check, { ...opens, origin: 'http://evil.example' }, true), /^Origin/);
  }
  assert.match(verdict(local, { ...opens, authority: 'evil.example' }, true), /^Host/);
});

test('loopback addresses are recognised', () => {
  for (const address of ['127.0.0.1', '127.255.0.3', '::1', '::ffff:127.0.0.1', 'localhost'])
    assert.equal(isLoopback(address), true);
  for (const address of ['0.0.0.0', '::', '128.0.0.1', '10.127.0.1', 'localhost.example'])
    assert.equal(isLoopback(address), false);
  assert.equal(hostOf('::1'), '[::1]');
  assert.equal(hostOf('127.0.0.1'), '127.0.0.1');
});
