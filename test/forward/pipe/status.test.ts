/** What `forward status`, the metrics and `/readyz` say of a destination: the same of an engine as of a hub. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { runHere } from '../../support/command-output.ts';
import { forwardFile, forwardStatus, QUICK, stateIn } from '../../support/forwarded.ts';
import { metricsOf, samplesOf } from '../../support/metrics.ts';
import { freePort, newFolder, type Scope } from '../../support/program.ts';
import { report } from '../../support/report.ts';
import { serve } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import { exception, Table } from '../../world/clickhouse.ts';
import { startScripted } from '../../world/http-server.ts';
import { errorOf } from '../../world/nats.ts';
import { startNatsStub } from '../../world/nats-server.ts';

const SECRET = 'grossesGeheimnis';

/** A member of the file of destinations, and what it makes of the login. */
type Start = (t: Scope) => Promise<string>;

interface Kind {
  readonly kind: string;
  /** What names the file with the secret. */
  readonly login: (file: string) => object;
  /** @returns `to` of one that works */
  readonly works: Start;
  readonly unreachable: Start;
  /** Of one that refuses the login, and repeats it. */
  readonly turnsAway: Start;
  /** Of one that has no stream or table, with the command that the reason names. */
  readonly lacks?: { readonly start: Start; readonly command: RegExp };
}

const closed = async (t: Scope) => `127.0.0.1:${await freePort(t)}`;
const clickhouse = (url: string) => `${url.replace('http:', 'clickhouse+http:')}/assets.events`;
const user = (passwordFile: string) => ({ user: 'writer', passwordFile });

const kinds: readonly Kind[] = [
  {
    kind: 'hub',
    login: (tokenFile) => ({ tokenFile }),
    works: async (t) => (await serve(t)).url,
    unreachable: async (t) => `http://${await closed(t)}`,
    turnsAway: async (t) => (await startScripted(t, () => [401, `{"error":"no ${SECRET}"}`])).url,
  },
  {
    kind: 'nats',
    login: user,
    works: async (t) => (await startNatsStub(t)).to,
    unreachable: async (t) => `nats://${await closed(t)}/ASSETLOG`,
    turnsAway: async (t) =>
      (await startNatsStub(t, { answer: () => `-ERR 'Authorization Violation of ${SECRET}'\r\n` })).to,
    lacks: {
      start: async (t) => (await startNatsStub(t, { answer: () => errorOf(10_059, 'stream not found', 404) })).to,
      command: /nats stream add ASSETLOG --subjects 'assetlog.>'/,
    },
  },
  {
    kind: 'clickhouse',
    login: user,
    works: async (t) => {
      const table = new Table();
      return clickhouse((await startScripted(t, (got) => table.answer(got))).url);
    },
    unreachable: async (t) => `clickhouse+http://${await closed(t)}/assets.events`,
    turnsAway: async (t) => clickhouse((await startScripted(t, () => exception(516, 403, `no ${SECRET}. (NO)`))).url),
    lacks: {
      start: async (t) => clickhouse((await startScripted(t, () => exception(60, 404))).url),
      command: /assetlog forward ddl clickhouse/,
    },
  },
];

for (const { kind, login, works, unreachable, turnsAway, lacks } of kinds) {
  for (const args of [[], ['--ack', 'upstream']]) {
    const isAcknowledged = args.length > 0;
    /** Reports to a service whose destination is in this state. @returns what the screen of an operator says, in one line */
    const screenOf = async (t: Scope, to: string, state: 'idle' | 'waiting' | 'stopped'): Promise<string> => {
      const [secret, file] = [join(newFolder(t), 'secret'), join(newFolder(t), 'forward.json')];
      writeFileSync(secret, SECRET, { mode: 0o600 });
      forwardFile(file, { name: 'upstream', to, ...login(secret) });
      const { url, data, port, notices } = await serve(t, { args: ['--forward', file, ...args], limits: QUICK });
      const isWell = state === 'idle';
      const isRecorded = isWell || !isAcknowledged;
      const lag = Number(isRecorded && !isWell);
      const readiness = () => fetch(`${url}/readyz`);
      await eventually('it is ready', async () => (await readiness()).ok === isRecorded);
      assert.deepEqual(await report({ url }, ['a']), [isRecorded ? 200 : 503]);
      let [status, metrics] = [await forwardStatus(data), ''];
      await eventually(`status and metrics say that it is ${state}`, async () => {
        [status, metrics] = [await forwardStatus(data), await metricsOf({ port })];
        const samples = samplesOf(metrics);
        const isShown = samples.get(`assetlog_forward_state{destination="upstream",state="${state}"}`) === 1;
        const lags = [status.lag_events, samples.get('assetlog_forward_lag_events{destination="upstream"}')];
        return isShown && status.state === state && lags.every((one) => one === lag);
      });
      assert.equal(status.last_seq, Number(isRecorded));
      assert.equal(status.kind, kind === 'hub' && !isWell ? null : kind, 'a URL of HTTP may be that of another kind');
      assert.equal(samplesOf(metrics).get('assetlog_ready'), Number(isRecorded));
      const readyz = await readiness();
      const body = await readyz.text();
      assert.match(body, isRecorded ? /"status":"ok"/ : /not recorded: upstream must have each event too/);
      const { code, stdout } = await runHere(['forward', 'status', '--data', data]);
      assert.equal(code, Number(state === 'stopped'));
      const screen = stdout.replaceAll(/\s+/g, ' ');
      if (!isWell) assert.ok(screen.includes(status.reason), screen);
      const all = [screen, JSON.stringify(status), metrics, body, JSON.stringify(stateIn(data)), ...notices];
      assert.doesNotMatch(all.join(), new RegExp(SECRET));
      return screen;
    };
    test(`forward status shows whether ${kind}${isAcknowledged ? ' with --ack' : ''} has all events, and otherwise why and what to do, without the secret`, async (t) => {
      assert.match(await screenOf(t, await works(t), 'idle'), /, event 1 of 1, last success 20/);
      assert.match(await screenOf(t, await unreachable(t), 'waiting'), /cannot be reached: connect ECONNREFUSED/);
      const refused = await screenOf(t, await turnsAway(t), 'stopped');
      assert.match(refused, /\*\*\*.*; check (the token in|the user, and the password in|user and password)/);
      if (lacks !== undefined) assert.match(await screenOf(t, await lacks.start(t), 'stopped'), lacks.command);
    });
  }
}
