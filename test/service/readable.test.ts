import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFields } from '../../src/http/headers.ts';
import { type Head, Refusal } from '../../src/http/message.ts';
import { createFindReadable, type ReadingOptions } from '../../src/service/readable.ts';

const READABLE = { deployment: undefined, whileAllowed: () => () => {} };

/** @returns `may`, or the status and the error of a request for events */
function verdict(
  address: string,
  {
    authority = 'localhost:3000',
    isRefused = false,
    ...options
  }: Partial<ReadingOptions & { authority: string; isRefused: boolean }>,
): string {
  const standard = { deployments: '', read: false, noRead: false, test: false, allowedHost: [] };
  const findReadable = () => {
    if (isRefused) throw new Refusal(401, 'no token');
    return READABLE;
  };
  const find = createFindReadable({ ...standard, ...options }, address, findReadable);
  try {
    assert.equal(
      find({ authority, fields: readFields([]) } as unknown as Head, { id: '1' } as Parameters<typeof find>[1]),
      READABLE,
    );
    return 'may';
  } catch (error) {
    assert.ok(error instanceof Refusal);
    return `${error.reply.status} ${error.message}`;
  }
}

test('reading is allowed on loopback, with --read or --test and in hosted mode, and --no-read turns it off', () => {
  const off = /^403 reading is off; start the service with --read .* without --no-read$/;
  for (const address of ['127.0.0.1', '::1', '127.0.0.9']) {
    assert.equal(verdict(address, {}), 'may');
    assert.equal(verdict(address, { read: true }), 'may');
    assert.match(verdict(address, { noRead: true }), off);
  }
  for (const address of ['0.0.0.0', '::', '192.0.2.7']) {
    assert.match(verdict(address, {}), off);
    assert.equal(verdict(address, { read: true }), 'may');
    assert.equal(verdict(address, { test: true }), 'may');
    assert.match(verdict(address, { noRead: true }), off);
    assert.equal(verdict(address, { deployments: 'file' }), 'may');
    assert.match(verdict(address, { deployments: 'file', noRead: true }), off);
  }
});

test('without a token a reading reveals nothing, not even whether reading is off', () => {
  for (const noRead of [true, false])
    assert.equal(verdict('0.0.0.0', { deployments: 'file', noRead, isRefused: true }), '401 no token');
});

test('without deployments the Host of a reading has to be this service, also if other machines reach it', () => {
  const read = true;
  for (const authority of ['192.0.2.7:3000', '[2001:db8::1]', 'localhost'])
    assert.equal(verdict('0.0.0.0', { read, authority }), 'may');
  const [foreign] = [/^403 Host "evil\.example" is not this service; .*--allowed-host/];
  assert.match(verdict('0.0.0.0', { read, authority: 'evil.example' }), foreign);
  assert.equal(verdict('0.0.0.0', { read, authority: 'evil.example', deployments: 'file' }), 'may');
  const allowedHost = ['assets.example'];
  assert.equal(verdict('0.0.0.0', { read, allowedHost, authority: 'assets.example:80' }), 'may');
  assert.match(verdict('0.0.0.0', { read, allowedHost, authority: 'evil.example' }), foreign);
});
