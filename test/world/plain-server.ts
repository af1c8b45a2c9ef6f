/** The model of a plain upstream on a real socket. */

import { freePort, type Scope } from '../support/program.ts';
import type { Scripted } from './http.ts';
import { type Got, type ScriptedServer, startScripted } from './http-server.ts';
import { type PlainEvent, PlainModel } from './plain-upstream.ts';

export interface PlainUpstream extends ScriptedServer {
  readonly events: readonly PlainEvent[];
  /** The answer to a report that is not recorded; undefined: the report is recorded. */
  answer: (event: PlainEvent) => Scripted | undefined;
}

export async function startPlainUpstream(t: Scope): Promise<PlainUpstream> {
  const model = new PlainModel();
  const answer = (got: Got) => model.answer(got, (event) => upstream.answer(event));
  const server = await startScripted(t, answer, { port: await freePort(t) });
  const upstream: PlainUpstream = Object.assign(server, { events: model.events, answer: () => undefined });
  return upstream;
}
