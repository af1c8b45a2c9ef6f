import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findRoute, type Route } from '../src/router.ts';

const routes: readonly Route<string>[] = [
  { methods: ['POST'], path: '/report', takesKey: true, handler: 'report' },
  { methods: ['GET', 'HEAD'], path: '/livez', takesKey: false, handler: 'live' },
];

test('a route is found with what follows its slash, raw', () => {
  const table: readonly (readonly [string, string | undefined])[] = [
    ['/report', undefined],
    ['/report/', undefined],
    ['/report/a/b', 'a/b'],
    ['/report/a/', 'a/'],
    ['/report//', '/'],
    ['/report/../livez', '../livez'],
    ['/report/a%2Fb', 'a%2Fb'],
  ];
  for (const [path, keyPath] of table) {
    assert.deepEqual(findRoute(routes, '', 'POST', path), { kind: 'found', handler: 'report', keyPath }, path);
  }
  assert.deepEqual(findRoute(routes, '', 'HEAD', '/livez'), { kind: 'found', handler: 'live', keyPath: undefined });
});

test('paths that only look like a route are unknown', () => {
  for (const path of ['/', '/reports', '/REPORT/', '/report%2Fa', '/livez/', '/livez/a', '//report/', '', 'report/']) {
    assert.deepEqual(findRoute(routes, '', 'POST', path), { kind: 'unknown path' }, path);
  }
});

test('a known path with another method says which are allowed', () => {
  assert.deepEqual(findRoute(routes, '', 'GET', '/report/a'), { kind: 'wrong method', allow: 'POST' });
  assert.deepEqual(findRoute(routes, '', 'POST', '/livez'), { kind: 'wrong method', allow: 'GET, HEAD' });
  assert.deepEqual(findRoute(routes, '', 'post', '/report/'), { kind: 'wrong method', allow: 'POST' });
});

test('a prefix goes before every path', () => {
  assert.equal(findRoute(routes, '/some/path', 'POST', '/some/path/report/a').kind, 'found');
  assert.equal(findRoute(routes, '/some/path', 'GET', '/some/path/livez').kind, 'found');
  for (const path of ['/report/a', '/livez', '/some/pathreport/', '/some/path', '/some/path//report/']) {
    assert.equal(findRoute(routes, '/some/path', 'POST', path).kind, 'unknown path', path);
  }
});
