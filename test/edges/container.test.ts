/**
 * The handbook's Dockerfile without a container engine: the tests run its steps to build the root of the image, and set up the
 * namespaces that an engine would. They cover the file list, the user and the command line, but no engine and no base image. The
 * files for Compose and Kubernetes are compared with the Dockerfile, the command of the page and the limits.
 */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { page } from '../support/handbook.ts';
import { withoutRoot } from '../support/machine.ts';
import { eventsIn, newFolder, type RunOptions, root, run, startService } from '../support/program.ts';
import { missing } from '../support/tools.ts';
import { ask, get, post } from '../support/wire.ts';

const REPORT = '/report_asset_observation/a';
const IMAGE = '/image';
const handbook = page('install');
const recipe = (/^```dockerfile\n(.*?)^```$/ms.exec(handbook)?.[1] ?? '').replaceAll('\\\n', '');
const steps = recipe.split('\n').map((line) => /^(\w+) +(.*)$/.exec(line) ?? []);
const [user = '', env = '', volume = '', exposed = '', health = '', entry = ''] = [
  'USER',
  'ENV',
  'VOLUME',
  'EXPOSE',
  'HEALTHCHECK',
  'ENTRYPOINT',
].map((name) => steps.find(([, step]) => step === name)?.[2]);

const withoutNamespaces =
  withoutRoot ||
  missing('unshare or setpriv (util-linux) is missing, or mount namespaces are not allowed', 'unshare', [
    ...['--mount', 'setpriv', '--no-new-privs', 'true'],
  ]);

/** What an engine does for `docker run --read-only --cap-drop=ALL --security-opt=no-new-privileges -v FOLDER:/data`. */
const ENGINE = `
image=$1 volume=$2 data=$3 user=$4 variables=$5; shift 5
mount --bind "$image" "$image"
mount --bind "$data" "$image$volume"
mount -o remount,bind,ro "$image"
exec env -i PATH="$PATH" $variables setpriv --no-new-privs chroot --userspec="$user" --groups= "$image" "$@"
`;

interface Image {
  readonly folder: string;
  /** Options that run a command inside the image. */
  readonly options: (command: string, data: string) => RunOptions;
}

/** Runs the build stage and copies what the last stage copies. */
function build(t: TestContext): Image {
  const folder = newFolder(t);
  execFileSync('chmod', ['755', folder]);
  for (const [, step, text = ''] of steps.slice(
    0,
    steps.findIndex(([line]) => line === 'FROM scratch'),
  )) {
    const here = text.replaceAll(IMAGE, folder);
    if (step === 'COPY') execFileSync('cp', here.split(' '), { cwd: join(root, 'dist') });
    if (step === 'RUN') execFileSync('sh', ['-euc', here], { cwd: root });
  }
  return {
    folder,
    options: (command, data) => ({
      under: [
        'unshare',
        '--mount',
        '--propagation',
        'private',
        'sh',
        '-euc',
        ENGINE,
        'sh',
        folder,
        volume,
        data,
        user,
        env,
      ],
      program: JSON.parse(command),
    }),
  };
}

function newVolume(t: TestContext, image: Image): string {
  const data = newFolder(t);
  const { uid, gid, mode } = statSync(join(image.folder, volume));
  assert.deepEqual(
    [`${uid}:${gid}`, mode & 0o777],
    [user, 0o700],
    'a new volume has the owner and mode of the folder in the image',
  );
  execFileSync('chown', [user, data]);
  return data;
}

test('an unprivileged service in a read-only root without capabilities records, restarts and is healthy', {
  skip: withoutNamespaces,
}, async (t) => {
  assert.deepEqual(
    steps.map(([, step]) => step).filter((step) => step !== undefined),
    ['FROM', 'COPY', 'RUN', 'FROM', 'COPY', 'USER', 'ENV', 'VOLUME', 'EXPOSE', 'HEALTHCHECK', 'ENTRYPOINT'],
  );
  const image = build(t);
  const top = readdirSync(image.folder).sort();
  assert.deepEqual(
    top.filter((name) => !/^(lib|lib64|usr)$/.test(name)),
    ['data', 'node', 'server.js'],
  );
  const libraries = execFileSync('find', [image.folder, '-type', 'f', '-printf', '%P\n'], { encoding: 'utf8' });
  for (const file of libraries.trim().split('\n')) assert.match(file, /^(node|server\.js|(usr\/)?lib.*\.so[.\d]*)$/);

  const data = newVolume(t, image);
  let port = 0;
  for (let start = 1; start <= 2; start += 1) {
    const service = await startService(t, { data: volume, ...image.options(entry, data) });
    port = service.port;
    assert.equal((await ask(port, post(REPORT))).status, 200);
    assert.equal((await ask(port, 'GET /readyz HTTP/1.1\r\nHost: edge.example\r\n\r\n')).status, 200);
    const status = readFileSync(`/proc/${service.pid}/status`, 'utf8');
    assert.match(status, /^Uid:\t65534\t65534\t65534\t65534$/m);
    assert.match(status, /^Groups:\t *$/m);
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapAmb']) assert.match(status, new RegExp(`^${set}:\\t0+$`, 'm'));
    assert.match(status, /^NoNewPrivs:\t1$/m);
    const mounts = readFileSync(`/proc/${service.pid}/mountinfo`, 'utf8').trim().split('\n');
    const seen = mounts
      .map((line) => line.split(' '))
      .map(([, , , , where, how = '']) => `${where} ${how.split(',')[0]}`);
    assert.deepEqual(seen.sort(), ['/ ro', `${volume} rw`]);
    const probe: string[] = JSON.parse(health.replace(/^CMD /, ''));
    const checked = await run(['--port', String(port)], image.options(JSON.stringify(probe), data));
    assert.deepEqual([checked.code, checked.stderr], [0, '']);
    // SIGKILL first: the second start finds a lock that no process holds, and rewrites the last file.
    const { code, signal } = await service.kill(start === 1 ? 'SIGKILL' : 'SIGTERM');
    assert.deepEqual([code, signal], start === 1 ? [null, 'SIGKILL'] : [0, null]);
    assert.equal(eventsIn(data).length, start);
  }
  const dead = await run(['--port', String(port)], image.options(health.replace(/^CMD /, ''), data));
  assert.equal(dead.code, 1);
});

test('backup and verify run beside the service in its container, which has no shell', {
  skip: withoutNamespaces,
}, async (t) => {
  const image = build(t);
  const [, mounted = ''] = /`-v \/srv\/backup:(\S+)`/.exec(handbook) ?? [];
  const commands = [...handbook.matchAll(/`docker exec NAME ([^`]*)`/g)].map(([, command = '']) => command.split(' '));
  commands.push((/^`kubectl exec assetlog-0 -- ([^`]*)`/m.exec(handbook)?.[1] ?? '').split(' '));
  mkdirSync(join(image.folder, mounted));
  const [data, backup] = [newVolume(t, image), newVolume(t, image)];
  const service = await startService(t, { data: volume, ...image.options(entry, data) });
  assert.equal((await ask(service.port, post(REPORT))).status, 200);
  // An engine mounts it before, and enters the container as its user, with the variables of the image.
  const inside = ['-t', `${service.pid}`, '-m'];
  execFileSync('nsenter', [...inside, 'mount', '--bind', backup, join(image.folder, mounted)]);
  const [uid = '', gid = ''] = user.split(':');
  const under = ['env', '-i', ...env.split(' '), '/usr/bin/nsenter', ...inside, '-r', '-S', uid, '-G', gid];
  const ran: string[] = [];
  for (const command of commands) {
    assert.deepEqual(command.slice(0, 2), JSON.parse(entry));
    const { code, stdout, stderr } = await run([], { under, program: command });
    assert.deepEqual([code, stderr], [0, ''], command.join(' '));
    ran.push(`${command[2]} ${/1 new event|events +1\b/.exec(stdout)?.[0].replace(/ +/g, ' ')}`);
  }
  assert.deepEqual(ran, ['backup 1 new event', 'verify events 1', 'verify events 1']);
  assert.deepEqual(
    [eventsIn(backup).length, statSync(join(backup, readdirSync(backup)[0] ?? '')).uid],
    [1, Number(uid)],
  );
});

test('a folder of the host with the owner of the handbook is accepted, and so is a volume with an fsGroup', {
  skip: withoutNamespaces,
}, async (t) => {
  const image = build(t);
  const [group] = /fsGroup: (\d+)/.exec(handbook)?.slice(1) ?? [];
  const [owner = ''] = /`chown (\S+) \/srv\/assetlog`/.exec(handbook)?.slice(1) ?? [];
  // What the kubelet does for an fsGroup: the volume of root gets the group and its rights, and keeps the group for new files.
  for (const [chown, mode] of [
    [owner, '700'],
    [`0:${group}`, '2775'],
  ] as const) {
    const data = newFolder(t);
    execFileSync('chmod', [mode, data]);
    execFileSync('chown', [chown, data]);
    const service = await startService(t, { data: volume, ...image.options(entry, data) });
    assert.equal((await ask(service.port, post(REPORT))).status, 200);
    assert.equal((await service.kill()).code, 0);
    assert.deepEqual([eventsIn(data).length, /"level":"(warn|error)"[^\n]*writ/.exec(service.stderr())], [1, null]);
  }
});

const python = process.env['ASSETLOG_TEST_PYTHON'] ?? 'python3';
const withoutYaml = missing(`${python} has no yaml; set ASSETLOG_TEST_PYTHON to a Python that has it`, python, [
  ...['-c', 'import yaml'],
]);
const STOP_SECONDS = (limits.drainMs + limits.lastSyncMs + limits.lastCallMs) / 1000;

/** @returns the documents of a YAML file of the handbook */
function documentsIn(name: string) {
  const input = readFileSync(join(root, 'bin/handbook', name));
  const script = 'import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))';
  return JSON.parse(execFileSync(python, ['-c', script], { input, encoding: 'utf8' }));
}

test('the Compose file has the options of the command for Docker, and time for a stop', { skip: withoutYaml }, () => {
  const [{ services, volumes }] = documentsIn('compose.yaml');
  const { build, image, restart, stop_grace_period, ...options } = services.assetlog;
  assert.deepEqual([build, restart], ['.', 'unless-stopped']);
  assert.ok(Number(/^(\d+)s$/.exec(stop_grace_period)?.[1]) > STOP_SECONDS, stop_grace_period);
  const [, command = '', mount = '', published = ''] =
    /^docker run (.*) -v \w+:(\S+) -p (\S+) assetlog$/m.exec(handbook) ?? [];
  assert.deepEqual([mount, published.split(':').at(-1)], [volume, exposed]);
  const flags = [
    ...(options.read_only ? ['--read-only'] : []),
    ...options.cap_drop.map((name: string) => `--cap-drop=${name}`),
    ...options.security_opt.map((text: string) => `--security-opt=${text.replace(/:true$/, '')}`),
  ];
  assert.equal(flags.join(' '), command);
  assert.deepEqual(options.ports, [published]);
  assert.deepEqual(
    options.volumes,
    Object.keys(volumes).map((name) => `${name}:${mount}`),
  );
  assert.deepEqual(Object.keys(options).sort(), ['cap_drop', 'ports', 'read_only', 'security_opt', 'volumes']);
});

test('the Kubernetes manifest fits the image, its probes are answered, and it gives time for a stop', {
  skip: withoutYaml,
}, async (t) => {
  const [service, set] = documentsIn('kubernetes.yaml');
  const port = Number(exposed);
  const [id] = user.split(':').map(Number);
  const { template, volumeClaimTemplates, ...own } = set.spec;
  const { containers, securityContext, terminationGracePeriodSeconds, ...pod } = template.spec;
  assert.deepEqual([set.kind, own.replicas, own.serviceName], ['StatefulSet', 1, service.metadata.name]);
  const { labels } = template.metadata;
  assert.deepEqual([service.spec.selector, own.selector.matchLabels], [labels, labels]);
  assert.deepEqual(service.spec.ports, [{ port }]);
  assert.equal(pod.enableServiceLinks, false);
  assert.ok(terminationGracePeriodSeconds > STOP_SECONDS);
  assert.deepEqual(securityContext, { runAsUser: id, runAsGroup: id, fsGroup: id, runAsNonRoot: true });
  assert.equal(containers.length, 1);
  const [{ args, ports, livenessProbe, readinessProbe, resources, volumeMounts, ...container }] = containers;
  assert.deepEqual(container.securityContext, {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  });
  assert.deepEqual(ports, [{ containerPort: port }]);
  assert.equal(resources.limits.memory, '512Mi', 'with less the caps are lowered');
  assert.deepEqual(volumeMounts, [{ name: volumeClaimTemplates[0].metadata.name, mountPath: volume }]);

  const variables = Object.fromEntries(env.split(' ').map((text) => text.split('=')));
  const { ASSETLOG_DATA, ...others } = variables;
  assert.equal(ASSETLOG_DATA, volume);
  const started = await startService(t, { args: args.slice(1), env: others });
  assert.equal(args[0], 'serve');
  for (const { httpGet } of [livenessProbe, readinessProbe]) {
    assert.equal(httpGet.port, port);
    // The kubelet asks for the address of the pod.
    const asked = get(httpGet.path).replace('localhost', `10.244.0.7:${port}`);
    assert.equal((await ask(started.port, asked)).status, 200, asked);
  }
});
