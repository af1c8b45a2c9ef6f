import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { checkLine, crcBefore, readForm } from '../../../src/journal/line/chain.ts';
import {
  idempotencyKeyOf,
  metadataOf,
  readRecorded,
  readWritten,
  readWrittenReport,
  reportedOf,
} from '../../../src/journal/line/members.ts';
import {
  type ChainPosition,
  encodeBatch,
  lineBytesMax,
  packMembers,
  SEQ_MAX,
} from '../../../src/journal/line/record.ts';
import { type Reported, readReported } from '../../../src/journal/line/reported.ts';
import { goneName, goneRange, segmentFirstSeq, segmentName } from '../../../src/journal/segments.ts';
import { character } from '../../support/arbitraries.ts';
import { rounds } from '../../support/long.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { START, splitLines } from '../../support/segments.ts';
import { readLine, readNext } from '../../world/journal-line.ts';

const NOW = new Date('2026-11-20T15:19:45.266Z');

const materialization: PlainEvent = {
  type: 'AssetMaterialization',
  assetKey: ['warehouse', 'orders'],
  partition: '2026-11-20',
  description: 'nightly load',
  dataVersion: 'v1',
  metadata: '{"rows":10}',
};
const check: PlainEvent = {
  type: 'AssetCheckEvaluation',
  assetKey: ['warehouse', 'orders'],
  checkName: 'no_nulls',
  passed: false,
  severity: 'ERROR',
  metadata: '{}',
};

/** The chain position after a line, which has to be good. */
function chainAfter(line: Buffer, chain: ChainPosition): ChainPosition {
  const checked = checkLine(line, 0, line.length, chain);
  assert.ok(checked.kind === 'good', JSON.stringify(checked));
  return checked.chain;
}

/** @returns each line without its newline */
const linesOf = (bytes: Buffer) => splitLines(bytes).map((line) => line.subarray(0, -1));

test('a line has the members of the format, in its order', () => {
  const { bytes, chain } = encodeBatch([encodeMembers(materialization), encodeMembers(check)], { seq: 7, crc: 0 }, NOW);
  const [first = '', second = '', rest] = bytes.toString().split('\n');
  assert.match(
    first,
    /^\{"seq":7,"id":"[0-9a-f-]{36}","time":"2026-11-20T15:19:45.266Z","type":"AssetMaterialization","asset_key":\["warehouse","orders"\],"partition":"2026-11-20","description":"nightly load","tags":\{"data_version":"v1"\},"metadata":\{"rows":10\},"crc":"[0-9a-f]{8}"\}$/,
  );
  assert.match(
    second,
    /^\{"seq":8,"id":"[0-9a-f-]{36}","time":"2026-11-20T15:19:45.266Z","type":"AssetCheckEvaluation","asset_key":\["warehouse","orders"\],"check_name":"no_nulls","passed":false,"severity":"ERROR","metadata":\{\},"crc":"[0-9a-f]{8}"\}$/,
  );
  assert.equal(rest, '');
  assert.equal(chain.seq, 9);
});

test('the crc covers the bytes before it and is seeded with the crc of the previous line', () => {
  const { bytes, chain } = encodeBatch(
    [encodeMembers(materialization), encodeMembers({ ...check, checkName: 'ä€😀' })],
    START,
    NOW,
  );
  let crc = 0;
  for (const line of linesOf(bytes)) {
    crc = crc32(line.subarray(0, line.length - 18), crc);
    assert.equal(JSON.parse(line.toString()).crc, crc.toString(16).padStart(8, '0'));
  }
  assert.equal(chain.crc, crc);
});

test('a flipped bit anywhere in a line is detected', () => {
  const [line] = linesOf(encodeBatch([encodeMembers(materialization)], START, NOW).bytes);
  assert.ok(line !== undefined && checkLine(line, 0, line.length, START).kind === 'good');
  for (let bit = 0; bit < line.length * 8; bit += 1) {
    const flipped: Buffer = Buffer.from(line);
    flipped.writeUInt8(line.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    assert.equal(checkLine(flipped, 0, flipped.length, START).kind, 'bad', `bit ${bit}`);
  }
});

test('a wrong seq is detected even if the crc fits', () => {
  const { bytes } = encodeBatch([encodeMembers(check)], { seq: 5, crc: 0 }, NOW);
  assert.deepEqual(checkLine(bytes, 0, bytes.length - 1, START), { kind: 'bad', problem: 'its seq is 5, expected 1' });
});

test('a text that does not start with a seq and end with a crc is no line', () => {
  for (const text of [
    '',
    '{}',
    '{"seq":1}',
    ',"crc":"00000000"}',
    '{"seq":1,"crc":"0000000G"}',
    '{"seq":1,"crc":"0000000A"}',
    '{"seq":0,"x":1,"crc":"00000000"}',
    '{"seq":,"x":1,"crc":"00000000"}',
    '{"seq":99999999999999999,"x":1,"crc":"00000000"}',
    '{"seq":1,"x":1,"crc":"00000000"',
    '{"seq":1,"x":1,"crc":"00000000"} ',
    '{"sex":1,"x":1,"crc":"00000000"}',
    '{"seq":1234567,"crx":"00000000"}',
  ]) {
    const bytes = Buffer.from(text);
    assert.equal(readForm(bytes, 0, bytes.length), undefined, text);
    const problem = 'it is not of the form {"seq":…,"crc":"…"}';
    assert.deepEqual(checkLine(bytes, 0, bytes.length, START), { kind: 'bad', problem });
  }
  const bytes = Buffer.from('xx{"seq":12345,"x":1,"crc":"89abcdef"}\n');
  assert.deepEqual(readForm(bytes, 2, bytes.length - 1), {
    seq: 12_345,
    crc: 0x89abcdef,
    start: 2,
    end: bytes.length - 1,
  });
});

test('the crc of the previous line is computed from a line', () => {
  const { bytes } = encodeBatch([encodeMembers(check), encodeMembers(materialization)], START, NOW);
  const [first, second] = linesOf(bytes) as [Buffer, Buffer];
  const chain = chainAfter(first, START);
  assert.equal(crcBefore(second, 0, second.length), chain.crc);
});

test('the name of a file of lost events has their range, and sorts to their position', () => {
  const name = goneName({ first: 5, last: 7 }, 'lost');
  assert.deepEqual(goneRange(name, 'lost'), { first: 5, last: 7 });
  assert.deepEqual([segmentName(8), name, segmentName(1)].sort(), [segmentName(1), name, segmentName(8)]);
  for (const foreign of [
    segmentName(1),
    goneName({ first: 7, last: 5 }, 'lost'),
    `${name}x`,
    goneName({ first: 0, last: 1 }, 'lost'),
  ]) {
    assert.equal(goneRange(foreign, 'lost'), undefined, foreign);
  }
});

test('ids are distinct version 7 UUIDs of the current time, and sort in their order', () => {
  const members = Array.from({ length: 500 }, () => encodeMembers(check));
  const ids = linesOf(encodeBatch(members, START, NOW).bytes).map((line): string => JSON.parse(line.toString()).id);
  for (const id of ids) {
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.equal(Number.parseInt(id.replace('-', '').slice(0, 12), 16), NOW.getTime());
  }
  assert.equal(new Set(ids).size, ids.length);
  assert.deepEqual([...ids].sort(), ids);
  const others = linesOf(encodeBatch(members, START, NOW).bytes).map((line): string => JSON.parse(line.toString()).id);
  assert.equal(new Set([...ids, ...others]).size, 1000);
});

test('a seq is read exactly up to SEQ_MAX, and a larger number is no seq', () => {
  for (const seq of [1, 9, 10, 2 ** 52 + 1, SEQ_MAX - 2, SEQ_MAX - 1, SEQ_MAX]) {
    const { bytes, chain } = encodeBatch([encodeMembers(check)], { seq, crc: 0 }, NOW);
    assert.equal(readForm(bytes, 0, bytes.length - 1)?.seq, seq);
    assert.deepEqual(chainAfter(bytes.subarray(0, -1), { seq, crc: 0 }), chain);
    assert.equal(JSON.parse(bytes.toString()).seq, seq);
    assert.equal(segmentFirstSeq(segmentName(seq)), seq);
    assert.deepEqual(goneRange(goneName({ first: seq, last: seq }, 'lost'), 'lost'), { first: seq, last: seq });
  }
  for (const seq of ['9007199254740992', '9007199254740993', '90071992547409910', '99999999999999999999']) {
    const line = Buffer.from(`{"seq":${seq},"id":"x","crc":"00000000"}`);
    assert.equal(readForm(line, 0, line.length), undefined, seq);
    assert.equal(segmentFirstSeq(`events-${seq.padStart(20, '0')}.jsonl`), undefined, seq);
  }
});

test('a line with the largest seq has the length that is computed in advance', () => {
  for (const text of [
    '',
    'x'.repeat(100),
    'é'.repeat(100),
    '\u0085\u2028\u2029'.repeat(50),
    '😀'.repeat(50),
    '"\\\n',
  ]) {
    for (const event of [{ ...materialization, description: text }, check]) {
      const members = encodeMembers(event);
      const { bytes } = encodeBatch([members], { seq: SEQ_MAX, crc: 0 }, NOW);
      assert.equal(bytes.length, lineBytesMax(members), text.slice(0, 3));
    }
  }
});

test('names of segments sort like their seqs, and other names are foreign', () => {
  assert.equal(segmentName(1), 'events-00000000000000000001.jsonl');
  assert.equal(segmentFirstSeq(segmentName(123_456)), 123_456);
  assert.ok(segmentName(9) < segmentName(10) && segmentName(99) < segmentName(100));
  for (const name of [
    'events-1.jsonl',
    'events-00000000000000000001.jsonl.torn',
    'x',
    'events-00000000000000000000.jsonl',
    'events-99999999999999999999.jsonl',
  ]) {
    assert.equal(segmentFirstSeq(name), undefined, name);
  }
});

/** Texts that look like the members after metadata in a line, or like the start of metadata. */
const lookalikes = [
  ',"event_time":"2026-11-20T15:19:45Z"',
  ',"idempotency_key":"k"',
  ',"from":["s",7]',
  ',"recorded":"2026-11-20T15:19:45.266Z"',
  ',"metadata":{"a":1}',
  ...[',"crc":"00000000"}', '\\', '\\"', '"', '","', '}', ']', ',7]', 'é\u2028'],
  ...[',"partition":"x"', '},"event_time":"2020"', 'ü'.repeat(700)],
];

/** Members that a later version might write. */
const slots = [
  ',"site":"north"',
  ',"level":0,"offset":-7,"large":9007199254740991',
  ',"hops":["a",1,"é😀"],"none":[],"empty":""',
  ',"metadata_of":"x","from_":["s",7],"event_times":["}",1]',
  `,"long":"${'ü]'.repeat(700)}","later":1`,
];

const part = fc.oneof(fc.constantFrom(...lookalikes), fc.string({ unit: 'grapheme' }), fc.string({ unit: character }));
const text = fc.array(part, { maxLength: 5 }).map((parts) => parts.join('').toWellFormed());
const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });
const metadata = fc.oneof(
  fc.constantFrom(...lookalikes.slice(0, 5)).map((member) => `{"a":"b"${member}}`),
  fc.constant(`{"long":${JSON.stringify('"é"'.repeat(600))}}`),
  fc.dictionary(text, fc.oneof(text, fc.array(text), fc.jsonValue())).map((value) => JSON.stringify(value)),
);
const common = {
  assetKey: fc.array(text, { minLength: 1, maxLength: 4 }),
  partition: optional(text),
  metadata: optional(metadata),
  eventTime: optional(fc.constantFrom('2026-11-20T15:19:45Z', '0001-01-01T00:00:00.123456789Z')),
  idempotencyKey: optional(text.map((any) => any.replace(/[^\x21-\x7e]/g, ''))),
  origin: optional(
    fc.record({
      id: fc.constant('01a1fb95'),
      source: fc.uuid(), // a sender whose id is no UUID is refused
      seq: fc.integer({ min: 1 }),
      recorded: fc.constant(NOW.toISOString()),
      first: optional(fc.tuple(fc.uuid(), fc.integer({ min: 1 }))),
    }),
  ),
  slot: optional(fc.constantFrom(...slots)),
};
const anyEvent: fc.Arbitrary<PlainEvent> = fc.oneof(
  fc.record({
    ...common,
    type: fc.constantFrom('AssetMaterialization' as const, 'AssetObservation' as const),
    description: optional(
      fc.oneof(
        text,
        fc.integer({ min: 800, max: 1_100 }).map((length) => 'x'.repeat(length)),
      ),
    ),
    dataVersion: optional(text),
  }),
  fc.record({
    ...common,
    type: fc.constant('AssetCheckEvaluation' as const),
    checkName: text,
    passed: fc.boolean(),
    severity: fc.constantFrom('WARN' as const, 'ERROR' as const),
  }),
);

/** Such as `\\u2028`. */
const escaped = (separator: string) => `\\u${separator.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** The members of the line of an event, without metadata and without the members that the recorder adds. */
function membersOf(event: PlainEvent): object {
  const { type, assetKey, partition, eventTime, idempotencyKey, origin } = event;
  const own =
    event.type === 'AssetCheckEvaluation'
      ? { check_name: event.checkName, passed: event.passed, severity: event.severity }
      : {
          description: event.description,
          tags: event.dataVersion === undefined ? undefined : { data_version: event.dataVersion },
        };
  const from = origin && [origin.source, origin.seq];
  const slot = origin && JSON.parse(`{${event.slot?.slice(1) ?? ''}}`);
  const all = {
    type,
    asset_key: assetKey,
    partition,
    ...own,
    origin: origin?.first,
    ...slot,
    event_time: eventTime,
    idempotency_key: idempotencyKey,
    from,
  };
  return JSON.parse(JSON.stringify({ ...all, recorded: origin?.recorded }));
}

/** What an event says of its asset. */
function reportedBy(event: PlainEvent) {
  const { type, assetKey, partition, checkName, passed, severity, dataVersion, eventTime, origin } = event;
  const { source, seq, recorded, first: [firstSource = source, sourceSeq = seq] = [] } = origin ?? {};
  const key = assetKey.join('\0');
  return {
    type,
    key,
    partition,
    checkName,
    passed,
    severity,
    dataVersion,
    eventTime,
    isErased: false,
    source: firstSource,
    sourceSeq,
    recorded,
  } as Reported;
}

test('every event is read back unchanged, by JSON.parse and member by member, whatever its texts contain', () => {
  const scratch = { bytes: Buffer.alloc(0) };
  fc.assert(
    fc.property(fc.array(anyEvent, { minLength: 1, maxLength: 3 }), fc.nat(7), (events, packed) => {
      const members = events.map(encodeMembers).map((one, at) => ((packed >> at) % 2 === 1 ? packMembers(one) : one));
      const { bytes, chain } = encodeBatch(members, START, NOW, scratch);
      const lines = linesOf(bytes);
      assert.equal(lines.length, events.length);
      const last = lines.reduce((before, line) => chainAfter(line, before), START);
      let before: number = START.crc;
      assert.deepEqual(last, chain);
      for (const [index, sent] of events.entries()) {
        const line = lines[index]!;
        assert.doesNotMatch(line.toString(), /[\u0085\u2028\u2029]/, 'no line separator of Unicode splits a line');
        const { crc, metadata: parsed, ...others } = JSON.parse(line.toString());
        assert.match(crc, /^[0-9a-f]{8}$/);
        const { id, ...rest } = others;
        assert.equal(typeof id, 'string');
        assert.deepEqual(rest, { seq: index + 1, time: NOW.toISOString(), ...membersOf(sent) });
        assert.deepEqual(readRecorded(line, 0, line.length), others);
        const found = metadataOf(line, 0, line.length);
        assert.equal(found, sent.metadata?.replace(/[\u0085\u2028\u2029]/g, escaped));
        assert.deepEqual(found && JSON.parse(found), parsed);
        assert.deepEqual(readReported(members[index]!), reportedBy(sent));
        assert.deepEqual(reportedOf(line, 0, line.length, index + 1), reportedBy(sent));
        const second = readNext(line.toString(), before)!;
        const { from, recorded, ...report } = membersOf(sent) as Record<string, unknown>;
        const { report: own, slot, origin } = second;
        assert.deepEqual(
          { ...own, ...slot, ...(origin && { origin }), metadata: second.metadata },
          { ...report, metadata: found },
        );
        assert.deepEqual([second.from, second.recorded], [from, recorded]);
        const { slot: unknown = '', origin: name } =
          sent.origin === undefined ? {} : { slot: sent.slot, origin: sent.origin.first };
        const slotText = `${name === undefined ? '' : `,"origin":${JSON.stringify(name)}`}${unknown}`;
        assert.ok(`${members[index]}`.replace(slotText, '').startsWith(second.members));
        before = second.crc;
      }
    }),
    { numRuns: rounds({ long: 3_000, short: 600 }) },
  );
});

test('each reader accepts unknown members in the slot of a line, also in a line that was reported here', () => {
  for (const [event, at] of [
    [{ ...materialization, eventTime: '2026-11-20T15:19:45Z' }, ',"metadata"'],
    [check, ',"metadata"'],
    [{ ...check, metadata: undefined, eventTime: '2026-11-20T15:19:45Z' }, ',"event_time"'],
    [{ ...materialization, metadata: undefined, idempotencyKey: 'k' }, ',"idempotency_key"'],
    [{ type: 'AssetObservation', assetKey: ['x'.repeat(1_200)] } as PlainEvent, undefined],
  ] as const) {
    for (const slot of slots) {
      const members = encodeMembers(event).toString();
      const cut = at === undefined ? members.length : members.indexOf(at);
      const slotted = Buffer.from(members.slice(0, cut) + slot + members.slice(cut));
      const [line = assert.fail()] = linesOf(encodeBatch([slotted], START, NOW).bytes);
      assert.deepEqual(reportedOf(line, 0, line.length, 1), reportedBy(event), slot);
      assert.equal(metadataOf(line, 0, line.length), event.metadata);
      assert.deepEqual(readNext(line.toString(), 0)?.slot, JSON.parse(`{${slot.slice(1)}}`));
      assert.equal(idempotencyKeyOf(line, 0, line.length), event.idempotencyKey);
      const written = readWritten(line.toString());
      assert.deepEqual([written?.encoded, written?.slot], [members, slot]);
      assert.equal(readWrittenReport(line.toString())?.encoded, members);
    }
  }
});

test('the reader of the tests accepts only the exact form of a line', () => {
  const [first, second] = linesOf(encodeBatch([materialization, check].map(encodeMembers), START, NOW).bytes).map(
    String,
  );
  assert.equal(readLine(first!).metadata, '{"rows":10}');
  assert.equal(readNext(second!, readNext(first!, 0)!.crc)?.seq, 2);
  assert.equal(readNext(second!, 0), undefined);
  const changes: readonly [from: string, to: string][] = [
    ['{"seq":1', '{ "seq":1'],
    ['{"seq":1', '{"seq":01'],
    ['"metadata":{"rows":10}', '"metadata":[10]'],
    ['"metadata":{"rows":10}', '"metadata":{"rows":10},"metadata":{}'],
    ['"metadata"', '"description"'],
    ['"metadata":{"rows":10}', '"meta":{"rows":10}'],
    ['"nightly load"', 'null'],
    ['"nightly load"', '"nightly\u2028load"'],
    [',"description":"nightly load","tags":{"data_version":"v1"}', ',"tags":{"data_version":"v1"},"description":"x"'],
    [',"description":"nightly load"', ',"check_name":"x","passed":true,"severity":"WARN"'],
    ['.266Z"', 'Z"'],
    [',"crc"', ',"from":["a",1],"crc"'],
  ];
  for (const [from, to] of changes) {
    assert.ok(first!.includes(from), from);
    assert.throws(() => readLine(first!.replace(from, to)), /no line of a journal|JSON/, to);
  }
  assert.throws(() => readLine(second!.replace(',"passed":false', '')), /no line of a journal/);
});
