/** `bin/CHANGELOG.md`: its newest section is that of the version in `package.json`, which a release contains. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { version } from '../../src/config/names.ts';
import { page } from '../support/handbook.ts';
import { root } from '../support/program.ts';

test('the newest changes are those of the version of the program, and each version has a date', () => {
  const changes = readFileSync(join(root, 'bin/CHANGELOG.md'), 'utf8');
  const headings = changes.match(/^## .*$/gm) ?? [];
  const sections = headings.map((heading) => /^## (\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)$/.exec(heading) ?? []);
  assert.equal(sections[0]?.[1], version);
  for (const text of [`\n| ${version} |`, `grep "^assetlog ${version}$"`])
    assert.ok(page('upgrade').includes(text), text);
  assert.ok(page('install').includes(`./assetlog-${version}.tgz`));
  const dates = sections.map(([, , date = 'no date']) => date);
  assert.deepEqual(dates, dates.toSorted().reverse(), headings.join('\n'));
  const manifests = ['package.json', 'package-lock.json'].map((file) => {
    return JSON.parse(readFileSync(join(root, file), 'utf8')).version;
  });
  assert.deepEqual(manifests, [version, version]);
});
