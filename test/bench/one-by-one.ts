/** Reports of one client, one after the other: what something else costs them is in their times. */

import { once } from 'node:events';
import { Agent, request } from 'node:http';

/** @param base the URL above the endpoints @returns how long each report took, in ms @throws Error where one is not recorded */
export async function reportOneByOne(
  base: string,
  seconds: number,
  headers: Readonly<Record<string, string>> = {},
): Promise<number[]> {
  const agent = new Agent({ keepAlive: true });
  const times: number[] = [];
  const endMs = performance.now() + 1_000 * seconds;
  do {
    const startMs = performance.now();
    const sent = request(`${base}/report_asset_observation/a`, { method: 'POST', agent, headers }).end();
    const [reply] = await once(sent, 'response');
    if (reply.statusCode !== 200) throw new Error(`a report got ${reply.statusCode}`);
    await once(reply.resume(), 'end');
    times.push(performance.now() - startMs);
  } while (performance.now() < endMs);
  agent.destroy();
  return times;
}
