/** The destination ClickHouse with the engine of a current server. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clickhouseDdl } from '../../src/forward/targets/clickhouse/ddl.ts';
import { startClickhouse, withoutClickhouse } from '../support/clickhouse.ts';

test('the SQL of forward ddl makes the table and the view, also a second time', {
  skip: withoutClickhouse,
}, async (t) => {
  const engine = await startClickhouse(t);
  await engine.run(clickhouseDdl(false));
  await engine.run(clickhouseDdl(false));
  assert.deepEqual(
    await engine.rows("SELECT name, engine FROM system.tables WHERE database = 'assets' ORDER BY name"),
    [
      ['events', 'ReplacingMergeTree'],
      ['latest', 'View'],
    ],
  );
  assert.deepEqual(await engine.rows('SELECT * FROM assets.latest'), []);
});
