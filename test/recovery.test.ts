import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDisk } from '../src/disk.ts';
import { type Event, encodeBatch, encodeMembers, type Place, segmentName } from '../src/event.ts';
import { createNotices } from '../src/notice.ts';
import { DamagedError, recover, rememberCleanStop, scanSegment } from '../src/recovery.ts';
import { newFolder } from './program.ts';
import { SimulatedDisk, systemError } from './simulated-disk.ts';

const FIRST = segmentName(1);
const START: Place = { seq: 1, crc: 0 };

/** The bytes of so many lines, the first of which has this place. */
function lines(count: number, place = START): { bytes: Buffer; place: Place } {
  const members = Array.from({ length: count }, (_, index) => {
    const event: Event = {
      type: 'AssetMaterialization',
      assetKey: ['a', `${place.seq + index}`],
      description: 'x'.repeat(50),
    };
    return encodeMembers(event);
  });
  return encodeBatch(members, place, new Date());
}

const { bytes: three, place: afterThree } = lines(3);
const [one = Buffer.alloc(0), two = Buffer.alloc(0), last = Buffer.alloc(0)] = split(three);

function split(bytes: Buffer): Buffer[] {
  return bytes
    .toString()
    .split('\n')
    .slice(0, -1)
    .map((line) => Buffer.from(`${line}\n`));
}

function flip(bytes: Buffer, at: number): Buffer {
  const flipped: Buffer = Buffer.from(bytes);
  flipped.writeUInt8(flipped.readUInt8(at) ^ 1, at);
  return flipped;
}

interface Found {
  readonly next: Place;
  readonly content: Buffer;
  readonly torn: Buffer | undefined;
  readonly notices: string[];
}

/** What a start makes of a folder with these files. */
async function start(files: Record<string, Buffer>): Promise<Found> {
  const disk = new SimulatedDisk();
  for (const [name, bytes] of Object.entries(files)) disk.files.set(name, { bytes });
  const notices: string[] = [];
  const segment = await recover(
    disk,
    createNotices('info', false, (line) => notices.push(line)),
  );
  const { name } = segment.file;
  const content = disk.files.get(name)?.bytes ?? Buffer.alloc(0);
  assert.equal(segment.bytes, content.length);
  assert.equal(
    [...disk.files.keys()].some((other) => other.endsWith('.rewrite')),
    false,
  );
  return { next: segment.place, content, torn: disk.files.get(`${name}.torn`)?.bytes, notices };
}

test('an empty folder begins at 1', async () => {
  const found = await start({});
  assert.deepEqual([found.next, found.content.length, found.torn], [START, 0, undefined]);
});

test('good lines are kept and gone on from', async () => {
  const found = await start({ [FIRST]: three });
  assert.deepEqual(found.content, three);
  assert.deepEqual(found.next, afterThree);
  assert.deepEqual(found.notices, []);
});

test('an empty last file is used: a rotation died after it made it', async () => {
  const found = await start({ [FIRST]: three, [segmentName(4)]: Buffer.alloc(0) });
  assert.deepEqual(found.next, { seq: 4, crc: 0 });
});

test('a torn end is kept aside byte for byte, cut off and told, wherever it was torn', async () => {
  for (let length = 1; length < last.length; length += 1) {
    const tail = last.subarray(0, length);
    const found = await start({ [FIRST]: Buffer.concat([one, two, tail]) });
    assert.deepEqual(found.content, Buffer.concat([one, two]));
    assert.deepEqual(found.torn, tail);
    assert.equal(found.next.seq, 3);
    assert.match(
      found.notices[0] ?? '',
      /"line":3,"byte":\d+,"problem":"it ends without a newline","kept":"events-0+1\.jsonl\.torn"/,
    );
  }
});

test('a last line that is bad but reached its newline is a torn write too', async () => {
  for (let at = 0; at < last.length - 1; at += 1) {
    const bad = flip(last, at);
    const found = await start({ [FIRST]: Buffer.concat([one, two, bad]) });
    assert.deepEqual([found.content, found.torn], [Buffer.concat([one, two]), bad], `byte ${at}`);
  }
  const doubled = await start({ [FIRST]: Buffer.concat([one, two, two]) });
  assert.deepEqual(doubled.torn, two);
});

test('zeros that a power cut left behind the last line are a torn end', async () => {
  for (const zeros of [1, 4096, 100_000]) {
    const found = await start({ [FIRST]: Buffer.concat([three, Buffer.alloc(zeros)]) });
    assert.deepEqual(found.content, three);
    assert.equal(found.torn?.length, zeros);
  }
});

test('a torn end as long as a disk is cut off without being held in memory', async (t) => {
  const disk = openDisk(newFolder(t));
  const file = await disk.create(FIRST);
  await file.write(three, 0);
  await file.truncate(three.length + 400 * 1024 * 1024); // a hole reads as zeros
  await file.close();
  const before = process.memoryUsage().arrayBuffers;
  let most = 0;
  const watched = setInterval(() => {
    most = Math.max(most, process.memoryUsage().arrayBuffers - before);
  }, 5);
  const scan = await scanSegment(disk.read(FIRST), START);
  clearInterval(watched);
  assert.deepEqual([scan.bytes, scan.lines, scan.rest.kind], [three.length, 3, 'torn']);
  assert.ok(most < 100 * 1024 * 1024, `${most} bytes at a time`);
});

test('a line as long as the largest report makes it is read', async () => {
  const metadata = JSON.stringify({ a: '\u0085'.repeat(500_000) });
  const longest = encodeBatch(
    [encodeMembers({ type: 'AssetObservation', assetKey: ['a'], metadata })],
    START,
    new Date(),
  );
  const found = await start({ [FIRST]: longest.bytes });
  assert.deepEqual([found.content.length, found.torn], [longest.bytes.length, undefined]);
  assert.ok(longest.bytes.length > 3_000_000);
});

test('a file with nothing but a torn end begins again', async () => {
  const found = await start({ [FIRST]: last.subarray(0, 10) });
  assert.deepEqual([found.content.length, found.next], [0, START]);
});

test('bytes kept aside before are not overwritten', async () => {
  const disk = new SimulatedDisk();
  disk.files.set(FIRST, { bytes: Buffer.concat([one, Buffer.from('torn now')]) });
  disk.files.set(`${FIRST}.torn`, { bytes: Buffer.from('torn before') });
  await recover(
    disk,
    createNotices('error', false, () => {}),
  );
  assert.equal(disk.text(`${FIRST}.torn`), 'torn before');
  assert.equal(disk.text(`${FIRST}.torn-2`), 'torn now');
});

test('a bad line with lines after it is refused with file, line, byte and what to do, and nothing is changed', async () => {
  const table: Record<string, Buffer> = {
    'a flipped bit': Buffer.concat([flip(one, 30), two, last]),
    'a lost line': Buffer.concat([one, last, lines(1, afterThree).bytes]),
    'swapped lines': Buffer.concat([two, one, last]),
    'a doubled line': Buffer.concat([one, one, two, last]),
    'an empty line': Buffer.concat([one, Buffer.from('\n'), two, last]),
    garbage: Buffer.concat([one, Buffer.from('garbage\n'), two]),
    'a first line of another place': Buffer.concat([two, last]),
  };
  for (const [what, bytes] of Object.entries(table)) {
    const disk = new SimulatedDisk();
    disk.files.set(FIRST, { bytes });
    const recovered = recover(
      disk,
      createNotices('error', false, () => {}),
    );
    const expected =
      /^the journal is damaged: \/simulated\/events-0+1\.jsonl, line \d, byte \d+: it.*, and lines follow it; nothing was changed\. Restore/;
    await assert.rejects(recovered, (error) => error instanceof DamagedError && expected.test(error.message), what);
    assert.deepEqual([...disk.files.keys()], [FIRST]);
    assert.deepEqual(disk.files.get(FIRST)?.bytes, bytes);
  }
});

test('after any stop but a clean one the last file is rewritten, and only then', async () => {
  const disk = new SimulatedDisk();
  disk.files.set(FIRST, { bytes: three });
  await recover(
    disk,
    createNotices('error', false, () => {}),
  );
  assert.deepEqual(
    disk.calls.filter((call) => !/^(list|read|write)/.test(call)),
    [
      `remove ${FIRST}.rewrite`,
      `create ${FIRST}.rewrite`,
      `sync ${FIRST}.rewrite`,
      `close ${FIRST}.rewrite`,
      `rename ${FIRST}.rewrite`,
      'syncFolder ',
      `open ${FIRST}`,
    ],
  );

  await rememberCleanStop(disk);
  const before = disk.calls.length;
  await recover(
    disk,
    createNotices('error', false, () => {}),
  );
  assert.deepEqual(disk.calls.slice(before), [
    'list ',
    `read ${FIRST}`,
    'remove .stopped-cleanly',
    'syncFolder ',
    `open ${FIRST}`,
  ]);
});

test('a torn end is durable beside the journal before it is cut off', async () => {
  const disk = new SimulatedDisk();
  disk.files.set(FIRST, { bytes: Buffer.concat([three, Buffer.from('x')]) });
  await recover(
    disk,
    createNotices('error', false, () => {}),
  );
  const aside = disk.calls.indexOf(`sync ${FIRST}.torn`);
  const entry = disk.calls.indexOf('syncFolder ', aside);
  const cut = disk.calls.indexOf(`rename ${FIRST}.rewrite`);
  assert.ok(aside !== -1 && aside < entry && entry < cut, disk.calls.join());
});

test('whatever call fails during a start, the next start finds every good line', async () => {
  const torn = Buffer.concat([three, Buffer.from('torn')]);
  for (let failing = 1; ; failing += 1) {
    const disk = new SimulatedDisk();
    disk.files.set(FIRST, { bytes: torn });
    let calls = 0;
    disk.fault = () => {
      calls += 1;
      return calls === failing ? systemError('EIO') : undefined;
    };
    const quiet = createNotices('error', false, () => {});
    const failed = await recover(disk, quiet).then(
      () => false,
      () => true,
    );
    disk.fault = () => undefined;
    const segment = await recover(disk, quiet);
    assert.deepEqual(disk.files.get(FIRST)?.bytes, three, `call ${failing}`);
    assert.equal(segment.place.seq, 4);
    assert.ok(
      [...disk.files].some(([name, { bytes }]) => name.includes('.torn') && bytes.toString() === 'torn'),
      `call ${failing}`,
    );
    if (!failed) break;
  }
});

test('foreign files are left alone', async (t) => {
  const folder = newFolder(t);
  const foreign = {
    'notes.txt': 'mine',
    'events-1.jsonl': 'x',
    '.hidden': 'y',
    'events-00000000000000000001.jsonl.bak': 'z',
  };
  for (const [name, text] of Object.entries(foreign)) writeFileSync(join(folder, name), text);
  const segment = await recover(
    openDisk(folder),
    createNotices('error', false, () => {}),
  );
  await segment.file.close();
  assert.equal(segment.place.seq, 1);
  for (const [name, text] of Object.entries(foreign)) assert.equal(readFileSync(join(folder, name), 'utf8'), text);
  assert.equal(readdirSync(folder).length, 5);
});
