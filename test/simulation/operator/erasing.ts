/** What an operator does who erases events, with the function of the command, and what is owed after that. */

import { limits } from '../../../src/config/limits.ts';
import { type EraseOrder, SeqSet } from '../../../src/journal/erase/order.ts';
import { verify } from '../../../src/journal/look/verify.ts';
import { erase } from '../../../src/service/erasing.ts';
import { createNotices } from '../../../src/telemetry/log.ts';
import { upTo } from '../../support/tools.ts';
import type { Chance } from '../../world/chance.ts';
import type { MachineJournal, Work } from '../machine.ts';
import type { Oracle } from '../oracle/oracle.ts';
import { linesThere, openLetters } from './checks.ts';

/** Of one erase. */
const EVENTS_MAX = 6;

/**
 * `assetlog erase --id …`, with the service stopped. Half of the erases that are interrupted are repeated, and half are left to the
 * next start of the service.
 * @param begins called when it begins
 * @param done called when it is done
 */
export function eraseWork(
  oracle: Oracle,
  journal: MachineJournal,
  chance: Chance,
  begins: () => void,
  done: () => void,
): Work {
  const { machine, folder } = journal;
  const isRepeated = chance.happens(0.5);
  let order: EraseOrder | undefined;
  return async (openDisk) => {
    if (!isRepeated) machine.work = undefined;
    if (order === undefined) {
      const seqs = chooseSeqs(oracle, journal, chance);
      if (seqs.length === 0) return;
      oracle.erases(journal, seqs);
      order = { time: new Date().toISOString(), all: false, seqs: SeqSet.of(seqs) };
      begins();
    }
    const parts = { disk: openDisk(folder), openDisk, notices: SILENT, limits, checkHeld: () => {} };
    await erase(parts, order);
    oracle.erased(journal);
    const { findings } = await verify(journal.disk.afterCrash(), limits);
    const damage = findings.find(({ decision }) => decision === 'refuse');
    if (damage !== undefined) oracle.breaks(`${journal.name} is damaged after an erase: ${damage.problem}`);
    done();
  };
}

/** @returns the seqs of some events that are not erased yet, often of those in a row, or of one with a dead letter */
function chooseSeqs(oracle: Oracle, journal: MachineJournal, chance: Chance): number[] {
  const there = linesThere(oracle, journal).filter(({ slot }) => !('erased' in slot));
  if (there.length === 0) return [];
  const count = chance.integer(1, EVENTS_MAX);
  // Few events have dead letters.
  const named = [...openLetters(oracle, journal).values()].flat();
  const lettered = there.findLastIndex(({ seq }) => named.includes(seq));
  const first = lettered !== -1 && chance.happens(0.5) ? lettered : chance.integer(0, there.length - 1);
  const isRange = chance.happens(0.5);
  const chosen = upTo(count).map((at) => (isRange || at === 1 ? there[first + at - 1] : chance.oneOf(there)));
  return [...new Set(chosen.flatMap((line) => line?.seq ?? []))];
}

const SILENT = createNotices('error', false, () => {});
