/** What a lock of another user means to a user who may not connect to it. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { withoutRoot } from '../support/tools.ts';
import { runAsUser, userFolder, withoutBuilt } from './as-user.ts';
import { report } from './load.ts';

test('a lock that the user may not ask holds, and one of them that was never published does not', {
  skip: withoutRoot || withoutBuilt,
}, async (t) => {
  for (const [name, code] of [
    ['.lock-older', 4],
    ['.unlocked-older', null],
  ] as const) {
    const data = userFolder(t);
    const holder = createServer((asker) => asker.end('held 1')).listen(join(data, name));
    t.after(() => holder.close());
    await once(holder, 'listening');
    chmodSync(join(data, name), 0o755);
    const end = await runAsUser(t, data);
    assert.equal(end.code, code, end.stderr);
    if (code === 4)
      assert.match(end.stderr, /^assetlog: \S+ is in use by a process of another user, whose \.lock-older /);
    else assert.equal(await report(end.port, 'a'), 200);
  }
});
