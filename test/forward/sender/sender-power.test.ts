/** A sender that is killed and loses its power at any moment, while its destination answers by chance. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readCursor } from '../../../src/forward/sender/cursor.ts';
import type { TargetKind } from '../../../src/forward/target.ts';
import { rounds } from '../../support/long.ts';
import { randomFrom } from '../../support/random.ts';
import { diskWith, FIRST, segment } from '../../support/segments.ts';
import { failingCall, type SimulatedDisk } from '../../support/simulated-disk.ts';
import { eventually } from '../../support/tools.ts';
import { type Answer, type Bench, finish, lettersOf, Model, seqsOf, startSender } from '../scripted.ts';

const EVENTS = 12;
const NEVER = new Promise<never>(() => {});

const answers: Readonly<Record<TargetKind, readonly Answer[]>> = {
  hub: ['record', 'record', 'lost', 'in doubt', 'again', 'elsewhere', 'stopped'],
  api: ['record', 'record', 'lost', 'lost', 'in doubt', 'in doubt', 'again', 'refused', 'final', 'stopped'],
};

/** What holds at any moment: what the cursor passed is at the destination or in the dead letters. */
async function checkCursor(disk: SimulatedDisk, model: Model, when: string): Promise<void> {
  const state = await readCursor(disk, 'upstream');
  assert.notEqual(state.kind, 'lost', when);
  if (state.kind !== 'found') return assert.equal(model.requests.length, 0, `${when}: a request before the cursor`);
  const settled = new Set([...model.recorded, ...seqsOf(await lettersOf(disk))]);
  for (let seq = 1; seq <= state.value.seq; seq += 1) {
    assert.ok(settled.has(seq), `${when}: the cursor is at ${state.value.seq}, and ${seq} is nowhere`);
  }
}

/** What holds in the end: nothing is lost, and what is doubled is named. */
async function checkAll(disk: SimulatedDisk, model: Model, when: string): Promise<void> {
  const letters = await lettersOf(disk);
  const doubtful = new Set(seqsOf(letters.filter(({ outcome }) => outcome === 'in doubt')));
  const named = new Set(seqsOf(letters));
  for (let seq = 1; seq <= EVENTS; seq += 1) {
    const times = model.recorded.filter((other) => other === seq).length;
    assert.ok(times > 0 || named.has(seq), `${when}: ${seq} is lost`);
    assert.ok(times < 2 || doubtful.has(seq), `${when}: ${seq} is doubled and not named`);
  }
  const clean = model.recorded.filter((seq) => !doubtful.has(seq));
  assert.deepEqual(
    clean,
    [...clean].sort((a, b) => a - b),
    `${when}: out of order`,
  );
  if (model.kind === 'api') return;
  assert.deepEqual(
    model.recorded,
    Array.from({ length: EVENTS }, (_, at) => at + 1),
    when,
  );
  assert.deepEqual(letters, [], `${when}: a hub needs no dead letters`);
}

function start(disk: SimulatedDisk, model: Model, inDoubt: 'again' | 'once'): Bench {
  return startSender(disk, EVENTS, () => model, { destination: { inDoubt } });
}

/** The process dies: nothing that it still does has an effect. */
function kill({ disk }: Bench, model: Model): void {
  disk.fault = () => NEVER;
  model.answer = () => NEVER;
}

function survivor(model: Model): Model {
  const next = new Model(model.kind);
  Object.assign(next, { recorded: [...model.recorded], requests: [...model.requests], seq: model.seq, id: model.id });
  return next;
}

for (const kind of ['hub', 'api'] as const) {
  test(`${kind}: whatever is answered and whenever the power is cut, nothing is lost and what is doubled is named [forwarder-power-1]`, async () => {
    for (let round = 0; round < rounds({ long: 60, short: 15 }); round += 1) {
      const random = randomFrom(round);
      const pick = (below: number) => Math.floor(random() * below);
      let disk = diskWith({ [FIRST]: segment(1, EVENTS) });
      let model = new Model(kind);
      for (let life = 0; life < 6; life += 1) {
        const when = `${kind}, round ${round}, life ${life}`;
        const bench = start(disk, model, 'again');
        let left = 1 + pick(12);
        const isCut = new Promise<void>((resolve) => {
          model.answer = (what) => {
            left -= 1;
            if (left > 0)
              return what === 'ask'
                ? (['at', 'at', 'again'] as const)[pick(3)]!
                : answers[kind][pick(answers[kind].length)]!;
            // Before or after the destination did what it was asked for.
            const answer = pick(2) === 0 ? 'record' : 'again';
            setImmediate(resolve);
            return answer;
          };
          setTimeout(resolve, 50);
        });
        await isCut;
        for (let turns = pick(6); turns > 0; turns -= 1) await Promise.resolve();
        kill(bench, model);
        const share = [0, 0.5, 1][pick(3)]!;
        disk = pick(3) === 0 ? disk.afterCrash() : disk.afterPowerCut({ entries: 'all', share, behind: 'garbage' });
        model = survivor(model);
        await checkCursor(disk, model, when);
      }
      const bench = start(disk, model, 'again');
      await finish(bench);
      await checkAll(disk, model, `${kind}, round ${round}`);
    }
  });
}

for (const what of ['power', 'once'] as const) {
  for (const kind of ['hub', 'api'] as const) {
    const title = what === 'power' ? 'a power cut at any call of the disk' : 'any call of the disk that fails once';
    test(`${kind}: ${title}: nothing is lost and what is doubled is named [forwarder-power-2]`, async () => {
      for (let failing = 1; ; failing += 1) {
        const when = `${kind}, ${what}, call ${failing}`;
        const disk = diskWith({ [FIRST]: segment(1, EVENTS) });
        const model = new Model(kind);
        let sent = 0;
        model.answer = (_, seq) => {
          sent += 1;
          if (kind === 'api' && seq === 3) return 'refused';
          if (kind === 'api' && seq === 5) return 'final';
          return sent % 5 === 4 ? 'lost' : 'record';
        };
        const { fault, struck } = failingCall(failing, what);
        disk.fault = fault;
        const bench = start(disk, model, 'again');
        const done = () => bench.sender.status().lag_events === 0 && bench.sender.status().state === 'idle';
        await eventually(`${when}: ${JSON.stringify(bench.sender.status())}`, () => struck() > 0 || done());
        let isClosed = false;
        if (struck() === 0) {
          const closing = bench.sender.close().then(() => {
            isClosed = true;
          });
          while (!isClosed && struck() === 0) await new Promise((resolve) => setImmediate(resolve));
          if (struck() === 0) {
            disk.fault = () => undefined;
            await checkAll(disk, model, when);
            return assert.ok(failing > 10);
          }
          if (what === 'once') await closing;
        }
        let [last, upstream] = [bench, model];
        if (what === 'power') {
          await new Promise((resolve) => setTimeout(resolve, 2));
          kill(bench, model);
          upstream = survivor(model);
          upstream.answer = (_, seq) => (kind === 'api' && seq === 3 ? 'refused' : 'record');
          const after = disk.afterPowerCut({ entries: 'all', share: 0.5, behind: 'zeros' });
          await checkCursor(after, upstream, when);
          last = start(after, upstream, 'again');
        } else if (isClosed) {
          last = start(disk, model, 'again');
        }
        await finish(last);
        await checkAll(last.disk, upstream, when);
      }
    });
  }
}

test('a destination that wants an event at most once gets none twice, whenever the process is killed', async () => {
  for (let round = 0; round < rounds({ long: 40, short: 10 }); round += 1) {
    const random = randomFrom(round);
    let disk = diskWith({ [FIRST]: segment(1, EVENTS) });
    let model = new Model('api');
    for (let life = 0; life < 3; life += 1) {
      const bench = start(disk, model, 'once');
      let left = 1 + Math.floor(random() * 6);
      await new Promise<void>((resolve) => {
        model.answer = () => {
          left -= 1;
          if (left === 0) setImmediate(resolve);
          return (['record', 'lost', 'in doubt', 'again'] as const)[Math.floor(random() * 4)]!;
        };
        setTimeout(resolve, 50);
      });
      kill(bench, model);
      disk = disk.afterCrash();
      model = survivor(model);
    }
    const bench = start(disk, model, 'once');
    await finish(bench);
    assert.deepEqual(model.recorded, [...new Set(model.recorded)], `round ${round}`);
    await checkAll(disk, model, `round ${round}`);
  }
});

test('an event that was sent to look further is named too when the process dies [forwarder-power-3]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, EVENTS) });
  const model = new Model('api');
  model.answer = (_, seq) => {
    if (seq === 4) disk.fault = () => NEVER;
    return seq === 3 ? 'in doubt' : 'record';
  };
  start(disk, model, 'again');
  await eventually('4 is recorded', () => model.recorded.includes(4));
  const [after, upstream] = [disk.afterCrash(), survivor(model)];
  const bench = start(after, upstream, 'again');
  await finish(bench);
  assert.deepEqual(seqsOf(await lettersOf(after)), [3, 4]);
  await checkAll(after, upstream, 'after the crash');
});
