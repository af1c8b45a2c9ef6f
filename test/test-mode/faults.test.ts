import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { limits } from '../../src/config/limits.ts';
import { FaultsError } from '../../src/test-mode/fault.ts';
import { Faults, type MetReport } from '../../src/test-mode/faults.ts';
import { fault } from '../support/faults.ts';
import { eventOf, type PlainEvent } from '../support/plain-event.ts';

function reportOf(event: PlainEvent, path = '/report'): MetReport {
  return { path, events: [eventOf(event)], isBatch: false };
}

function checkOf(key: string, partition?: string, checkName = 'fresh'): MetReport {
  const more = { checkName, passed: true, severity: 'ERROR' } as const;
  return reportOf({ type: 'AssetCheckEvaluation', assetKey: [key], partition, ...more });
}

const observation = reportOf({ type: 'AssetObservation', assetKey: ['orders'] });

function faultsOf(...faults: readonly object[]): Faults {
  const all = new Faults(limits);
  all.set({ seed: 7, faults });
  return all;
}

/** The index of the fault that each of `count` equal reports meets; `-` for none. */
function run(faults: Faults, count: number, report = observation): string {
  return Array.from({ length: count }, () => faults.meet(report)?.index ?? '-').join('');
}

test('the first fault that matches wins, and a used-up fault leaves the report to the next one', () => {
  const faults = faultsOf(
    fault({ type: 'check' }, { status: 500 }),
    fault({}, { status: 503 }, { times: 2 }),
    fault({ asset_key: 'orders' }, { status: 429 }, { after: 1, times: 2 }),
    fault({}, { drop: 'reply' }, { after: 2 }),
  );
  assert.equal(run(faults, 9), '11-22-333');
  assert.deepEqual(
    faults.show().faults.map(({ matched, met }) => [matched, met]),
    [
      [0, 0],
      [9, 2],
      [9, 2],
      [9, 3],
    ],
  );
  assert.equal(faults.show().reports, 9);
});

test('the same seed and the same reports give the same run, and another seed gives another run', () => {
  const list = [
    fault({}, { status: 503 }, { probability: 0.3 }),
    fault({}, { delay_ms: [10, 1000] }, { probability: 0.5, after: 3 }),
  ];
  const runOf = (seed: number) => {
    const faults = new Faults(limits);
    faults.set({ seed, faults: list });
    return Array.from({ length: 40 }, () => {
      const met = faults.meet(observation);
      return met === undefined ? '-' : `${met.index}:${met.delayMs}`;
    }).join(' ');
  };
  const runs = new Set<string>();
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 32 - 1 }), (seed) => {
      const first = runOf(seed);
      runs.add(first);
      assert.equal(runOf(seed), first);
    }),
    { numRuns: 200 },
  );
  assert.ok(runs.size > 150, `${runs.size} different runs`);
  assert.equal(runOf(7), runOf(7));
  assert.notEqual(runOf(7), runOf(8));
});

test('a fault is met about as often as its probability, never at 0 and always at 1', () => {
  for (const [probability, least, most] of [
    [0, 0, 0],
    [0.1, 850, 1150],
    [0.5, 4800, 5200],
    [1, 10_000, 10_000],
  ] as const) {
    const faults = faultsOf(fault({}, { status: 503 }, { probability }));
    run(faults, 10_000);
    const { met = -1 } = faults.show().faults[0] ?? {};
    assert.ok(met >= least && met <= most, `${probability}: ${met}`);
  }
});

test('a delay is within its bounds, both included', () => {
  const faults = faultsOf(fault({}, { delay_ms: [3, 5] }));
  const seen = new Set(Array.from({ length: 200 }, () => faults.meet(observation)?.delayMs));
  assert.deepEqual([...seen].sort(), [3, 4, 5]);
});

test('a fault compares each member of its match, null with a missing member, and a key in the form of filters', () => {
  const partitioned = reportOf({ type: 'AssetMaterialization', assetKey: ['a', 'b'], partition: 'p' });
  const slashed = reportOf({ type: 'AssetMaterialization', assetKey: ['a/b'] });
  const rows: readonly (readonly [object, MetReport, boolean])[] = [
    [{ type: 'AssetObservation' }, observation, true],
    [{ type: 'check' }, observation, false],
    [{ asset_key: ['orders'] }, observation, true],
    [{ asset_key: ['a', 'b'] }, partitioned, true],
    [{ asset_key: 'a/b' }, partitioned, true],
    [{ asset_key: 'a/b' }, slashed, false],
    [{ asset_key: ['a/b'] }, slashed, true],
    [{ asset_key: '["a/b"]' }, slashed, true],
    [{ asset_key: ['a'] }, partitioned, false],
    [{ partition: 'p' }, partitioned, true],
    [{ partition: null }, partitioned, false],
    [{ partition: null }, observation, true],
    [{ check_name: 'fresh' }, checkOf('a'), true],
    [{ check_name: 'fresh' }, observation, false],
    [{ method: 'POST' }, observation, true],
  ];
  for (const [match, report, expected] of rows) {
    assert.equal(faultsOf(fault(match, { status: 503 })).meet(report) !== undefined, expected, JSON.stringify(match));
  }
});

test('a batch meets a fault without conditions, or a fault that one of its items matches', () => {
  const batch = { ...observation, events: [...observation.events, ...checkOf('b').events], isBatch: true };
  assert.equal(faultsOf(fault({}, { status: 503 })).meet(batch)?.index, 0);
  assert.equal(faultsOf(fault({ check_name: 'fresh' }, { status: 503 })).meet(batch)?.index, 0);
  const faults = faultsOf(fault({ type: 'check', asset_key: 'orders' }, { status: 503 }));
  assert.equal(faults.meet(batch), undefined, 'no single item is both');
  assert.deepEqual(Object.keys(faults.show().faults[0]?.nearest?.differs ?? {}).length, 1);
});

test('a fault shows the nearest report that did not match, with the members that differ', () => {
  const faults = faultsOf(fault({ type: 'check', asset_key: ['orders'], partition: 'p' }, { status: 503 }));
  const nearest = () => faults.show().faults[0]?.nearest;
  assert.equal(nearest(), undefined);
  faults.meet(reportOf({ type: 'AssetObservation', assetKey: ['x'] }, '/1'));
  assert.deepEqual(nearest(), {
    path: '/1',
    differs: { type: 'AssetObservation', asset_key: ['x'], partition: null },
  });
  faults.meet({ ...checkOf('order', 'p'), path: '/2' });
  assert.deepEqual(nearest(), { path: '/2', differs: { asset_key: ['order'] } });
  faults.meet(reportOf({ type: 'AssetObservation', assetKey: ['x'] }, '/3'));
  assert.equal(nearest()?.path, '/2');
  faults.meet({ ...checkOf('orders', 'q'), path: '/4' });
  assert.deepEqual(nearest(), { path: '/4', differs: { partition: 'q' } });
});

test('only a fault without other conditions than the type drops a request before its body is read', () => {
  const dropped = { drop: 'request' };
  const check = 'AssetCheckEvaluation';
  assert.equal(faultsOf(fault({}, { status: 503 })).meetHead(check), 0, 'the first needs the body');
  assert.equal(faultsOf(fault({ asset_key: 'a' }, dropped)).meetHead(check), 0);
  assert.equal(faultsOf(fault({}, { ...dropped, delay_ms: 1 })).meetHead(check), 0);
  assert.equal((faultsOf(fault({}, dropped)).meetHead(undefined) as { index: number }).index, 0, 'a batch');
  assert.equal(faultsOf(fault({ type: 'check' }, dropped)).meetHead(undefined), 0, 'the items have the types');
  const faults = faultsOf(
    fault({ type: 'observation' }, { status: 503 }),
    fault({ type: 'check' }, dropped, { after: 1, times: 1 }),
    fault({}, { status: 502 }, { times: 1 }),
    fault({}, dropped),
  );
  assert.equal(faults.meetHead(check), 2, 'the second lets one pass, the third needs the body');
  assert.equal(faults.meet(checkOf('a'), 2)?.index, 2, 'the second has had its turn');
  assert.equal((faults.meetHead(check) as { index: number }).index, 1);
  assert.equal((faults.meetHead(check) as { index: number }).index, 3, 'the third is used up');
  assert.deepEqual(
    faults.show().faults.map(({ met }) => met),
    [0, 1, 1, 1],
  );
});

test('invalid faults change nothing, and another fault can be added', () => {
  const faults = faultsOf(fault({}, { status: 503 }, { times: 1 }));
  assert.throws(() => faults.set({ faults: [fault({}, { stauts: 1 })] }), FaultsError);
  assert.throws(() => faults.add(fault({}, { stauts: 1 })), /^Error: fault\.then\.stauts is unknown/);
  assert.equal(faults.show().seed, 7);
  faults.add(fault({}, { status: 500 }));
  assert.equal(run(faults, 3), '011');
  const { faults: shown } = faults.show();
  assert.deepEqual(shown[1], { ...fault({}, { status: 500 }), matched: 3, met: 2 });
  const full = new Faults({ ...limits, faultsMax: 1 });
  full.add(fault({}, { status: 500 }));
  assert.throws(() => full.add(fault({}, { status: 500 })), /there are 1 faults already/);
  full.clear();
  assert.deepEqual(full.show().faults, []);
});
