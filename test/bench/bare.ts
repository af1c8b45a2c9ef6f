/** The ceiling: node:http alone, which reads the body and answers `{}`, with `--parse` after JSON.parse. Prints its address. */

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const isParsing = process.argv.includes('--parse');
const server = createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on('data', (chunk) => {
    if (isParsing) chunks.push(chunk);
  });
  req.on('end', () => {
    if (isParsing) JSON.parse(Buffer.concat(chunks).toString());
    res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '2' });
    res.end('{}');
  });
});
server.listen(0, '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
