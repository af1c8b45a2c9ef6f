/** The first ten minutes, step by step from the page, with a program in the place of Dagster that reads the events once. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { shellWord } from '../../src/telemetry/printable.ts';
import { followGettingStarted } from '../support/getting-started.ts';
import { freePort, newFolder } from '../support/program.ts';
import { noTerminal } from '../support/terminal.ts';

const STAND_IN = `
const { readFileSync, writeFileSync } = require('node:fs');
const option = (name) => process.argv[process.argv.indexOf(name) + 1];
if (!readFileSync('assetlog_sensor.py', 'utf8').startsWith('# Dagster sensor of assetlog ')) process.exit(1);
const { ASSETLOG_URL: url, ASSETLOG_TOKEN_FILE: file } = process.env;
const headers = { Accept: 'application/json', 'Service-Cloud-Api-Token': readFileSync(file, 'utf8').trim() };
fetch(url + '/events?after_seq=0', { headers }).then((reply) => reply.text()).then((text) => {
  const { events, next_after_seq } = JSON.parse(text);
  writeFileSync(option('--to'), text);
  console.log('INFO - Serving dagster-webserver on http://127.0.0.1:' + option('-p') + ' in process 1');
  console.log('INFO - Sensor assetlog skipped: ' + events.length + ' events, up to seq ' + next_after_seq);
  setInterval(() => {}, 1000);
});
`;

test('getting started: each step prints what the page shows, and each event is in Dagster once', {
  skip: noTerminal(),
}, async (t) => {
  const folder = newFolder(t);
  const [script, found] = [join(folder, 'dagster.cjs'), join(folder, 'events.json')];
  writeFileSync(script, STAND_IN);
  const command = `exec ${[process.execPath, script].map((word) => shellWord(word)).join(' ')} "$@" --to ${shellWord(found)}`;
  await followGettingStarted(t, { port: await freePort(t), command }, async () => {
    const { events } = JSON.parse(readFileSync(found, 'utf8'));
    const metadata = events.map((event: { asset_key: string[]; metadata: object }) => [
      event.asset_key.join('/'),
      event.metadata,
    ]);
    assert.deepEqual(metadata, [['sensors/roof', { celsius: 21.5 }], ...[1, 2, 3].map((n) => ['sensors/roof', { n }])]);
  });
});
