/** `assetlog healthcheck`: requests the readiness of a service, for a container's health check. */

import { openClient } from '../client/connection.ts';
import { exitCodes } from '../config/exit-codes.ts';
import { limits } from '../config/limits.ts';
import { options } from '../config/options-of-service.ts';
import { hostOf } from '../http/origin.ts';
import { defineCommand } from './cli/command.ts';

export const healthcheck = defineCommand(
  {
    summary: 'check whether a running service accepts reports',
    about:
      'Requests /readyz of the service that runs with the same options or environment. Exits with 0 if it is ready,\n' +
      'otherwise with 1 and the reason on standard error. For container health checks.',
    notes: [
      'Examples:',
      '  assetlog healthcheck --port 3000',
      '  HEALTHCHECK CMD ["node", "/server.js", "healthcheck"]    in a Containerfile that sets ASSETLOG_PORT',
      '',
      'Exit codes:',
      '  0 ready, 1 not ready or no reply, 2 flags or configuration',
    ],
    options: { host: options.host, port: options.port, pathPrefix: options.pathPrefix },
  },
  async ({ host, port, pathPrefix }, { complain }) => {
    const everyInterface: Record<string, string> = { '0.0.0.0': '127.0.0.1', '::': '::1' };
    const url = `http://${hostOf(everyInterface[host] ?? host)}:${port}${pathPrefix}/readyz`;
    const client = openClient('http:', limits);
    try {
      const { status, body } = await client.call(new URL(url), { method: 'GET', timeoutMs: limits.healthcheckMs });
      if (status === 200) return exitCodes.done;
      complain(`${url} answers ${status}: ${body.slice(0, SHOWN_CHARACTERS)}`);
    } catch (error) {
      complain(`${url} does not answer: ${(error as Error).message}`);
    } finally {
      client.close();
    }
    return exitCodes.unexpected;
  },
);

/** Limit for the shown part of the body, since the body might be the page of another server. */
const SHOWN_CHARACTERS = 300;
