/** A proxy between a client and a service. It gets the whole URL of a request, or with TLS only the name of the host (CONNECT). */

import http from 'node:http';
import type { ConnectionOptions } from 'node:tls';
import { isInNetwork } from '../config/client-address.ts';
import { decode } from '../telemetry/masked.ts';
import { isLocal, PROXY_WANTED, readProxyUrl } from './base-url.ts';
import { PROXY_REFUSED, type ProxyRoute } from './connection.ts';

/** @param given a text that `readProxyUrl` accepts @returns the route of one client */
export function openProxy(given: string): ProxyRoute {
  const { host, hostname, port, username, password } = readProxyUrl(given)!;
  const login = Buffer.from(`${decode(username)}:${decode(password)}`).toString('base64');
  const headers: Record<string, string> = username === '' ? {} : { 'Proxy-Authorization': `Basic ${login}` };
  const place = { hostname: bare(hostname), port: port || 80 };
  const name = `the proxy http://${host}`;
  /** The request to the proxy, and its progress. */
  let asked: http.ClientRequest | undefined;
  let stage = name;

  function connect(options: ConnectionOptions, done: (error: Error | null, socket?: unknown) => void): void {
    const { host: target = '' } = options;
    const path = `${target.includes(':') ? `[${target}]` : target}:${options.port}`;
    const own = { method: 'CONNECT', path, headers: { Host: path, ...headers }, agent: false };
    const request = http.request({ ...place, ...own });
    asked = request;
    stage = name;
    request.on('socket', (socket) =>
      socket.once('connect', () => {
        stage = `${name}, asked for ${path}`;
      }),
    );
    request.on('connect', ({ statusCode: status = 0 }, socket) => {
      asked = undefined;
      if (status < 300) {
        stage = `through ${name}`;
        return done(null, process.getBuiltinModule('node:tls').connect({ ...options, socket }));
      }
      socket.destroy();
      // 5xx: the proxy does not reach the service, which can change.
      done(status < 500 ? refused(status) : new Error(`it answers ${status}`));
    });
    request.on('error', done);
    request.end();
  }

  return {
    name,
    secrets: username === '' ? [] : [decode(password), login],
    connect,
    options: ({ protocol, host, href }, own) =>
      protocol === 'https:'
        ? own
        : { ...own, ...place, path: href, headers: { ...(own.headers as object), Host: host, ...headers } },
    refusal: ({ protocol }, { statusCode: status = 0, headers: { via, 'content-type': type = '' } }) => {
      // If the service is an assetlog, it sends the reason as JSON.
      const isOfProxy = status === 407 || (status === 403 && via !== undefined && !type.includes('json'));
      return protocol === 'http:' && isOfProxy ? refused(status) : undefined;
    },
    prefix: ({ protocol }, sent) => `${sent ? `through ${name}` : protocol === 'https:' ? stage : name}: `,
    close: () => asked?.destroy(),
  };
}

function refused(status: number): Error {
  const reason = `it answers ${status}; check its login, and what it permits`;
  return Object.assign(new Error(reason), { code: PROXY_REFUSED });
}

/** @returns a host name of a URL without the brackets of an IPv6 address */
function bare(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, '');
}

/**
 * Finds the proxy for a URL in `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or their lower-case forms, which take
 * precedence.
 * @throws Error, without the value, if a variable is not a proxy's URL
 */
export function proxyFor(url: URL, env: NodeJS.ProcessEnv): ProxyRoute | undefined {
  const variable = url.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  const value = (name: string) => env[name.toLowerCase()] ?? env[name] ?? '';
  const given = value(variable).trim();
  if (given === '' || isLocal(url.hostname) || isExcepted(url, value('NO_PROXY'))) return undefined;
  const text = given.includes('://') ? given : `http://${given}`;
  if (readProxyUrl(text) !== undefined) return openProxy(text);
  throw new Error(`${variable} ${PROXY_WANTED}`);
}

/**
 * Works like in curl and Go. No name is looked up, and a text in another form is ignored.
 * @param list names, which also stand for the names below them, and addresses, with or without a port; networks, such as
 *   `10.0.0.0/8` and `fd00::/8`; or `*`
 */
function isExcepted({ hostname, protocol, port }: URL, list: string): boolean {
  const address = bare(hostname);
  const host = `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`;
  return list.split(/[\s,]+/).some((one) => {
    const name = one.toLowerCase().replace(/^\*?\./, '');
    const isName = (own: string) => own === name || own.endsWith(`.${name}`);
    return name === '*' || (name !== '' && [host, hostname, address].some(isName)) || isInNetwork(address, name);
  });
}
