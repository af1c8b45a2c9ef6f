/** The handbook's commands for a replicated ingest tier, word for word: no report with a 200 is lost, whichever process is killed. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { observation, SentJournal, SOURCE, sourceOf } from '../support/forwarding.ts';
import { page } from '../support/handbook.ts';
import { IN_OTHER_NETWORK, IN_OTHER_PIDS, withoutNetworkNamespaces, withoutPidNamespaces } from '../support/machine.ts';
import { natsCommand, natsServer, startNats, withoutNats } from '../support/nats.ts';
import { withoutNginx } from '../support/nginx.ts';
import { newFolder, program, root, startService } from '../support/program.ts';

const handbook = page('replicate');
const [start = '', kill = '', count = '', send = ''] = [...handbook.matchAll(/^```bash\n(.*?)^```$/gms)].map(
  ([, text]) => text ?? '',
);
/** @returns the script that a command of the page runs */
function scriptOf(command: string): string {
  const [, path = ''] = /^(?:\.|bash) (bin\/handbook\/\S+)$/m.exec(command) ?? [];
  return readFileSync(join(root, path), 'utf8');
}

const setUp = scriptOf(start);
const lost = `${send.split('\n', 1)[0]}\n${scriptOf(send)}`;

const RUN_MS = 240_000;
const skip = withoutNats || withoutNginx || withoutNetworkNamespaces || withoutPidNamespaces;

/** @returns an environment in which the handbook's commands find the tested programs */
function environmentOf(folder: string): NodeJS.ProcessEnv {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  const compiler = ['--import', import.meta.resolve('tsx')];
  const commands = {
    assetlog: program,
    'nats-server': [natsServer],
    nats: natsCommand ? [natsCommand] : [process.execPath, ...compiler, join(root, 'test/support/nats-command.ts')],
  };
  for (const [name, words] of Object.entries(commands)) {
    const command = words.map((word) => `'${word}'`).join(' ');
    writeFileSync(join(bin, name), `#!/bin/sh\nexec ${command} "$@"\n`);
    chmodSync(join(bin, name), 0o755);
  }
  return { ...process.env, HOME: folder, PATH: `${bin}:${process.env['PATH']}` };
}

/** @param under the command that runs bash @returns the output of the script */
async function runCommands(folder: string, script: string, env: NodeJS.ProcessEnv, under: readonly string[] = []) {
  const [command = '', ...args] = [...under, 'bash', '-euc', script];
  const options = { cwd: folder, env, timeout: RUN_MS, maxBuffer: 16 * 1024 * 1024 };
  return (await promisify(execFile)(command, args, options)).stdout;
}

test('no report with a 200 is missing or duplicated, whichever of the five processes is killed', {
  skip,
}, async (t) => {
  const folder = newFolder(t);
  const load = kill.replace('seq 1000', 'seq $first $((first + 299))');
  assert.notEqual(load, kill);
  const killing = ['n1', 'n2', 'n3', 'i1', 'i2'].map((name, index) => {
    const restart = name.startsWith('n') ? `node ${name[1]}` : `ingester ${name[1]}`;
    return `first=${1 + index * 300}\n${load.replace('n2.pid', `${name}.pid`).replace('node 2', restart)}`;
  });
  const script = [setUp, ...killing, 'echo "counted:"', count].join('\n');
  // Namespaces in which all ports are free, and from which no process is left at the end.
  const alone = [...IN_OTHER_NETWORK, ...IN_OTHER_PIDS, '--kill-child'];
  const printed = await runCommands(folder, script, environmentOf(folder), alone);
  assert.equal(printed.slice(printed.indexOf('counted:')), 'counted:\n', 'lost or duplicated');
  const acknowledged = readFileSync(join(folder, 'acknowledged'), 'utf8').split('\n').length - 1;
  assert.ok(acknowledged > 1_000, `${acknowledged} of 1500`);
});

test('a hub gets each event of a lost ingester from the stream once', {
  skip: withoutNats,
}, async (t) => {
  const nats = await startNats(t);
  await nats.createStream();
  const description = `ü${'x'.repeat(5_000)}`;
  const journal = new SentJournal(1_600, SOURCE, (seq) => ({ ...observation(`a${seq}`), description }));
  const subject = `assetlog._.${journal.source}`;
  const client = await nats.client();
  t.after(() => client.close());
  const gone = [1, 2, 1_000]; // dropped by the stream, and in the dead letters
  const kept = journal.lines.filter((_, index) => !gone.includes(index + 1));
  for (const line of kept) client.publish(subject, `${line}`.trimEnd());
  client.publish(`${subject}.again`, `${journal.lines[999]}`.trimEnd());
  await client.request(`assetlog._.${sourceOf(2)}`, 'of another ingester');
  const hub = await startService(t);
  const folder = newFolder(t);
  const env = { ...environmentOf(folder), NATS_URL: `nats://${nats.hosts}`, subject, hub: hub.url };
  for (let time = 1; time <= 2; time += 1) {
    assert.match(await runCommands(folder, lost, env), new RegExp(`^${subject}$`, 'm'));
    const ids = hub.events().map(({ id }) => id);
    assert.deepEqual(
      ids,
      kept.map((line) => JSON.parse(`${line}`).id),
      `run ${time}`,
    );
  }
});
