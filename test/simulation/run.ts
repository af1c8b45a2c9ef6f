/**
 * `npm run test:simulation`: one life in each process. A life that breaks a promise is shrunk to the few faults and clients that it
 * needs.
 */

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { root } from '../support/program.ts';
import { each } from '../support/tools.ts';
import { bundleSimulation, type Lived, live } from './bundle.ts';
import { Total } from './runner/expected.ts';
import { tryMutants } from './runner/mutants.ts';
import { isPart, listed, optionsOf, type Replay } from './runner/replay.ts';
import { idleReason, renewLives, type SavedLife, savedLives } from './runner/saved.ts';
import { shrink } from './runner/shrink.ts';

const HELP = `npm run test:simulation: services, a network and disks in virtual time, with faults and an oracle.

  npm run test:simulation                          the saved lives, then new ones, for two minutes on two cores
  npm run test:simulation -- --seconds 600         the same for longer
      --at-once 1        on one core
  npm run test:simulation -- --seed 7              that one life
      --steps 100000     steps with faults, before all heals
      --only 3,9,12      only these faults of its plan
      --clients NAME,…   only these clients
      --from 60000       only from that virtual millisecond on, with empty disks and the faults of its plan after that
      --reorder          with disks that write sectors in any order
      --trace            its last 200 steps and log lines on standard error
      --shrink 600       a life that breaks a promise is shrunk for so many seconds, not 60; also a part of one
  npm run test:simulation -- --saved               the saved lives alone
      --renew [WORD]     with the defect of each: finds another life where the saved one does not notice it any more
  npm run test:simulation -- --digests             one life, twice on each Node that ASSETLOG_TEST_NODE_… names
  npm run test:simulation -- --mutants [WORD]      breaks each promise on purpose, and says which lives notice it

Prints a JSON line for each life, and one for all. Ends with 1 if a promise is broken, and with 2 if the simulation itself went
wrong: also if a saved life is idle, or if no life of a whole run has met a fault or a state that it should.
test/simulation/NOTES.md says what is simulated, and what is not.
`;

const STEPS = 100_000;
const SECONDS = 120;
const SHRINK_SECONDS = 60;
/** With fewer lives, what a run has not met is chance. */
const JUDGED_LIVES = 40;
/** Lives in one run with seeds from one commit. */
const SEEDS_APART = 100_000;

/** Lives at a time. */
let atOnce = 2;
/** How long a life that broke a promise is shrunk, as an option says. */
let shrinkSeconds: number | undefined;
/** The life whose digests are compared. */
const DIGEST: Replay = { seed: 1, steps: 20_000 };

const bundle = join(root, 'coverage/simulation/simulation.mjs');
const liveOf = (replay: Replay, msMax?: number): Promise<Lived> =>
  live(bundle, optionsOf(replay), msMax === undefined ? {} : { msMax });

/** Lives a life, and prints its line. @returns what became of it */
async function liveOne(replay: Replay, more: Readonly<Record<string, unknown>> = {}): Promise<Lived> {
  const lived = await liveOf(replay);
  const { outcome, code } = lived;
  if (outcome === undefined || code === 2) {
    // It has no digest, and the reason is on standard error.
    print({ seed: replay.seed, ok: false, code, ...more, replay: optionsOf(replay).join(' ') });
    return lived;
  }
  if (outcome.ok) print({ ...outcome, ...more });
  else {
    const { planned: _, lived: _clients, ...rest } = outcome;
    const seconds = shrinkSeconds ?? (isPart(replay) ? 0 : SHRINK_SECONDS);
    const untilMs = performance.now() + 1000 * seconds;
    const shrunk = await shrink(replay, outcome, (one, msMax) => liveOf(one, msMax), 1000 * seconds);
    const isOver = seconds > 0 && performance.now() >= untilMs;
    const gaveUp = `shrinking stopped after ${seconds} s: --shrink SECONDS gives it more`;
    print({ ...rest, ...more, replay: optionsOf(shrunk).join(' '), ...(isOver && { gave_up: gaveUp }) });
  }
  return lived;
}

function print(line: unknown): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** @returns the worst of several exit codes: a broken promise is worse than a simulation that went wrong */
function worst(codes: readonly number[]): number {
  return codes.includes(1) ? 1 : Math.max(0, ...codes);
}

/** @returns the exit code */
async function liveSaved(saved: readonly SavedLife[], total: Total): Promise<number> {
  const codes: number[] = [];
  await each(saved, atOnce, async ({ defect, replay, reaches }) => {
    const lived = await liveOne(replay, { saved: defect });
    total.add(lived.outcome);
    const idle = idleReason(lived.outcome, reaches);
    if (idle !== undefined) process.stdout.write(`idle: ${defect}: ${idle}; see NOTES.md, saved lives\n`);
    codes.push(lived.code, idle === undefined ? 0 : 2);
  });
  return worst(codes);
}

/**
 * The saved lives, then new ones. What no life has met is printed. It fails the run that has many whole lives, as that of CI has, and
 * no shorter one, such as one of a few seconds or on a busy machine.
 * @returns the exit code
 */
async function liveMany(steps: number, seconds: number, reorders: boolean | undefined): Promise<number> {
  const untilMs = performance.now() + 1000 * seconds;
  const total = new Total();
  const codes = [await liveSaved(savedLives(), total)];
  const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' });
  const first = (Number.parseInt(commit.slice(0, 7), 16) % SEEDS_APART) * SEEDS_APART;
  let seed = first;
  const lives = async () => {
    while (performance.now() < untilMs) {
      const lived = await liveOne({ seed: seed++, steps, reorders });
      total.add(lived.outcome);
      codes.push(lived.code);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lives));
  const missing = total.missing();
  print({ from_seed: first, lives: codes.length - 1, ...total.counts(), missing });
  if (missing.length > 0 && steps >= STEPS && codes.length > JUDGED_LIVES) codes.push(2);
  return worst(codes);
}

/** @returns the exit code: 1 if not all digests are the same */
function compareDigests(): number {
  const named = Object.entries(process.env).flatMap(([name, path]) =>
    name.startsWith('ASSETLOG_TEST_NODE_') ? [path ?? ''] : [],
  );
  const nodes = named.length === 0 ? [process.execPath] : named;
  const digests = new Set<string>();
  for (const node of [...nodes, ...nodes]) {
    const text = execFileSync(node, [bundle, ...optionsOf(DIGEST)], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
    const { digest } = JSON.parse(text) as Lived['outcome'] & { readonly digest: string };
    process.stdout.write(`${digest} with ${node}\n`);
    digests.add(digest);
  }
  return digests.size === 1 ? 0 : 1;
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      seed: { type: 'string' },
      steps: { type: 'string', default: `${STEPS}` },
      only: { type: 'string' },
      clients: { type: 'string' },
      from: { type: 'string' },
      reorder: { type: 'boolean' },
      shrink: { type: 'string' },
      seconds: { type: 'string', default: `${SECONDS}` },
      trace: { type: 'boolean' },
      saved: { type: 'boolean' },
      renew: { type: 'boolean' },
      mutants: { type: 'boolean' },
      digests: { type: 'boolean' },
      'at-once': { type: 'string', default: `${atOnce}` },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const steps = Number(values.steps);
  atOnce = Number(values['at-once']);
  if (values.shrink !== undefined) shrinkSeconds = Number(values.shrink);
  if (values.mutants) return tryMutants(positionals.join(' '), steps);
  await bundleSimulation(bundle);
  if (values.digests) return compareDigests();
  if (values.saved)
    return values.renew ? renewLives(bundle, positionals.join(' ')) : liveSaved(savedLives(), new Total());
  if (values.seed === undefined) return liveMany(steps, Number(values.seconds), values.reorder);
  const only = values.only === undefined ? undefined : listed(values.only).map(Number);
  const clients = values.clients === undefined ? undefined : listed(values.clients);
  const fromMs = values.from === undefined ? undefined : Number(values.from);
  const replay: Replay = { seed: Number(values.seed), steps, only, clients, reorders: values.reorder, fromMs };
  if (!values.trace) return (await liveOne(replay)).code;
  const { code, text } = await live(bundle, [...optionsOf(replay), '--trace']);
  process.stdout.write(text);
  return code;
}

process.exitCode = await main();
