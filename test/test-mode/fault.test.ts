import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { FaultsError, readFaults } from '../../src/test-mode/fault.ts';
import { fault } from '../support/faults.ts';

function problemOf(value: unknown): string {
  try {
    readFaults(value, limits);
  } catch (error) {
    assert.ok(error instanceof FaultsError);
    return error.message;
  }
  return 'read';
}

test('a fault is read with defaults for the members that it leaves out', () => {
  const { seed, faults } = readFaults({ seed: 7, faults: [fault({}, { status: 503 })] }, limits);
  assert.equal(seed, 7);
  assert.deepEqual(faults, [
    {
      given: fault({}, { status: 503 }),
      match: {},
      times: Number.POSITIVE_INFINITY,
      probability: 1,
      after: 0,
      effect: { status: 503, recorded: false },
    },
  ]);
  const match = { type: 'check', asset_key: 'warehouse/orders', partition: null, check_name: 'fresh', method: 'POST' };
  assert.deepEqual(readFaults({ faults: [fault(match, { delay_ms: 5 })] }, limits).faults[0]?.match, {
    type: 'AssetCheckEvaluation',
    asset_key: ['warehouse', 'orders'],
    partition: null,
    check_name: 'fresh',
  });
});

test('an unknown member, a wrong value and a contradiction are refused with their path', () => {
  const effects: readonly (readonly [object, string])[] = [
    [{ stauts: 503 }, 'faults[0].then.stauts is unknown; did you mean status?'],
    [{ status: 199 }, 'faults[0].then.status is 199; send a whole number from 200 to 599'],
    [{ status: '503' }, 'faults[0].then.status is "503"; send a whole number from 200 to 599'],
    [{ status: 304, body: 'x' }, 'faults[0].then.body contradicts status 304, whose reply has no body'],
    [{ status: 204, html: true }, 'faults[0].then.html contradicts status 204, whose reply has no body'],
    [{ status: 205, body_delay_ms: 1 }, 'faults[0].then.body_delay_ms contradicts status 205, whose reply has no body'],
    [
      { status: 503, drop: 'half', body_delay_ms: 1 },
      'faults[0].then.body_delay_ms contradicts drop: the rest of the body is not sent',
    ],
    [
      { body_delay_ms: -1 },
      `faults[0].then.body_delay_ms is -1; send milliseconds up to 300000, or a range such as [500, 3000]`,
    ],
    [
      { status: 503, retry_after: 'soon\n' },
      'faults[0].then.retry_after is "soon\\n"; send a text in ASCII without control characters',
    ],
    [{ headers: {} }, 'faults[0].then.headers needs a status as well'],
    [{ status: 302, headers: 5 }, 'faults[0].then.headers is 5; send an object such as {"Location":"/login"}'],
    [{ status: 302, headers: { 'a b': '' } }, 'faults[0].then.headers has "a b", which is not the name of a header'],
    [{ status: 302, headers: { '': '' } }, 'faults[0].then.headers has "", which is not the name of a header'],
    [
      { status: 302, headers: { Location: 'ü' } },
      'faults[0].then.headers.Location is "ü"; send a text in ASCII without control characters',
    ],
    [
      { status: 302, headers: { Age: 5 } },
      'faults[0].then.headers.Age is 5; send a text in ASCII without control characters',
    ],
    [
      { status: 302, headers: { 'content-length': '5' } },
      'faults[0].then.headers.content-length is set by the service; leave it out',
    ],
    [{ status: 503, body: 5 }, 'faults[0].then.body is 5; send text or an object'],
    [{ status: 503, retry_after: -1 }, 'faults[0].then.retry_after is -1; send a whole number from 0 to 86400'],
    [{ status: 503, html: 'yes' }, 'faults[0].then.html is "yes"; send true or false'],
    [{ status: 503, html: true, body: {} }, 'faults[0].then.html contradicts a body that is JSON'],
    [{ retry_after: 1 }, 'faults[0].then.retry_after needs a status as well'],
    [{ body: 'x', drop: 'reply' }, 'faults[0].then.body needs a status as well'],
    [{ html: true }, 'faults[0].then.html needs a status as well'],
    [
      { delay_ms: 1.5 },
      `faults[0].then.delay_ms is 1.5; send milliseconds up to 300000, or a range such as [500, 3000]`,
    ],
    [
      { delay_ms: [3, 2] },
      `faults[0].then.delay_ms is an array; send milliseconds up to 300000, or a range such as [500, 3000]`,
    ],
    [
      { delay_ms: 300_001 },
      `faults[0].then.delay_ms is 300001; send milliseconds up to 300000, or a range such as [500, 3000]`,
    ],
    [{ drop: 'rpely' }, 'faults[0].then.drop is "rpely"; send "request" or "reply" or "half"'],
    [{ drop: 'reply', status: 503 }, 'faults[0].then.status contradicts drop: no reply is sent; leave one of them out'],
    [
      { drop: 'request', status: 503 },
      'faults[0].then.status contradicts drop: no reply is sent; leave one of them out',
    ],
    [{ drop: 'request', recorded: true }, 'faults[0].then.recorded contradicts drop: the request is not read'],
    [{ recorded: false }, 'faults[0].then.recorded is false, but the reply would be a 200; add status or drop'],
    [
      { recorded: false, delay_ms: 5 },
      'faults[0].then.recorded is false, but the reply would be a 200; add status or drop',
    ],
    [{ recorded: true }, 'faults[0].then changes nothing; add status, delay_ms or drop'],
    [{}, 'faults[0].then changes nothing; add status, delay_ms or drop'],
  ];
  for (const [effect, problem] of effects) assert.equal(problemOf({ faults: [fault({}, effect)] }), problem);

  const values: readonly (readonly [unknown, string])[] = [
    [[], 'the body is an array; send an object'],
    [{}, 'faults is missing; send {"faults":[{"match":{},"then":{"status":503}}]}'],
    [{ faults: {} }, 'faults is an object; send an array of faults'],
    [{ fault: [] }, 'fault is unknown; did you mean faults?'],
    [{ colour: 1 }, 'colour is unknown; the known members are seed, faults'],
    [{ seed: 2 ** 32, faults: [] }, 'seed is 4294967296; send a whole number from 0 to 4294967295'],
    [{ faults: [5] }, 'faults[0] is 5; send an object'],
    [{ faults: [null] }, 'faults[0] is null; send an object'],
    [{ faults: [{ match: {} }] }, 'faults[0].then is missing; send what happens, such as {"status":503}'],
    [{ faults: Array(101).fill(5) }, 'faults is 101; send at most 100 faults'],
    [JSON.parse('{"faults":[],"__proto__":{}}'), '__proto__ is unknown; the known members are seed, faults'],
  ];
  for (const [value, problem] of values) assert.equal(problemOf(value), problem);

  const matches: readonly (readonly [object, object, string])[] = [
    [{ typ: 'check' }, {}, 'match.typ is unknown; did you mean type?'],
    [{ type: 'Check' }, {}, 'match.type is "Check"; send materialization, check, observation'],
    [{ asset_key: [] }, {}, 'match.asset_key is an array; send warehouse/orders, or an array of the parts'],
    [{ asset_key: [1] }, {}, 'match.asset_key is an array; send warehouse/orders, or an array of the parts'],
    [{ asset_key: 'a//b' }, {}, 'match.asset_key is "a//b"; send warehouse/orders, or an array of the parts'],
    [{ partition: 1 }, {}, 'match.partition is 1; send a string'],
    [{ check_name: null }, {}, 'match.check_name is null; send a string'],
    [{ method: 'GET' }, {}, 'match.method is "GET"; send "POST"'],
    [{ type: 'observation', check_name: 'a' }, {}, 'match.check_name contradicts the type: only a check has one'],
    [{}, { times: 0 }, 'times is 0; send a whole number from 1'],
    [{}, { after: -1 }, 'after is -1; send a whole number from 0'],
    [{}, { probability: 1.1 }, 'probability is 1.1; send a number from 0 to 1'],
    [{}, { probability: Number.NaN }, 'probability is NaN; send a number from 0 to 1'],
    [{}, { time: 2 }, 'time is unknown; did you mean times?'],
  ];
  for (const [match, more, problem] of matches) {
    const right = fault({}, { drop: 'reply' });
    assert.equal(problemOf({ faults: [right, fault(match, { drop: 'reply' }, more)] }), `faults[1].${problem}`);
  }
});
