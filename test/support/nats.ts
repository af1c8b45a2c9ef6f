/** Real NATS servers: one, or a cluster of three whose nodes are killed and restarted. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { sourceIn } from './forwarded.ts';
import { type Answered, type Login, NatsClient, type Stored } from './nats-client.ts';
import { freePort, journalText, newFolder, type Scope } from './program.ts';
import { eventually, HANG_MS, missing } from './tools.ts';

export const natsServer = process.env['ASSETLOG_TEST_NATS'] ?? 'nats-server';
/** The `nats` program. Tests run without it too. */
export const natsCommand = process.env['ASSETLOG_TEST_NATS_CLI'];
/** A server older than 2.12, without atomic batches. */
const olderServer = process.env['ASSETLOG_TEST_NATS_OLD'] ?? 'no-nats-server';

/** Why tests with NATS are skipped; false if it is there. */
export const withoutNats = missing('nats-server is missing; name one in ASSETLOG_TEST_NATS', natsServer, ['--version']);
export const withoutOlderNats =
  withoutNats || missing('ASSETLOG_TEST_NATS_OLD names no nats-server', olderServer, ['--version']);

/** Longer than a cluster needs to elect a leader on a busy machine. */
const ASK_MS = 300;

export interface NatsNode {
  readonly name: string;
  readonly port: number;
  /** Holds its file, its log and its store. */
  readonly folder: string;
  isRunning(): boolean;
  start(): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
}

interface Options {
  readonly nodes?: 1 | 3;
  /** More lines for the file of each node, such as `authorization { token: t }`. */
  readonly config?: string;
  readonly login?: Login;
  readonly isOlder?: boolean;
}

export const STREAM = 'ASSETLOG';

/** For `to` of a destination. */
export const natsUrl = ({ hosts }: Nats, stream = STREAM) => `nats://${hosts}/${stream}`;

/** @throws AssertionError unless the messages of the journal's subject are its lines, each once and in order */
export function assertInStream(stored: readonly Stored[], data: string): void {
  const subject = `assetlog._.${sourceIn(data)}`;
  const payloads = stored.flatMap((message) => (message.subject === subject ? [message.payload] : []));
  const lines = journalText(data).split('\n').slice(0, -1);
  const wrong = payloads.findIndex((payload, index) => payload !== lines[index]);
  assert.equal(wrong, -1, `message ${wrong + 1} is ${payloads[wrong]}, and the line ${lines[wrong]}`);
  assert.equal(payloads.length, lines.length);
  assert.ok(payloads.length > 0);
}

/** Starts one node or three, which end with the test. Resolves when JetStream answers, that is, when there is a leader. */
export async function startNats(t: Scope, options: Options = {}): Promise<Nats> {
  const { nodes: count = 1, config = '', login, isOlder = false } = options;
  const nodes: NatsNode[] = [];
  t.after(() => Promise.all(nodes.map((node) => node.kill()))); // before the folder is removed
  const folder = newFolder(t);
  const names = Array.from({ length: count }, (_, index) => `n${index + 1}`);
  const ports = await Promise.all(names.map(() => freePort(t)));
  const routes = count === 1 ? [] : await Promise.all(names.map(() => freePort(t)));
  for (const [index, name] of names.entries()) {
    const text = `${configOf(join(folder, name), name, ports[index] ?? 0, routes, routes[index])}${config}\n`;
    nodes.push(createNode(isOlder ? olderServer : natsServer, join(folder, name), name, ports[index] ?? 0, text));
  }
  await Promise.all(nodes.map((node) => node.start()));
  const nats = new Nats(nodes, login);
  await eventually('JetStream answers', () => nats.answers(), HANG_MS);
  return nats;
}

/** Servers that run, or can be started again. */
export class Nats {
  readonly nodes: readonly NatsNode[];
  /** `127.0.0.1:4222,127.0.0.1:4223` */
  readonly hosts: string;
  readonly #login: Login | undefined;

  constructor(nodes: readonly NatsNode[], login: Login | undefined) {
    this.nodes = nodes;
    this.hosts = nodes.map(({ port }) => `127.0.0.1:${port}`).join();
    this.#login = login;
  }

  client(replyMs?: number): Promise<NatsClient> {
    const node = this.nodes.find(({ isRunning }) => isRunning());
    return NatsClient.open(node?.port ?? 0, this.#login, replyMs);
  }

  /** Creates a stream with the settings of `nats stream add --allow-batch --defaults`, changed by `config`. */
  async createStream(config: object = {}): Promise<void> {
    const stream = { ...streamDefaults, num_replicas: this.nodes.length, ...config };
    await this.api(`STREAM.CREATE.${stream.name}`, stream);
  }

  async updateStream(config: object): Promise<void> {
    const now = (await this.api(`STREAM.INFO.${STREAM}`))['config'] as object;
    await this.api(`STREAM.UPDATE.${STREAM}`, { ...now, ...config });
  }

  /** Sends a request to the JetStream API. @throws Error with the description of an error */
  api(subject: string, payload?: unknown): Promise<Answered> {
    return this.#using((client) => client.api(subject, payload));
  }

  /** Retries: a consumer can get nothing while the nodes elect a leader. */
  async messages(stream = STREAM): Promise<Stored[]> {
    for (let triesLeft = 3; ; triesLeft -= 1) {
      try {
        return await this.#using((client) => client.messages(stream));
      } catch (error) {
        if (triesLeft === 1) throw error;
      }
    }
  }

  /** Whether there is a leader: without one there is no answer at all. */
  async answers(): Promise<boolean> {
    const client = await this.client(ASK_MS);
    const answered = await client.api('INFO').catch(() => undefined);
    client.close();
    return answered !== undefined;
  }

  async #using<Value>(act: (client: NatsClient) => Promise<Value>): Promise<Value> {
    const client = await this.client();
    return act(client).finally(() => client.close());
  }
}

function createNode(command: string, folder: string, name: string, port: number, text: string): NatsNode {
  mkdirSync(folder);
  const file = join(folder, 'nats.conf');
  const logFile = join(folder, 'log');
  let child: ChildProcess | undefined;
  const isRunning = () => child !== undefined && child.exitCode === null && child.signalCode === null;
  const log = () => readFileSync(logFile, 'utf8');
  writeFileSync(file, text);
  return {
    name,
    port,
    folder,
    isRunning,
    start: async () => {
      child = spawn(command, ['-c', file, '-l', logFile], { stdio: 'ignore' });
      await eventually(
        `${name} listens`,
        () => {
          if (!isRunning()) throw new Error(`${name} ended: ${log()}`);
          return listens(port);
        },
        HANG_MS,
      );
    },
    kill: async () => {
      if (child === undefined || !isRunning()) return;
      const closed = once(child, 'close');
      child.kill('SIGKILL');
      await closed;
    },
  };
}

function listens(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  }).finally(() => socket.destroy()) as Promise<boolean>;
}

/** The settings of a stream made by `nats stream add --allow-batch --defaults`. */
export const streamDefaults = {
  name: STREAM,
  subjects: ['assetlog.>'],
  storage: 'file',
  retention: 'limits',
  discard: 'old',
  allow_atomic: true,
};

function configOf(folder: string, name: string, port: number, routes: readonly number[], own?: number): string {
  const jetstream = `jetstream { store_dir: "${join(folder, 'store')}", sync_interval: always }`;
  const cluster = `cluster { name: c, listen: "127.0.0.1:${own}", routes: [${routes.map((one) => `"nats://127.0.0.1:${one}"`)}] }`;
  return [`server_name: ${name}`, `listen: "127.0.0.1:${port}"`, jetstream, own === undefined ? '' : cluster, ''].join(
    '\n',
  );
}
