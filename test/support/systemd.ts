/** A systemd as the first process of its own namespaces, which starts units with all their settings. */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { IN_OTHER_NETWORK, withoutNetworkNamespaces, withoutRoot } from './machine.ts';
import { newFolder, root, type Scope } from './program.ts';
import { eventually, HANG_MS, missing } from './tools.ts';

const SYSTEMD = '/lib/systemd/systemd';
const CGROUPS = '/sys/fs/cgroup';
/** The address of `hub.example`, another machine in the handbook; here it is on the loopback interface. */
export const ELSEWHERE = '192.0.2.7';

/** Hierarchies for systemd itself: one in cgroup v2, otherwise two. */
const hierarchies = existsSync(`${CGROUPS}/cgroup.controllers`) ? [''] : ['systemd', 'unified'];

const [unshare = '', ...unshareArgs] = IN_OTHER_NETWORK;
export const withoutOwnSystemd =
  withoutRoot ||
  withoutNetworkNamespaces ||
  (!existsSync(SYSTEMD) && `${SYSTEMD} is missing`) ||
  (!existsSync('/usr/bin/node') && '/usr/bin/node, which the unit names, is missing') ||
  (!existsSync(join(root, 'dist/server.js')) && 'dist/server.js is missing; run npm run bundle') ||
  missing('it needs nsenter and unshare (util-linux)', 'nsenter', ['--version']) ||
  missing('creating namespaces of every kind is forbidden', unshare, [
    ...['-m', '-p', '-f', '-C', '-u', '-i'],
    ...unshareArgs,
    'true',
  ]) ||
  (!hierarchies.every((one) => existsSync(join(CGROUPS, one, 'cgroup.procs'))) && 'there is no cgroup of systemd');

/** Mounts the folders that units write to, so that they write nothing on this machine. */
const SCRIPT = `
set -e
units=$1 server=$2 address=$3; shift 3
ip link set lo up
ip address add "$address/32" dev lo
mount -t proc proc /proc
umount -R ${CGROUPS}
if [ $# = 0 ]; then mount -t cgroup2 cgroup2 ${CGROUPS}
else
  mount -t tmpfs tmpfs ${CGROUPS}
  mkdir ${CGROUPS}/systemd ${CGROUPS}/unified
  mount -t cgroup -o none,name=systemd cgroup ${CGROUPS}/systemd
  mount -t cgroup2 cgroup2 ${CGROUPS}/unified
fi
for folder in /run /var/lib /opt /mnt; do mount -t tmpfs tmpfs $folder; done
mkdir /opt/assetlog
cp "$server" /opt/assetlog/server.js
mount --bind "$units/hosts" /etc/hosts
mount --make-rshared / # as systemd does at the boot of a machine
exec env -i container=assetlog PATH="$PATH" SYSTEMD_UNIT_PATH="$units" SYSTEMD_GENERATOR_PATH=/none ${SYSTEMD} --system --unit=basic.target --log-target=null
`;

export interface OwnSystemd {
  readonly units: string;
  /** The first words of a command line that runs a command in its namespaces, as root. */
  readonly beside: readonly string[];
  /** Runs a shell script in its namespaces, as root. */
  shell(script: string): { readonly status: number | null; readonly stdout: string; readonly stderr: string };
}

/** Starts systemd with empty targets only. It and all its processes end with the test. */
export async function startSystemd(t: Scope): Promise<OwnSystemd> {
  const units = newFolder(t);
  for (const name of ['sysinit', 'basic', 'shutdown', 'network', 'multi-user']) {
    writeFileSync(join(units, `${name}.target`), '[Unit]\nDefaultDependencies=no\n');
  }
  writeFileSync(join(units, 'hosts'), `127.0.0.1 localhost\n${ELSEWHERE} hub.example\n`);
  const groups = hierarchies.map((one) => join(CGROUPS, one, `assetlog-${process.pid}`));
  for (const group of groups) mkdirSync(group);
  const enter = groups.map((group) => `echo $$ > ${group}/cgroup.procs`).join(' && ');
  const namespaces = ['-m', '-p', '-f', '-C', '-u', '-i', '-n', '--kill-child', '--propagation', 'private'];
  const more = hierarchies.length === 1 ? [] : ['v1'];
  const script = ['sh', '-c', SCRIPT, 'sh', units, join(root, 'dist/server.js'), ELSEWHERE, ...more];
  const command = ['-c', `${enter} && exec "$@"`, 'sh', 'unshare', ...namespaces, ...script];
  const child = spawn('sh', command, { stdio: ['ignore', 'ignore', 'pipe'] });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  t.after(() => end(child, groups));
  const childOf = (pid = 0) => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  await eventually(`systemd runs: ${stderr}`, () => childOf(child.pid) !== '');
  const beside = ['nsenter', '-t', childOf(child.pid), '-m', '-p', '-n', '-C', '--'];
  const shell: OwnSystemd['shell'] = (text) => {
    const [file = '', ...args] = [...beside, 'sh', '-c', text];
    return spawnSync(file, args, { encoding: 'utf8', timeout: HANG_MS });
  };
  await eventually(
    `systemd answers: ${stderr}`,
    () => shell('systemctl is-active basic.target').stdout === 'active\n',
    HANG_MS,
  );
  return { units, beside, shell };
}

async function end(child: ChildProcess, groups: readonly string[]): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
  for (const group of groups) await eventually(`${group} is empty`, () => removeGroup(group));
}

function removeGroup(group: string): boolean {
  try {
    for (const entry of readdirSync(group, { withFileTypes: true })) {
      if (entry.isDirectory()) removeGroup(join(group, entry.name));
    }
    rmdirSync(group);
    return true;
  } catch {
    return false; // its last process is ending
  }
}
