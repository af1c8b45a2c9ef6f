/** What a journal does when it contradicts itself: nothing that follows from it gets a 200. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Defect } from '../../src/config/defect.ts';
import type { Event } from '../../src/event/event.ts';
import type { RecordResult } from '../../src/event/record-result.ts';
import { KeyMemory } from '../../src/journal/keys/memory.ts';
import { described, openJournal, openSimulated, quickLimits } from '../support/journal.ts';
import { eventOf } from '../support/plain-event.ts';
import { FIRST } from '../support/segments.ts';
import { eventually } from '../support/tools.ts';

const DEFECT = 'the service found a defect of its own; send the report again when the service is back';

test('lines that would not continue the journal are not written, and the journal fails', async () => {
  for (const broken of ['"type":"x\ny"', '"type":"x"\n{"seq":2,"id":"']) {
    const { journal, disk, report, failures } = await openSimulated();
    assert.equal(await report('first'), undefined);
    const before = disk.bytes(FIRST);
    const event: Event = { ...eventOf(described('second')), encoded: broken };
    const result = await new Promise<RecordResult>((resolve) => journal.append([event], resolve));
    assert.deepEqual(result, { kind: 'refused', reason: DEFECT });
    await eventually('the failure is reported', () => failures.length === 1);
    assert.ok(failures[0] instanceof Defect);
    assert.equal(await report('third'), DEFECT);
    assert.deepEqual(disk.bytes(FIRST), before);
    await journal.close();
  }
});

test('in tests, keys in memory that differ from those of the lines end the journal', async () => {
  const keyed = (key: string) => ({ ...described(key), idempotencyKey: key });
  let calls = 0;
  const hashKey = (text: string) => {
    calls += 1;
    return { text, high: 1, low: calls };
  };
  for (const keyCheckBytesMax of [2 ** 20, 0]) {
    const limits = { ...quickLimits, keyCheckBytesMax };
    const { journal, append, failures } = await openSimulated({
      keyMemory: new KeyMemory(10),
      hashKey,
      segmentBytes: 1,
      limits,
    });
    for (const key of ['a', 'b']) assert.equal((await append(keyed(key))).kind, 'recorded');
    await eventually(
      'the file is closed and read',
      () => journal.files === 2 && (failures.length > 0 || keyCheckBytesMax === 0),
    );
    const after = await append(keyed('c'));
    assert.deepEqual(after, keyCheckBytesMax > 0 ? { kind: 'refused', reason: DEFECT } : { kind: 'recorded' });
    await journal.close();
    assert.deepEqual(
      failures.map(({ message }) => message),
      keyCheckBytesMax > 0 ? [`the keys of ${FIRST} in memory are not those of its lines`] : [],
    );
  }
});

test('in tests, a sidecar with other keys than its lines ends the journal that loads it', async () => {
  const { journal, append, disk } = await openSimulated({ keyMemory: new KeyMemory(10), segmentBytes: 1 });
  for (const key of ['a', 'b']) await append({ ...described(key), idempotencyKey: key });
  await journal.close();
  const hashKey = (text: string) => ({ text, high: 1, low: 1 });
  const other = await openJournal(disk, { keyMemory: new KeyMemory(10), hashKey });
  await eventually('the failure is reported', () => other.failures.length === 1);
  assert.ok(other.failures[0] instanceof Defect);
  await other.journal.close();
});
