import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDisk } from '../../../src/journal/disk.ts';
import { hazardOf, mountOf, shareOf } from '../../../src/journal/open/mount.ts';
import { newFolder } from '../../support/program.ts';

const MOUNTINFO = `\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /data rw,nosuid - tmpfs none rw,size=1024k
31 22 0:26 / /a\\040b\\134c rw - nfs4 server:/export rw,vers=4.2
32 22 0:27 / /over rw master:5 propagate_from:2 - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w,volatile
33 22 0:28 / /twice rw - tmpfs none rw
34 33 0:29 / /twice rw - xfs /dev/sdb rw
`;

test('a folder is on the longest mount point above it, and on the last mount of the same point', () => {
  const typeOf = (path: string) => mountOf(MOUNTINFO, path)?.type;
  assert.deepEqual(['/', '/x', '/database', '/data', '/data/x/y'].map(typeOf), [
    'ext4',
    'ext4',
    'ext4',
    'tmpfs',
    'tmpfs',
  ]);
  assert.deepEqual(['/a b\\c/x', '/over', '/twice/x'].map(typeOf), ['nfs4', 'overlay', 'xfs']);
  assert.equal(mountOf('', '/x'), undefined);
  assert.deepEqual(mountOf(MOUNTINFO, '/data')?.options, ['rw', 'nosuid', 'rw', 'size=1024k']);
});

test('file systems that break a guarantee are named, with a remedy; others are not', () => {
  const hazard = (type: string, ...options: string[]) => hazardOf({ type, options });
  assert.match(hazard('tmpfs') ?? '', /in memory \(tmpfs\).*--data$/);
  assert.match(hazard('ramfs') ?? '', /in memory \(ramfs\)/);
  assert.match(hazard('overlay', 'rw', 'volatile') ?? '', /mounted volatile.*mount a volume there$/);
  assert.match(hazard('overlay', 'rw', 'fsync=volatile') ?? '', /mounted volatile/);
  for (const type of ['nfs', 'nfs4', 'cifs', 'smb3', '9p', 'ceph', 'fuse.sshfs']) {
    assert.match(hazard(type) ?? '', /network file system .*; use a local disk$/, type);
  }
  for (const type of ['ext4', 'xfs', 'btrfs', 'overlay', 'fuse', 'fuseblk', 'vfat', 'f2fs']) {
    assert.equal(hazard(type, 'rw'), undefined, type);
  }
});

test('a folder on a share of Windows is on a network file system', () => {
  assert.match(
    hazardOf(shareOf('\\\\server\\share\\data') ?? { type: '', options: [] }) ?? '',
    /network file system \(smb\)/,
  );
  assert.equal(shareOf('C:\\data'), undefined);
});

const withoutMounts = (process.platform !== 'linux' || process.getuid?.() !== 0) && 'a mount needs root on Linux';

test('a real tmpfs and a real volatile overlay are recognised', { skip: withoutMounts }, async (t) => {
  const folder = newFolder(t);
  const points: string[] = [];
  const mounted = async (name: string, ...args: string[]) => {
    const point = join(folder, name);
    mkdirSync(point);
    execFileSync('mount', [...args, 'none', point]);
    points.push(point);
    const disk = openDisk(join(point, 'data'));
    await disk.prepare();
    return disk;
  };
  try {
    const memory = await mounted('memory', '-t', 'tmpfs', '-o', 'size=1m');
    assert.equal((await memory.mount())?.type, 'tmpfs');
    assert.ok(((await memory.space())?.totalBytes ?? Number.NaN) <= 1024 * 1024);

    const parts = ['lower', 'upper', 'work'].map((name) => join(folder, name));
    for (const part of parts) mkdirSync(part);
    const layers = `lowerdir=${parts[0]},upperdir=${parts[1]},workdir=${parts[2]},volatile`;
    const mount = await (await mounted('volatile', '-t', 'overlay', '-o', layers)).mount();
    assert.match((mount && hazardOf(mount)) ?? '', /mounted volatile/);
  } finally {
    for (const point of points) execFileSync('umount', ['--lazy', point]);
  }
});
