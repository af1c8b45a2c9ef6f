/** The journals of a folder, as a command reads them. */

import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { withLocalJournals } from '../../../src/commands/look/local.ts';
import { collectOutput } from '../../support/command-output.ts';
import { newFolder } from '../../support/program.ts';
import { FIRST, segment } from '../../support/segments.ts';

test('a command that asks twice for the assets of a journal reads it once', async (t) => {
  const data = newFolder(t);
  writeFileSync(join(data, FIRST), segment(1, 3));
  const counts: number[] = [];
  const code = await withLocalJournals(data, collectOutput().output, undefined, async ({ all: [source] }) => {
    for (const stale of ['100d', undefined]) {
      let count = 0;
      for await (const page of source!.assets({ stale })) count += page.length;
      counts.push(count);
      rmSync(join(data, FIRST), { force: true });
    }
    return undefined;
  });
  assert.deepEqual([code, counts], [0, [0, 3]]);
});
