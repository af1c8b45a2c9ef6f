/**
 * The other thing one reaches for: node:http and a table in SQLite, which syncs its log at every commit.
 * Arguments: the database's folder, and `--count` to print how many rows it has and end. Prints its address.
 */

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

/** As far as it is used here: the types at hand are those of a Node without it. */
interface Sqlite {
  readonly DatabaseSync: new (
    path: string,
  ) => {
    exec(sql: string): void;
    prepare(sql: string): { run(...values: string[]): unknown; get(): Record<string, unknown> | undefined };
  };
}

const [folder = '.', mode] = process.argv.slice(2);
const { DatabaseSync } = process.getBuiltinModule('node:sqlite') as unknown as Sqlite;
const database = new DatabaseSync(join(folder, 'events.db'));

function serve(): void {
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
  database.exec(
    `CREATE TABLE event (seq INTEGER PRIMARY KEY, id TEXT, time TEXT, type TEXT, asset_key TEXT, "partition" TEXT,
       description TEXT, data_version TEXT, metadata TEXT)`,
  );
  const insert = database.prepare(
    `INSERT INTO event (id, time, type, asset_key, "partition", description, data_version, metadata)
       VALUES (?, ?, 'AssetMaterialization', ?, ?, ?, ?, ?)`,
  );
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk) => chunks.push(chunk));
    req.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString());
      const { asset_key: key, partition, description, data_version: version, metadata } = body;
      const time = new Date().toISOString();
      insert.run(randomUUID(), time, JSON.stringify(key), partition, description, version, JSON.stringify(metadata));
      res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '2' });
      res.end('{}');
    });
  });
  server.listen(0, '127.0.0.1', () => {
    console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  });
}

if (mode === '--count') console.log(database.prepare('SELECT count(*) AS rows FROM event').get()?.['rows']);
else serve();
