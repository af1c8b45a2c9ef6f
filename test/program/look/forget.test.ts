/** `assetlog assets forget`: ends the state of assets that are gone, beside a service and without one. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { agedJournal } from '../../support/aged-events.ts';
import { runRows } from '../../support/command-rows.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { newFolder, startService } from '../../support/program.ts';
import { record } from '../../support/report.ts';

const OLD = ['100 observed tmp/a', '90 observed tmp/b', '80 observed w', '1 observed tmp/b'];

const FORGOTTEN = '1 asset is forgotten; its events are kept';

test('without a service an asset is forgotten at once, and counted again from its next event', async (t) => {
  const data = agedJournal(t, OLD);
  await runRows({ DATA: data }, [
    ['assets forget --data $DATA --key-prefix tmp --stale 2d', 0, FORGOTTEN],
    ['assets $DATA', 0, ['tmp/b', 'w']],
    ['assets forget w --data $DATA', 0, FORGOTTEN],
    ['assets $DATA', 0, ['tmp/b']],
    ['events $DATA --key w', 0, [3]],
  ]);
  const service = await startService(t, { data });
  await record(service, 'observation/w');
  const reply = await (await fetch(`${service.url}/assets?key_prefix=w`)).text();
  assert.match(reply, /^\{"assets":\[\{"asset_key":\["w"\],"alive":"[^"]+","observation":\{"count":1,"seq":5,/);
});

test('a running service forgets an asset, which stays forgotten after SIGKILL [forget-2]', async (t) => {
  const data = agedJournal(t, OLD);
  const service = await startService(t, { data });
  await runRows({ DATA: data, URL: service.url }, [
    ['assets forget tmp/a --data $DATA', 0, FORGOTTEN],
    ['assets --url $URL', 0, ['tmp/b', 'w']],
  ]);
  assert.equal(readdirSync(data).includes('assets.forget'), false);
  await runRows({ DATA: data }, [['assets forget w --data $DATA', 0, FORGOTTEN]]); // without an event since
  await service.kill('SIGKILL');
  const { url } = await startService(t, { data });
  await runRows({ DATA: data, URL: url }, [['assets', 0, ['tmp/b']]], { endings: ['--url $URL', '--data $DATA'] });
});

test('in hosted mode an asset is forgotten in the folder of its deployment', async (t) => {
  const data = newFolder(t);
  const { args, tokenOf } = writeDeployments(t, ['prod']);
  const service = await startService(t, { data, args });
  const headers = { 'Service-Cloud-Api-Token': tokenOf('prod') };
  for (const key of ['a', 'b', 'c']) await record({ url: `${service.url}/prod` }, `observation/${key}`, { headers });
  await runRows({ PROD: join(data, 'prod') }, [
    ['assets forget a --data $PROD', 0, FORGOTTEN],
    ['assets $PROD', 0, ['b', 'c']],
  ]);
});
