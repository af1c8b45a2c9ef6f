/** `assetlog healthcheck`: what a container runs to ask its service whether it can take reports. */

import { request } from 'node:http';
import { hostOf } from './access.ts';
import { defineCommand, exitCodes } from './command.ts';
import { limits, options } from './config.ts';

export const healthcheck = defineCommand(
  {
    summary: 'ask a running service whether it can take reports',
    about:
      'Asks /readyz of the service that runs with the same options or environment. Ends with 0 when reports are taken,\n' +
      'else with 1 and the reason on standard error. Made for container health checks.',
    options: { host: options.host, port: options.port, pathPrefix: options.pathPrefix },
    notes: ['Exit codes: 0 takes reports, 1 does not, 2 flags or configuration.'],
  },
  async ({ host, port, pathPrefix }, { complain }) => {
    const everyInterface: Record<string, string> = { '0.0.0.0': '127.0.0.1', '::': '::1' };
    const url = `http://${hostOf(everyInterface[host] ?? host)}:${port}${pathPrefix}/readyz`;
    try {
      const { status, body } = await get(url);
      if (status === 200) return exitCodes.done;
      complain(`${url} answers ${status}: ${body}`);
    } catch (error) {
      complain(`${url} does not answer: ${(error as Error).message}`);
    }
    return exitCodes.unexpected;
  },
);

function get(url: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { agent: false, timeout: limits.healthcheckMs }, (reply) => {
      let body = '';
      reply.setEncoding('utf8').on('data', (chunk) => {
        body += chunk;
      });
      reply.on('end', () => resolve({ status: reply.statusCode ?? 0, body }));
      reply.on('error', reject);
    });
    asked.on('timeout', () => asked.destroy(new Error(`nothing came within ${limits.healthcheckMs} ms`)));
    asked.on('error', reject);
    asked.end();
  });
}
