/**
 * Whether the time of a 401 reveals the names of deployments: `node --import tsx test/bench/refusals.ts`.
 *
 * Asks a service in another process, over one kept connection, for each kind of refusal in random order, and prints
 * the quartiles of each. Kinds whose requests have the same length can be compared; a client knows its own requests.
 */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { limits as standardLimits } from '../../src/config/limits.ts';
import { readConfig } from '../../src/config/options-of-service.ts';
import { newToken } from '../../src/deployments/tokens.ts';
import { startService } from '../../src/service.ts';
import { createNotices } from '../../src/telemetry/log.ts';

const { values, positionals } = parseArgs({
  options: { rounds: { type: 'string', default: '20000' }, tokens: { type: 'string', default: '20' } },
  allowPositionals: true,
});
const WARM_UP_ROUNDS = 2_000;

const wrong = newToken().token;
/** The deployment `prod` has one token, `many` has more, and `nope` does not exist. */
const kinds: readonly { name: string; deployment: string; token: string | undefined }[] = [
  { name: 'unknown deployment, wrong token', deployment: 'nope', token: wrong },
  { name: 'deployment with 1 token, wrong token', deployment: 'prod', token: wrong },
  { name: `deployment with ${values.tokens} tokens, wrong token`, deployment: 'many', token: wrong },
  { name: 'unknown deployment, no token', deployment: 'nope', token: undefined },
  { name: 'deployment with 1 token, no token', deployment: 'prod', token: undefined },
  { name: `deployment with ${values.tokens} tokens, no token`, deployment: 'many', token: undefined },
];

const [folderToServe] = positionals;
if (folderToServe === undefined) await measure();
else await serve(folderToServe);

/** The service, without 429, which would be answered earlier. */
async function serve(folder: string): Promise<void> {
  const read = readConfig(['--port', '0', '--data', join(folder, 'data'), '--deployments', join(folder, 'file')], {});
  if (read.kind === 'invalid') throw new Error(read.problems.join('\n'));
  const notices = createNotices('warn', false, (line) => process.stderr.write(line));
  const limits = { ...standardLimits, failuresMax: Number.POSITIVE_INFINITY };
  const service = await startService(read.config, notices, { limits });
  process.send?.(service.url);
  process.once('disconnect', () => void service.stop());
}

async function measure(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'assetlog-refusals-'));
  const tokens = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ name: `token ${index}`, sha256: newToken().digest }));
  const deployments = [
    { name: 'prod', tokens: tokens(1) },
    { name: 'many', tokens: tokens(Number(values.tokens)) },
  ];
  writeFileSync(join(folder, 'file'), JSON.stringify({ deployments }));
  const child = fork(fileURLToPath(import.meta.url), [folder]);
  try {
    const [url] = await once(child, 'message');
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    await sample(socket, WARM_UP_ROUNDS);
    report(await sample(socket, Number(values.rounds)));
    socket.destroy();
  } finally {
    child.disconnect();
    await once(child, 'exit');
    rmSync(folder, { recursive: true });
  }
}

/** @returns the microseconds of each request, by kind, sorted */
async function sample(socket: Socket, rounds: number): Promise<number[][]> {
  const requests = kinds.map(({ deployment, token }) => {
    const header = token === undefined ? '' : `Service-Cloud-Api-Token: ${token}\r\n`;
    return Buffer.from(`POST /${deployment}/report_asset_check/x HTTP/1.1\r\nHost: localhost\r\n${header}\r\n`);
  });
  const times: number[][] = kinds.map(() => []);
  const order = kinds.map((_, index) => index);
  for (let round = 0; round < rounds; round += 1) {
    order.sort(() => Math.random() - 0.5);
    for (const kind of order) {
      const started = process.hrtime.bigint();
      socket.write(requests[kind] ?? '');
      const [reply] = await once(socket, 'data'); // a small reply arrives in one piece
      times[kind]?.push(Number(process.hrtime.bigint() - started) / 1_000);
      if (!reply.toString('latin1', 0, 12).endsWith(' 401')) throw new Error(String(reply));
    }
  }
  return times.map((some) => some.sort((one, other) => one - other));
}

function report(times: readonly (readonly number[])[]): void {
  const quartiles = times.map((some) => [0.25, 0.5, 0.75].map((share) => some[Math.floor(some.length * share)] ?? 0));
  for (const [kind, [first, median, third]] of quartiles.entries()) {
    console.log(`${kinds[kind]?.name}: ${median?.toFixed(2)} µs (${first?.toFixed(2)} to ${third?.toFixed(2)})`);
  }
  for (const token of [wrong, undefined]) {
    const alike = quartiles.filter((_, kind) => kinds[kind]?.token === token);
    const medians = alike.map(([, median = 0]) => median);
    const widths = alike.map(([first = 0, , third = 0]) => third - first);
    const largest = Math.max(...medians) - Math.min(...medians);
    const share = largest / Math.max(...widths);
    const what = token === undefined ? 'without a token' : 'with a wrong token';
    console.log(
      `largest difference ${what}: ${largest.toFixed(2)} µs, ${(share * 100).toFixed(1)} % of the quartiles' distance`,
    );
  }
}
