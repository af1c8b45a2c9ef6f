/** The options of the commands that call a service: its URL, its token, and how long to wait for it. */

import type { ProxyRoute, TokenHeader } from '../../client/connection.ts';
import { readToken } from '../../config/files.ts';
import { limits } from '../../config/limits.ts';
import { version } from '../../config/names.ts';
import { duration, option, type ValuesOf } from '../../config/options.ts';
import { options } from '../../config/options-of-service.ts';
import type { Output } from './command.ts';

const LOCAL = 'http://127.0.0.1:3000';

export const serviceOptions = {
  url: option<string>({
    argument: 'URL',
    help: 'base URL, with the path prefix and the deployment, if any',
    initial: LOCAL,
    parse: (text) => {
      if (/^https?:\/\//.test(text) && URL.canParse(text)) return text;
      throw new Error(`is not a URL such as ${LOCAL} or https://assets.example/prod`);
    },
  }),
  /** Empty if there is none. */
  tokenFile: {
    ...options.deployments,
    help: 'file that contains the token and nothing else',
  },
  tokenHeader: { ...options.tokenHeader, help: 'name of the header with the token' },
  /** In ms. */
  timeout: option<number>({
    argument: 'TIME',
    help: 'how long one attempt may take: connecting, sending and the whole reply',
    standard: `${limits.attemptMs / 1000}s`,
    initial: limits.attemptMs,
    parse: (text) => {
      const ms = duration(text);
      if (ms === 0) throw new Error('leaves no time for an attempt; write a duration such as 500ms or 10s');
      return ms;
    },
  }),
  /** In ms. */
  retryFor: option<number>({
    argument: 'TIME',
    help: 'how long to retry while the service is unavailable, for each report; 0 for one attempt',
    standard: '60s',
    initial: 60_000,
    parse: duration,
  }),
};

export type ServiceOptions = ValuesOf<typeof serviceOptions>;

/** For a command that reads a folder, or reads a service if `--url` is given. */
export const readingOptions = {
  ...serviceOptions,
  // Its variable applies only if no folder is given: see `chooseJournal`.
  url: {
    ...serviceOptions.url,
    help: 'read a service instead of a folder: its base URL; ASSETLOG_URL if there is no journal',
    initial: '',
    flagOnly: true as const,
  },
  timeout: {
    ...serviceOptions.timeout,
    help: 'with --url: how long to wait for a connection, a reply or its next part',
  },
  retryFor: {
    ...serviceOptions.retryFor,
    help: 'with --url: how long to retry while the service is unavailable',
  },
};

/** The common parts of each request of a command, and its route through a proxy. */
export interface Caller {
  readonly headers: Readonly<Record<string, string>>;
  readonly token: TokenHeader | undefined;
  readonly route: ProxyRoute | undefined;
}

/**
 * @returns the headers of each request, its token, and the proxy that the environment names for the URL
 * @throws Error if the file contains no valid token, or a variable no valid proxy; the message contains neither
 */
export async function callerOf(
  { url, tokenFile, tokenHeader }: Pick<ServiceOptions, 'url' | 'tokenFile' | 'tokenHeader'>,
  { complain }: Pick<Output, 'complain'>,
): Promise<Caller> {
  const headers = { 'User-Agent': `assetlog/${version}` };
  const isProxied = /^https?_proxy$/im.test(Object.keys(process.env).join('\n'));
  const route = isProxied ? (await import('../../client/proxy.ts')).proxyFor(new URL(url), process.env) : undefined;
  if (tokenFile === '') return { headers, token: undefined, route };
  const { token, exposed } = await readToken(tokenFile, limits);
  if (exposed) complain(`every user of this machine can read the token in ${tokenFile}; chmod 600 it`);
  return { headers, token: { name: tokenHeader, token }, route };
}
