/** What a hub keeps of the ways of events. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addThrough } from '../../../src/forward/hub/through.ts';
import { sourceOf } from '../../support/forwarding.ts';
import { upTo } from '../../support/tools.ts';

const MAX = 5;

/** @returns the numbers of the journals that lines of the journal 1 have come through; undefined if there are no further ones */
function namesAfter(
  known: readonly number[],
  through: readonly number[] | undefined,
  from: readonly (number | undefined)[],
) {
  const events = from.map((one) => ({ origin: { throughSource: one === undefined ? undefined : sourceOf(one) } }));
  const request = { source: sourceOf(1), throughSources: through?.map(sourceOf) };
  return addThrough(known.map(sourceOf), request, events as never, MAX)?.map((id) => Number(id.slice(-12)));
}

test('a device has no names, a hub adds what it says, and a hub of 0.2.0 what its lines say as long as they have a way on', () => {
  for (const [what, known, through, from, after] of [
    ['a device', [], undefined, [undefined, undefined], undefined],
    ['a hub with devices', [], [1], [7, 8, 9], [1]],
    ['a hub that has said it', [1], [1], [7], undefined],
    ['a hub behind hubs', [1, 2], [3, 1], [3], [1, 2, 3]],
    ['a hub that forgets itself', [], [2], [2], [1, 2]],
    ['as many as there may be', [1, 2, 3], [4, 5, 6, 7], [4], [1, 2, 3, 4, 5]],
    ['one more', [1, 2, 3, 4, 5], [6], [6], undefined],
    ['an older hub', [], undefined, [undefined, 2, 3, 2], [1, 2, 3]],
    ['an older hub with later lines', [1, 2], undefined, [4], [1, 2, 4]],
    ['an older hub with many devices', [], undefined, upTo(9, 2), [1]],
    ['an older hub with one device too many', [1, 2, 3, 4], undefined, [5], undefined],
  ] as const) {
    assert.deepEqual(namesAfter(known, through, from), after, what);
  }
});
