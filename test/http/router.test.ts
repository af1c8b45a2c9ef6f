import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findRoute, type Route } from '../../src/http/router.ts';

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
    assert.deepEqual(
      findRoute(routes, '', 'POST', path),
      { kind: 'found', path: '/report', handler: 'report', keyPath },
      path,
    );
  }
  const live = { kind: 'found', path: '/livez', handler: 'live', keyPath: undefined };
  assert.deepEqual(findRoute(routes, '', 'HEAD', '/livez'), live);
});

test('paths that only look like a route are unknown', () => {
  for (const path of ['/', '/reports', '/REPORT/', '/report%2Fa', '/livez/', '/livez/a', '//report/', '', 'report/']) {
    assert.deepEqual(findRoute(routes, '', 'POST', path), { kind: 'unknown path' }, path);
  }
});

test('a known path with another method says which are allowed', () => {
  const wrong = (path: string, allow: string) => ({ kind: 'wrong method', path, allow });
  assert.deepEqual(findRoute(routes, '', 'GET', '/report/a'), wrong('/report', 'POST'));
  assert.deepEqual(findRoute(routes, '', 'POST', '/livez'), wrong('/livez', 'GET, HEAD'));
  assert.deepEqual(findRoute(routes, '', 'post', '/report/'), wrong('/report', 'POST'));
});

test('a prefix goes before every path', () => {
  assert.equal(findRoute(routes, '/some/path', 'POST', '/some/path/report/a').kind, 'found');
  assert.equal(findRoute(routes, '/some/path', 'GET', '/some/path/livez').kind, 'found');
  for (const path of ['/report/a', '/livez', '/some/pathreport/', '/some/path', '/some/path//report/']) {
    assert.equal(findRoute(routes, '/some/path', 'POST', path).kind, 'unknown path', path);
  }
});
