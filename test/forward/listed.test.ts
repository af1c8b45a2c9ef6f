/** `GET /sources`: what a hub knows of the devices that forward to it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { idTimeMs } from '../../src/journal/line/uuid.ts';
import { SentJournal, sourceOf } from '../support/forwarding.ts';
import { startService } from '../support/program.ts';

test('a hub lists the journals that forward to it', async (t) => {
  const hub = await startService(t);
  const sourcesAt = async () => (await (await fetch(`${hub.url}/sources`)).json()) as { sources: object[] };
  assert.deepEqual(await sourcesAt(), { sources: [] });
  const sent = new SentJournal(5, sourceOf(1));
  await sent.put(hub.url, 1, 5);
  const { sources } = await sourcesAt();
  assert.deepEqual(sources, [
    {
      id: sourceOf(1),
      name: null,
      token_name: null,
      deployment: null,
      last_seq: 5,
      last_event: new Date(idTimeMs(sent.id(5))!).toISOString(),
      last_seen: null,
      lost_events: 0,
      lag_events: null,
    },
  ]);
});
