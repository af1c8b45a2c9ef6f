/**
 * What common clients do when the service fails once: the table of the handbook. Each reports one observation, with a 503 or a lost
 * reply at the first attempt, on a used connection if the client keeps one.
 */

import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { fault } from '../support/faults.ts';
import { page } from '../support/handbook.ts';
import { newFolder, program, startService } from '../support/program.ts';
import { HANG_MS, missing, pythonText } from '../support/tools.ts';

const python = process.env['ASSETLOG_TEST_PYTHON'] ?? 'python3';
const reference = process.env['ASSETLOG_TEST_REFERENCE'];
/** The Python beside the reference has Dagster. */
const dagsterPython = reference === undefined ? python : join(dirname(reference), 'python');
const PATH = '/report_asset_observation/a';

const REQUESTS = pythonText('report-requests.py');
const DAGSTER = pythonText('report-dagster.py');
const GO = `package main

import (
	"io"
	"net/http"
	"os"
)

func main() {
	url, key := os.Args[1], os.Args[2]
	reply, err := http.Get(url + "/livez")
	if err == nil {
		io.Copy(io.Discard, reply.Body)
		reply.Body.Close()
		request, _ := http.NewRequest("POST", url+"${PATH}", nil)
		if key != "" {
			request.Header.Set("Idempotency-Key", key)
		}
		reply, err = http.DefaultClient.Do(request)
	}
	if err != nil || reply.StatusCode != 200 {
		os.Exit(1)
	}
}
`;
const FETCH = `
const [url, key] = process.argv.slice(1);
await (await fetch(url + '/livez')).text();
const headers = key === '' ? {} : { 'Idempotency-Key': key };
if (!(await fetch(url + '${PATH}', { method: 'POST', headers })).ok) process.exit(1);
`;

const curl = (...more: string[]) => ({
  without: isMissing('curl', '--version'),
  command: (url: string, key: string) => [
    ...['curl', '-sSf', '--max-time', '10', '--retry', '3', ...more, '-X', 'POST'],
    ...(key === '' ? [] : ['-H', `Idempotency-Key: ${key}`]),
    url + PATH,
  ],
});
const requests = (more: string) => ({
  without: isMissing(python, '-c', 'import requests'),
  command: (url: string, key: string) => [python, '-c', REQUESTS, url, key, more],
});

interface Client {
  /** Why it cannot be tried here, or false. */
  readonly without: string | false;
  /** @param key of the request, empty for none. @returns the program that sends one report */
  readonly command: (url: string, key: string, t: TestContext) => readonly string[];
}

/** By the name in the table; two clients that behave alike share a row. */
const clients: Readonly<Record<string, readonly Client[]>> = {
  '`curl --retry 3`': [curl()],
  '`curl --retry 3 --retry-all-errors`': [curl('--retry-all-errors')],
  'Python `requests`, also with `Retry(3, status_forcelist=[503])`': [requests('None'), requests('{}')],
  '`requests` with `Retry(3, status_forcelist=[503], allowed_methods=None)`': [requests('{"allowed_methods": None}')],
  'Go `net/http`': [{ without: isMissing('go', 'version'), command: (url, key, t) => [goProgram(t), url, key] }],
  'Node `fetch`': [
    { without: false, command: (url, key) => [process.execPath, '--input-type=module', '-e', FETCH, url, key] },
  ],
  'a Dagster asset with `RetryPolicy(max_retries=3)` that calls `requests`': [
    {
      without: isMissing(dagsterPython, '-c', 'import dagster, requests'),
      command: (url, key) => [dagsterPython, '-c', DAGSTER, url, key],
    },
  ],
  '`assetlog report`': [
    {
      without: false,
      command: (url, key) => [
        ...[...program, 'report', 'observation', 'a', '--url', url],
        ...(key === '' ? [] : ['--idempotency-key', key]),
      ],
    },
  ],
};

function isMissing(command: string, ...args: string[]): string | false {
  return missing(`${command} or a library of the client is missing`, command, args);
}

function goProgram(t: TestContext): string {
  const folder = newFolder(t);
  writeFileSync(join(folder, 'main.go'), GO);
  const built = spawnSync('go', ['build', '-o', 'client', 'main.go'], {
    cwd: folder,
    encoding: 'utf8',
    timeout: HANG_MS,
  });
  assert.equal(built.status, 0, built.stderr);
  return join(folder, 'client');
}

/** The rows of the table: the client, and the results with a 503, with a lost reply, and with a lost reply and a key. */
const rows = page('test-recipes')
  .split('\n| client | 503 with')[1]
  ?.split('\n\n')[0]
  ?.split('\n')
  .slice(2)
  .map((line) => line.split('|').map((cell) => cell.trim()));

test('the table of the handbook has a row for each client', () => {
  assert.deepEqual(
    rows?.map(([, name]) => name),
    Object.keys(clients),
  );
});

for (const [, name = '', ...cells] of rows ?? []) {
  for (const [index, { without, command }] of (clients[name] ?? []).entries()) {
    test(`${name} does what the table of the handbook lists (${index + 1})`, { skip: without }, async (t) => {
      const service = await startService(t, { args: ['--test'] });
      const once = async (effect: object, key = '') => {
        await ask(service.url, 'POST', '/test/reset');
        await ask(service.url, 'PUT', '/test/faults', { faults: [fault({}, effect, { times: 1 })] });
        const [file = '', ...args] = command(service.url, key, t);
        const env = { ...process.env, no_proxy: '*', NODE_TEST_CONTEXT: undefined, NODE_V8_COVERAGE: undefined };
        const failed = await promisify(execFile)(file, args, { timeout: HANG_MS, env }).then(
          () => false,
          ({ killed }) => !killed || assert.fail('the client runs too long'),
        );
        return `${service.events().length}${failed ? ', failed' : ''}`;
      };
      const found = [
        await once({ status: 503, retry_after: 1 }),
        await once({ drop: 'reply' }),
        await once({ drop: 'reply' }, 'load-17'),
      ];
      assert.deepEqual(
        found,
        cells.slice(0, 3).map((cell) => cell.replaceAll('*', '')),
      );
    });
  }
}

async function ask(url: string, method: string, path: string, body?: object): Promise<void> {
  const sent =
    body === undefined ? {} : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } };
  const reply = await fetch(url + path, { method, ...sent });
  assert.equal(reply.status, 200, await reply.text());
}
