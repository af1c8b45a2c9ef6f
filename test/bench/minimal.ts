/**
 * What one writes by hand to learn what the work itself costs: parse the body, encode and chain a line, write the batch.
 * No check of anything, no HTTP rule, no sync, no file but one. Prints its address; the argument is a folder.
 */

import { randomUUID } from 'node:crypto';
import { openSync, write } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';

const file = openSync(join(process.argv.at(-1) ?? '.', 'events-00000000000000000001.jsonl'), 'w');
let waiting: { members: string; res: ServerResponse }[] = [];
let busy = false;
let position = 0;
let seq = 1;
let crc = 0;

const server = createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on('data', (chunk) => chunks.push(chunk));
  req.on('end', () => {
    const body = JSON.parse(Buffer.concat(chunks).toString());
    const { asset_key: key, partition, description, data_version: version, metadata } = body;
    const members = `"type":"AssetMaterialization","asset_key":${JSON.stringify(key)},"partition":${JSON.stringify(partition)},"description":${JSON.stringify(description)},"tags":{"data_version":${JSON.stringify(version)}},"metadata":${JSON.stringify(metadata)}`;
    waiting.push({ members, res });
    if (!busy) writeBatch();
  });
});

function writeBatch(): void {
  const batch = waiting;
  waiting = [];
  busy = batch.length > 0;
  if (!busy) return;
  const time = new Date().toISOString();
  let text = '';
  for (const { members } of batch) {
    const line = `{"seq":${seq},"id":"${randomUUID()}","time":"${time}",${members}`;
    crc = crc32(line, crc);
    text += `${line},"crc":"${crc.toString(16).padStart(8, '0')}"}\n`;
    seq += 1;
  }
  const bytes = Buffer.from(text);
  write(file, bytes, 0, bytes.length, position, (error) => {
    if (error) throw error;
    position += bytes.length;
    for (const { res } of batch) {
      res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '2' });
      res.end('{}');
    }
    writeBatch();
  });
}

server.listen(0, '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
process.on('SIGTERM', () => process.exit(0));
