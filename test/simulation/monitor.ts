/** Asks services each minute what they say about themselves, as monitoring does, and compares it with what is there. */

import { limits } from '../../src/config/limits.ts';
import { readStatus } from '../../src/forward/pipe/status.ts';
import type { Machine, MachineJournal } from './machine.ts';
import { isJournalFile } from './oracle/journal-view.ts';
import { lettersOf } from './oracle/letters-view.ts';
import type { Oracle } from './oracle/oracle.ts';

/** A disk that works again has been tried by then, and a service that began has opened its journal. */
const QUIET_MS = 20_000;
/** Why a service is not ready though its disk works. */
const WAITS = /has not received event|must have each event|the service is stopping/;

interface ListedSource {
  readonly id: string;
  readonly last_seq: number;
  readonly lag_events: number | null;
  readonly missing_events: number | null;
  readonly state: string | null;
}

/**
 * @param nowMs virtual time
 * @param isAtRest whether nothing is left to do: then all that is said is right, else it may be a little late
 */
export async function askServices(
  machines: readonly Machine[],
  oracle: Oracle,
  nowMs: number,
  isAtRest: boolean,
): Promise<void> {
  const ask = async (machine: Machine) => {
    const isLocal = machine.config.deployments === '';
    const [journal] = machine.journals as [MachineJournal];
    const problems: (string | undefined)[] = [];
    if (machine.isListening) problems.push(await wrongReadiness(machine, nowMs, isAtRest));
    if (machine.isListening && isLocal)
      problems.push(wrongMetrics(oracle, journal, (await machine.ask('/metrics')).body, isAtRest));
    // It reads the disk, which takes time.
    if (machine.isListening && isLocal) problems.push(await wrongSources(oracle, journal, isAtRest));
    if (isAtRest) for (const one of machine.journals) problems.push(await wrongStatus(oracle, one));
    const problem = problems.find((one) => one !== undefined);
    if (problem !== undefined) oracle.breaks(`${machine.name} says ${problem}`);
  };
  // A process that ends never answers, and none waits for it.
  await Promise.all(machines.map(ask));
}

async function wrongReadiness(machine: Machine, nowMs: number, isAtRest: boolean): Promise<string | undefined> {
  const { status, body } = await machine.ask('/readyz');
  const troubledMs = Math.max(machine.disk.troubledMs, machine.process?.startedMs ?? 0);
  const isQuiet = isAtRest || (troubledMs < nowMs - QUIET_MS && !WAITS.test(body));
  return status !== 200 && isQuiet ? `that it is not ready: ${body}` : undefined;
}

/** Each journal is listed at its last event or later ones that are lost; at rest none is behind. */
async function wrongSources(oracle: Oracle, hub: MachineJournal, isAtRest: boolean): Promise<string | undefined> {
  const lastAt = oracle.lastAt(hub);
  const shown = oracle.shownAt(hub);
  const { changes } = shown;
  const reply = await hub.machine.ask('/sources').catch(() => undefined); // its disk may fail
  if (reply?.status !== 200) return isAtRest ? `${reply?.status} for /sources` : undefined;
  const { sources }: { readonly sources: readonly ListedSource[] } = JSON.parse(reply.body);
  for (const [id, seq] of lastAt) {
    const listed = sources.find((source) => source.id === id);
    const isBehind = isAtRest && (listed?.lag_events ?? 0) > 0;
    if (listed === undefined || listed.last_seq < seq || isBehind)
      return `${JSON.stringify(listed)} of ${id}, and event ${seq} of it is there`;
  }
  // A request that arrived in between may be in the list or not.
  const wrong = sources.find(({ id, state }) => shown.states.has(id) && shown.states.get(id) !== state);
  if (wrong !== undefined && shown.changes === changes)
    return `that ${wrong.id} is ${wrong.state}, and its last request says ${shown.states.get(wrong.id)}`;
  for (const { id, last_seq, missing_events } of isAtRest ? sources : []) {
    const missing = missing_events === null ? null : (oracle.missingAt(hub, id, last_seq) ?? missing_events);
    if (missing !== missing_events) return `that ${missing_events} events of ${id} are missing, and ${missing} are`;
  }
  return undefined;
}

/** What was answered with 200 is counted, and nothing that is not durable; at rest all is, and nothing is waited for. */
function wrongMetrics(oracle: Oracle, journal: MachineJournal, text: string, isAtRest: boolean): string | undefined {
  const { disk } = journal;
  const view = oracle.viewOf(journal);
  const said = (name: string) => Number(new RegExp(`^assetlog_${name} (.*)$`, 'm').exec(text)?.[1]);
  const least = isAtRest ? view.lastSeq : Math.max(0, ...[...view.acknowledged].filter((seq) => view.isThere(seq)));
  const last = said('last_seq');
  if (!isAtRest && said('journal_files') === 0) return undefined; // the journal is not open yet
  if (last < least || last > view.lastSeq) return `that its last event is ${last}, and it is ${view.lastSeq}`;
  if (!isAtRest) return undefined;
  const right: Record<string, number> = {
    journal_files: disk.names().filter(isJournalFile).length,
    ...{ queue_bytes: 0, ack_waiting: 0, streams: 0, ready: 1 },
  };
  for (const name of oracle.destinationsOf(journal).keys()) {
    right[`forward_lag_events\\{destination="${name}"\\}`] = 0;
    right[`forward_dead_letters\\{destination="${name}"\\}`] = lettersOf(disk, name).openCount;
  }
  const wrong = Object.entries(right).find(([name, value]) => said(name) !== value);
  return wrong && `${said(wrong[0])} as ${wrong[0]}, and it is ${wrong[1]}`;
}

/** `forward status --json`: each destination is at the last event, and nothing is left to do but for its dead letters. */
async function wrongStatus(oracle: Oracle, journal: MachineJournal): Promise<string | undefined> {
  const { disk, machine } = journal;
  const all = await readStatus(disk.afterCrash(), null, 'unsaid', limits);
  const { lastSeq } = oracle.viewOf(journal);
  // A hosted journal is closed when nothing uses it.
  for (const name of oracle.destinationsOf(journal).keys()) {
    const status = all.find((one) => one.name === name);
    if (status === undefined && lastSeq === 0) continue;
    const right = {
      ...{ seq: lastSeq, last_seq: lastSeq, lag_events: 0, lag_seconds: 0, state: 'idle', why: null, reason: null },
      ...{ next_try: null, dead_letters: lettersOf(disk, name).openCount },
    };
    for (const [member, value] of Object.entries(right)) {
      const shown = status?.[member as keyof typeof right];
      if (shown !== value) return `${shown} as ${member} of ${name} of ${machine.name}, and it is ${value}`;
    }
  }
  return undefined;
}
