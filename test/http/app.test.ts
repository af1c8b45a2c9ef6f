/** The steps of a request without a listener: long replies after a lost right, and defects. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { createApp } from '../../src/http/app.ts';
import { readFields } from '../../src/http/headers.ts';
import { type Handler, type LaterHandled, Refusal, type Reply } from '../../src/http/message.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { systemError } from '../world/simulated-disk.ts';

/** A right to read that `lose` revokes. `watches` are the watching replies. */
class Right {
  isLost = false;
  readonly watches = new Set<() => void>();

  find() {
    if (this.isLost) throw new Refusal(401, 'the token has expired');
    const whileAllowed = (end: () => void) => {
      this.watches.add(end);
      if (this.isLost) this.lose();
      return () => this.watches.delete(end);
    };
    return { deployment: 'prod', whileAllowed };
  }

  lose(): void {
    this.isLost = true;
    for (const end of [...this.watches]) end();
  }
}

/** Creates an app with these parts, and minimal other parts. */
function appWith(parts: Partial<Parameters<typeof createApp>[0]>) {
  return createApp({
    acceptsKeys: true,
    pathPrefix: '',
    checkAccess: () => {},
    namesDeployment: false,
    tokenHeaders: new Map(),
    findRecorder: () => assert.fail('nothing is recorded'),
    readings: [],
    findReadable: () => assert.fail('nothing is read'),
    contract: () => '{}',
    readiness: () => ({ kind: 'body', status: 200, body: '{}' }),
    limits,
    metrics: new Metrics(),
    showMetrics: async () => '',
    turn: async () => {},
    notices: createNotices('error', false, () => {}),
    activity: {
      showsRecorded: false,
      textOf: () => '',
      recorded: () => {},
      pathOf: (url) => url,
      nameOf: (name) => name,
    },
    ...parts,
  });
}

function send(app: ReturnType<typeof createApp>, method: string, url: string, controller = new AbortController()) {
  const more = { fields: readFields(['Host', 'localhost']), ending: controller.signal };
  const decision = app({ id: '1', method, url, httpVersion: '1.1', ...more, endReply: () => controller.abort() });
  assert.ok(decision.kind === 'receive');
  return new Promise<Reply>((respond) => decision.receive(Buffer.alloc(0), respond));
}

const slow = { path: '/slow', followedBy: 'nothing', bodyTypes: [] } as const;

/** Sends a request to an app whose only route returns this outcome. */
function ask(right: Right, reply: LaterHandled['reply'], controller?: AbortController, log: string[] = []) {
  const handler: Handler = ({ deployment }) => {
    assert.equal(deployment, 'prod');
    return { kind: 'later', reply };
  };
  const app = appWith({
    namesDeployment: true,
    notices: createNotices('error', false, (line) => log.push(line)),
    readings: [{ ...slow, needs: 'read', methods: ['GET'], handler }],
    findReadable: () => right.find(),
  });
  return send(app, 'GET', '/prod/slow', controller);
}

const ends = (ending: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (ending.aborted) resolve();
    else ending.addEventListener('abort', () => resolve());
  });

test('a long poll is refused when the token loses its right', async () => {
  const right = new Right();
  const waiting = ask(right, async (ending) => {
    await ends(ending);
    return { kind: 'body', status: 200, body: 'secret' };
  });
  right.lose();
  const reply = await waiting;
  assert.deepEqual([reply.kind, reply.status], ['error', 401]);
  assert.equal(right.watches.size, 0);
});

test('the right of a request is no longer watched after its reply is decided or has failed', async () => {
  const right = new Right();
  const found = await ask(right, async () => ({ kind: 'body', status: 200, body: '{}' }));
  const failed = await ask(right, () => Promise.reject(new Refusal(410, 'gone')));
  assert.deepEqual([found.status, failed.status, right.watches.size], [200, 410, 0]);
});

test('a late reply to a GET waits for its turn, and one to a PUT begins at once', async () => {
  for (const method of ['GET', 'HEAD', 'PUT', 'POST']) {
    const isReading = method === 'GET' || method === 'HEAD';
    let begin = () => {};
    const turn = () => new Promise<void>((resolve) => (begin = resolve));
    let hasBegun = false;
    const reply = async (): Promise<Reply> => {
      hasBegun = true;
      return { kind: 'body', status: 200, body: '{}' };
    };
    const handler = (): LaterHandled => ({ kind: 'later', reply });
    const methods = isReading ? ['GET', 'HEAD'] : [method];
    const replied = send(
      appWith({ turn, readings: [{ ...slow, needs: 'nothing', methods, handler }] }),
      method,
      '/slow',
    );
    assert.equal(hasBegun, !isReading, method);
    begin();
    assert.equal((await replied).status, 200);
  }
});

test('an error of the disk is not reported as a defect of the service, any other exception is', async () => {
  for (const [error, message] of [
    [systemError('EIO', 'events.jsonl'), 'a request failed because of a disk error'],
    [
      Object.assign(new TypeError('no'), { code: 'ERR_INVALID_ARG_TYPE' }),
      'a request failed because of a defect of the service',
    ],
    [new Error('no'), 'a request failed because of a defect of the service'],
  ] as const) {
    const log: string[] = [];
    const reply = await ask(new Right(), () => Promise.reject(error), undefined, log);
    assert.deepEqual([reply.status, ...log.map((line) => JSON.parse(line).message)], [503, message]);
  }
});

test('a stream ends when the token loses its right, also between its head and its first piece', async () => {
  for (const early of [true, false]) {
    const right = new Right();
    const controller = new AbortController();
    const pieces = async function* (ending: AbortSignal) {
      if (!ending.aborted) yield Buffer.from('first ');
      await ends(ending);
      yield Buffer.from('end');
    };
    const reply = await ask(right, async () => ({ kind: 'stream', status: 200, pieces }), controller);
    assert.ok(reply.kind === 'stream');
    assert.equal(right.watches.size, 0, 'a stream that is never sent is not watched');
    if (early) right.lose();
    const sent: string[] = [];
    for await (const piece of reply.pieces(controller.signal, () => {})) {
      sent.push(String(piece));
      assert.equal(right.watches.size, 1);
      right.lose();
    }
    assert.equal(sent.join(''), early ? 'end' : 'first end');
    assert.equal(right.watches.size, 0);
  }
});

test('a defect of the service is a 503 for the client and a stack trace in the log, never a 500', () => {
  const logged: string[] = [];
  const app = appWith({
    checkAccess: () => {
      throw new TypeError('defect');
    },
    notices: createNotices('info', false, (line) => logged.push(line)),
  });
  const incoming = {
    method: 'POST',
    url: '/report_asset_check/',
    httpVersion: '1.1',
    fields: readFields(['Host', 'a']),
  };
  const decision = app({ id: 'f00d-7', ...incoming, ending: AbortSignal.abort(), endReply: () => {} });
  assert.ok(decision.kind === 'refuse');
  assert.equal(decision.reply.status, 503);
  assert.match(logged[0] ?? '', /"request_id":"f00d-7",.*TypeError: defect/);
});
