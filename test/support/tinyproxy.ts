/** Debian's tinyproxy as a process, and a way to it: an address of this machine that is not loopback. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { listenOn } from '../world/http-server.ts';
import { freePort, newFolder } from './program.ts';
import { eventually, missing } from './tools.ts';

/** What is on the loopback interface is never reached through a proxy. */
export const outerAddress = Object.values(networkInterfaces())
  .flatMap((all) => all ?? [])
  .find(({ family, internal }) => family === 'IPv4' && !internal)?.address;

export const withoutTinyproxy =
  missing('tinyproxy is not installed', 'tinyproxy', ['-v']) ||
  (outerAddress === undefined && 'this machine has no address besides loopback');

const PASSWORD = 'correct-horse-battery';

/** Starts a proxy that asks for a login. It ends with the test. */
export async function startTinyproxy(t: TestContext) {
  const folder = newFolder(t);
  const port = await freePort(t);
  const [file, logFile] = [join(folder, 'tinyproxy.conf'), join(folder, 'log')];
  const lines = [`Port ${port}`, 'Listen 127.0.0.1', 'Timeout 60', 'LogLevel Info', `LogFile "${logFile}"`];
  writeFileSync(file, [...lines, 'MaxClients 50', `BasicAuth me ${PASSWORD}`, ''].join('\n'));
  const child = spawn('tinyproxy', ['-d', '-c', file], { stdio: 'ignore' });
  const closed = once(child, 'close');
  const stop = async () => {
    child.kill('SIGKILL');
    await closed;
  };
  t.after(stop);
  const url = (password = PASSWORD) => `http://me:${password}@127.0.0.1:${port}`;
  await eventually('tinyproxy listens', () => answers(port));
  return { name: `http://127.0.0.1:${port}`, url, password: PASSWORD, stop, log: () => readFileSync(logFile, 'utf8') };
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

/** Leads what arrives at the machine's other address to a port of loopback. */
export async function startOuter(
  t: TestContext,
  port: number,
  create: (listener: (socket: Socket) => void) => Server = createServer,
) {
  const all = new Set<Socket>();
  const server = create((socket) => {
    const other = connect(port, '127.0.0.1');
    socket.pipe(other).pipe(socket);
    for (const one of [socket, other]) {
      all.add(one);
      one
        .on('error', () => {})
        .on('close', () => {
          all.delete(one);
          socket.destroy();
          other.destroy();
        });
    }
  });
  const end = () => {
    server.close();
    for (const socket of all) socket.destroy();
  };
  t.after(end);
  return { port: await listenOn(t, server, outerAddress), end };
}
