/**
 * A service that one writes in an afternoon: fastify checks the report by a schema, and a line is appended for each.
 * Arguments: the journal's folder, and `--sync` to sync each line before its reply. Prints its address.
 */

import { randomUUID } from 'node:crypto';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import fastify from 'fastify';

const [folder = '.', mode] = process.argv.slice(2);
const file = await open(join(folder, 'events.jsonl'), 'a');
const app = fastify({ bodyLimit: 1024 * 1024 });

const schema = {
  body: {
    type: 'object',
    required: ['asset_key'],
    properties: {
      asset_key: { type: 'array', items: { type: 'string', minLength: 1 }, minItems: 1 },
      partition: { type: 'string' },
      description: { type: 'string' },
      data_version: { type: 'string' },
      metadata: { type: 'object' },
    },
  },
};

app.post('/report_asset_materialization/', { schema }, async ({ body }) => {
  const event = { id: randomUUID(), time: new Date(), type: 'AssetMaterialization', ...(body as object) };
  await file.appendFile(`${JSON.stringify(event)}\n`);
  if (mode === '--sync') await file.datasync();
  return {};
});

console.log(`listening on ${await app.listen({ host: '127.0.0.1', port: 0 })}`);
