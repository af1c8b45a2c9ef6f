/** What is settled of a destination passes no event of which nothing is known. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ledger, Step } from '../../../src/forward/ledger/ledger.ts';
import { Line } from '../../../src/journal/look/reading.ts';
import { diskWith, FIRST, segment } from '../../support/segments.ts';
import { Model } from '../../world/destination.ts';
import { cursorOf, idOf, ledgerOf, lettersOf, saveCursor, startPipe } from '../scripted.ts';

/** A ledger that is told other steps than its pipe says. */
function withSteps(ledger: Ledger, told: (step: Step) => Step): Ledger {
  const record = ledger.record.bind(ledger);
  return Object.assign(ledger, { record: (step: Step) => record(told(step)) });
}

for (const kind of ['hub', 'api'] as const) {
  test(`${kind}: a step that would leave events out stops the destination and moves no cursor`, async () => {
    const disk = diskWith({ [FIRST]: segment(1, 10) });
    await saveCursor(disk, { seq: 2, kind });
    const skipping = withSteps(ledgerOf(disk), (step) =>
      step.kind === 'recorded' && step.lines[0]!.seq === 3 ? { ...step, lines: laterThan(step.lines) } : step,
    );
    const destination = Object.assign(new Model(kind), { seq: 2, id: idOf(disk, 2) });
    const bench = startPipe(disk, 10, () => destination, { ledger: skipping, limits: { forwardStoppedMs: 60_000 } });
    await bench.until('stopped');
    const { why, reason, seq } = bench.pipe.status;
    assert.deepEqual([why, seq], ['damage', 2]);
    assert.match(`${reason}`, /^events 3 to 4 would be passed, and no dead letter names them$/);
    await bench.pipe.close();
    assert.equal((await cursorOf(disk)).seq, 2);
    assert.deepEqual(await lettersOf(disk), []);
  });
}

/** A line that is not the next one. */
function laterThan([first]: readonly Line[]): readonly Line[] {
  const { bytes, start, end } = first!;
  return [new Line(bytes, start, end, 5)];
}
