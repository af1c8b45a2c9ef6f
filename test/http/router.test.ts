import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findRoute, type Prefix, type Route } from '../../src/http/router.ts';

const routes: readonly Route<string>[] = [
  { needs: 'report', methods: ['POST'], path: '/report', followedBy: 'key', bodyTypes: [], handler: 'report' },
  { needs: 'nothing', methods: ['GET', 'HEAD'], path: '/livez', followedBy: 'nothing', bodyTypes: [], handler: 'live' },
  { needs: 'report', methods: ['POST'], path: '/batch', followedBy: 'slash', bodyTypes: [], handler: 'batch' },
];
const [_report, _live, _batch] = routes as [Route<string>, Route<string>, Route<string>];
const none: Prefix = { path: '', namesDeployment: false };

test('only paths that need a journal begin with the name of a deployment', () => {
  for (const path of ['', '/some/path']) {
    const prefix = { path, namesDeployment: true };
    const keyOf = (method: string, target: string) => {
      const match = findRoute(routes, prefix, method, `${path}${target}`);
      return match.kind === 'found' ? `${match.route.path} ${match.keyPath}` : match.kind;
    };
    assert.equal(keyOf('POST', '/prod/report/a/b'), '/report a/b');
    assert.equal(keyOf('POST', '/report/report'), '/report undefined');
    assert.equal(keyOf('POST', '//report/a'), '/report a'); // an empty name is refused with the token
    assert.equal(keyOf('GET', '/prod/report'), 'wrong method');
    assert.equal(keyOf('GET', '/livez'), '/livez undefined');
    for (const target of ['/report/a', '/prod', '/prod/', '', '/', '/a/prod/report', '/prod/livez'])
      assert.equal(keyOf('POST', target), 'unknown path', target);
  }
});

test('the page is at the root and below each possible name of a deployment, for its methods only', () => {
  const row = { methods: ['GET'], path: '/', followedBy: 'nothing', bodyTypes: [] } as const;
  const root: Route<string> = { ...row, needs: 'nothing', page: 'at the root', handler: 'root' };
  const named: Route<string> = { ...row, needs: 'nothing', page: 'below any name', handler: 'named' };
  const table = [...routes, root, named];
  const hosted: Prefix = { path: '/some/path', namesDeployment: true };
  const find = (method: string, path: string, prefix = hosted) => {
    const match = findRoute(table, prefix, method, path);
    return match.kind === 'found' ? match.route.handler : match.kind;
  };
  assert.equal(find('GET', '/', none), 'root');
  assert.equal(find('GET', '/some/path/'), 'root');
  assert.equal(find('GET', '/some/path/prod/'), 'named');
  assert.equal(find('GET', '/some/path/livez/'), 'named');
  for (const path of ['/some/path', '/some/path/prod', '/some/path//', '/some/path/../', '/some/path/pr%6fd/', '/'])
    assert.equal(find('GET', path), 'unknown path', path);
  assert.equal(find('POST', '/some/path/'), 'wrong method');
  assert.equal(find('POST', '/some/path/prod/'), 'unknown path');
});
