/** `npm run test:simulation`: one life in each process. A life that breaks a promise is shrunk to the few faults that it needs. */

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { root } from '../support/program.ts';
import { bundleSimulation, type Lived, live } from './bundle.ts';

const HELP = `npm run test:simulation: services, a network and disks in virtual time, with faults and an oracle.

  npm run test:simulation                          new lives for 110 s, on two cores
  npm run test:simulation -- --seconds 600         the same for longer
  npm run test:simulation -- --seed 7              that one life
      --steps 100000     steps with faults, before all heals
      --only 3,9,12      only these faults of its plan
      --trace            its last 200 steps and log lines on standard error

Prints a JSON line for each life. Ends with 1 if a promise is broken, and with 2 if the simulation itself went wrong.
test/simulation/NOTES.md says what is simulated, and what is not.
`;

const STEPS = '100000';
const SECONDS = '110';
const AT_ONCE = 2;
const SHRINK_MS = 60_000;
/** Lives in one run with seeds from one commit. */
const SEEDS_APART = 100_000;

interface Replay {
  readonly seed: number;
  readonly steps: number;
  /** The faults of the plan that happen; all if it is undefined. */
  readonly only?: readonly number[] | undefined;
}

const bundle = join(root, 'coverage/simulation/simulation.mjs');

function argsOf({ seed, steps, only }: Replay): string[] {
  return ['--seed', `${seed}`, '--steps', `${steps}`, ...(only === undefined ? [] : ['--only', only.join(',')])];
}

/** @returns the sentence about the broken promise without its numbers, by which a smaller life is known to break the same one */
function promiseOf({ text }: Lived): string | undefined {
  return JSON.parse(text).broken?.replace(/[\da-f-]*\d[\da-f-]*/g, '#');
}

/** Leaves out steps, then faults, as long as the same promise breaks (delta debugging), for at most `SHRINK_MS`. */
async function shrink(found: Replay, broken: Lived): Promise<Replay> {
  const untilMs = performance.now() + SHRINK_MS;
  const promise = promiseOf(broken);
  const breaks = async (replay: Replay) => {
    const lived = await live(bundle, argsOf(replay));
    return lived.code === 1 && promiseOf(lived) === promise;
  };
  const { steps, planned } = JSON.parse(broken.text);
  let best: Replay = { ...found, steps: Math.min(found.steps, steps), only: planned };
  if (!(await breaks(best))) return found;
  for (let size = Math.ceil(best.only!.length / 2); size >= 1 && performance.now() < untilMs; ) {
    let isSmaller = false;
    for (let at = 0; at < best.only!.length && performance.now() < untilMs; ) {
      const only = best.only!.toSpliced(at, size);
      if (await breaks({ ...best, only })) {
        best = { ...best, only };
        isSmaller = true;
      } else at += size;
    }
    if (!isSmaller || size > best.only!.length) size = size === 1 ? 0 : Math.ceil(size / 2);
  }
  return best;
}

/** @returns the exit code */
async function liveOne(replay: Replay, isWhole: boolean): Promise<number> {
  const lived = await live(bundle, argsOf(replay));
  if (lived.code !== 1 || !isWhole) {
    process.stdout.write(lived.text);
    return lived.code;
  }
  const shrunk = argsOf(await shrink(replay, lived)).join(' ');
  process.stdout.write(`${JSON.stringify({ ...JSON.parse(lived.text), replay: shrunk })}\n`);
  return 1;
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string' },
      steps: { type: 'string', default: STEPS },
      only: { type: 'string' },
      seconds: { type: 'string', default: SECONDS },
      trace: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return 0;
  }
  await bundleSimulation(bundle);
  const steps = Number(values.steps);
  if (values.trace) {
    const { code, text } = await live(bundle, process.argv.slice(2));
    process.stdout.write(text);
    return code;
  }
  if (values.seed !== undefined) {
    const only = values.only
      ?.split(',')
      .filter((text) => text !== '')
      .map(Number);
    return liveOne({ seed: Number(values.seed), steps, only }, only === undefined);
  }
  const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' });
  const first = (Number.parseInt(commit.slice(0, 7), 16) % SEEDS_APART) * SEEDS_APART;
  let seed = first;
  let worst = 0;
  const untilMs = performance.now() + 1000 * Number(values.seconds);
  const lives = async () => {
    while (performance.now() < untilMs) worst = Math.max(worst, await liveOne({ seed: seed++, steps }, true));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lives));
  process.stdout.write(`${seed - first} lives from seed ${first}\n`);
  return worst;
}

process.exitCode = await main();
