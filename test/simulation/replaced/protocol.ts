/** `journal/lock/protocol.ts` for a simulation, whose machines have locks of their own: no process is asked how far a journal is durable. */

import type { Durable } from '../../../src/journal/lock/protocol.ts';

export * from '../../../src/journal/lock/protocol.ts';

export async function askHolder(): Promise<Durable> {
  return { kind: 'unsaid' };
}
