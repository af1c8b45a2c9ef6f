/** Hostile events, in Dagster's daemon and web server: the history of each asset is readable, and later events arrive. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readStorage, startDaemon, versions, writeSensor } from '../support/dagster.ts';
import { startService } from '../support/program.ts';
import { historyAtReference, startReference } from '../support/reference.ts';
import { record } from '../support/report.ts';
import { eventually, HANG_MS, missing } from '../support/tools.ts';

const deep = (levels: number, value: string) => '{"a":'.repeat(levels) + value + '}'.repeat(levels);

/** The text of a metadata value, by what is hostile about it. */
const VALUES: Readonly<Record<string, string>> = {
  'a class': '{"__class__": "AssetKey", "path": ["a"]}',
  'a class that Dagster does not know': '{"__class__": "Unknown"}',
  'an enumeration': '{"__enum__": "AssetCheckSeverity.ERROR"}',
  'a set': '[{"__set__": [1]}]',
  'a mapping': '{"__mapping_items__": [[1, 2]]}',
  'a class in a type': '{"type": "json", "raw_value": {"__class__": "X"}}',
  'a class as a type': '{"type": {"__class__": "X"}, "raw_value": 1}',
  'a class in depth': deep(100, '{"__class__": "X"}'),
  depth: deep(100, '1'),
  'a lone surrogate': '"\\ud800"',
  'a lone surrogate in a text': '{"type": "text", "raw_value": "\\udfff"}',
  'a lone surrogate in a link': '"https://a/\\ud800"',
  'a lone surrogate in JSON': '{"\\ud800": ["\\udfff"]}',
  'a NUL': '"\\u0000"',
  'a whole number of 5,000 digits': '9'.repeat(5_000),
  'a whole number of 19 digits': '9'.repeat(19),
  'a whole number that is typed': `{"type": "int", "raw_value": ${'9'.repeat(19)}}`,
  'a number that no double holds': '1e400',
  'the same, typed': '{"type": "float", "raw_value": 1e400}',
  'a time after all times': '{"type": "timestamp", "raw_value": 1e300}',
  'a time that is none': '{"type": "timestamp", "raw_value": "NaN"}',
  'an asset without parts': '{"type": "asset", "raw_value": ""}',
  'an asset with a NUL': '{"type": "asset", "raw_value": "a/\\u0000/\\ud800"}',
  'a run that never was': '{"type": "dagster_run", "raw_value": "\\u0000"}',
  'a table':
    '{"type": "table", "raw_value": {"records": [{"a": "\\ud800"}], "schema": [{"name": "a", "type": "\\ud800"}]}}',
  'a table with other cells': '{"type": "table", "raw_value": {"records": [{"a": {"b": [1]}}, {}], "schema": []}}',
  'a schema':
    '{"type": "table_schema", "raw_value": {"columns": [{"name": "a", "type": "t", "tags": {"b": "c"}, "constraints": {"other": ["x"]}}]}}',
  'constraints of another type':
    '{"type": "table_schema", "raw_value": {"columns": [{"name": "a", "type": "t", "constraints": {"nullable": 5, "other": "x"}}]}}',
  'a lineage':
    '{"type": "table_column_lineage", "raw_value": {"deps_by_column": {"a": [{"asset_key": "x", "column_name": "b"}]}}}',
  'an empty lineage': '{"type": "table_column_lineage", "raw_value": {"deps_by_column": {"": []}}}',
  'a type of a later Dagster': '{"type": "pool", "raw_value": null}',
  'a path': '{"type": "path", "raw_value": "\\ud800"}',
  'a notebook': '{"type": "notebook", "raw_value": "\\ud800"}',
  Markdown: '{"type": "md", "raw_value": "\\ud800"}',
};
/** The text of a report without a key. */
const BODIES: Readonly<Record<string, string>> = {
  'a name of metadata': '"metadata": {"__class__": 1, "": 2, "\\u0000": 3}',
  'a name with a lone surrogate': '"metadata": {"\\ud800": 3}',
  'a time of an update after all times':
    '"metadata": {"dagster/last_updated_timestamp": {"type": "timestamp", "raw_value": 1e300}}',
  'a time of an update in the year 1':
    '"metadata": {"dagster/last_updated_timestamp": {"type": "timestamp", "raw_value": -62135596800}}',
  'the first time': '"event_time": "0001-01-01T00:00:00Z"',
  'the last time': '"event_time": "9999-12-31T23:59:59.999999999Z"',
  'a partition': '"partition": "\\u0000\\u202e/|{}"',
  'names of Dagster':
    '"metadata": {"dagster/partition_row_count": "x", "dagster/row_count": "x", "dagster/column_schema": "x", "dagster/code_references": "x", "dagster/relation_identifier": 5, "dagster/uri": 5, "dagster/column_lineage": {"a": 1}, "dagster/table_name": 5, "dagster/storage_kind": 5}',
};
const REPORTS: readonly (readonly [name: string, body: string])[] = [
  ...Object.entries(VALUES).map(([name, value]) => [name, `"metadata": {"m": ${value}}`] as const),
  ...Object.entries(BODIES),
];

for (const { name, python, webServer, skip } of versions) {
  test(name, { skip: skip || missing(`${webServer} is missing`, webServer, ['--version']) }, async (all) => {
    const service = await startService(all);
    const reference = await startReference(all, webServer);
    writeSensor(reference.home);
    const env = { ASSETLOG_URL: service.url, ASSETLOG_TICK_SECONDS: '1' };
    await startDaemon(all, { python, home: reference.home, env });
    let seq = 0;
    const report = async (what: string, body: string) => {
      await record(service, what, { body });
      seq += 1;
    };
    const allThere = () => eventually('all events', () => readStorage(reference.home).cursor === seq, HANG_MS);

    await all.test(
      'after each hostile event the history of its asset is readable, and later events arrive',
      async () => {
        for (const [at, [, body]] of REPORTS.entries())
          for (const kind of ['materialization', 'observation', 'check']) {
            const check = kind === 'check' ? '"check_name": "c", "passed": false, ' : '';
            await report(`${kind}/`, `{"asset_key": ["hostile", "${at}"], ${check}${body}}`);
          }
        await allThere();
        await report('observation/after', '{}');
        await allThere();
        for (const [at, [what]] of REPORTS.entries()) {
          const history = await historyAtReference(reference.port, ['hostile', String(at)], 'c');
          assert.deepEqual(
            history.map(({ length }) => length),
            [1, 1, 1],
            what,
          );
        }
        const [, after] = await historyAtReference(reference.port, ['after'], 'c');
        assert.equal(after?.length, 1);
        const [, , alarms] = await historyAtReference(reference.port, ['assetlog'], 'is_complete');
        assert.deepEqual([alarms, readStorage(reference.home).failures], [[], []]);
      },
    );
  });
}
