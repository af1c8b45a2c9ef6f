/**
 * `npm run test:soak`: services that run for minutes beside failing neighbours. Processor time is compared, never wall time, so
 * that a busy machine changes no result.
 */

import { execFileSync } from 'node:child_process';
import { once, setMaxListeners } from 'node:events';
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { root, type Scope } from '../support/program.ts';
import { each } from '../support/tools.ts';
import { type Scene, scenes } from './scenes.ts';
import { type Subject, World } from './world.ts';

const SECONDS = 300;
const SECONDS_MIN = 30;
const PROGRESS_MS = 25_000;
const MEMORY_MS = 1_000;

/** The first part of a scene is its warm-up; the second and the last part are compared. */
const PARTS = 6;
const COST_TIMES_MAX = 2;
const CORE_MAX = 0.5;
/** V8's young generation grows on demand, up to three times 8 MiB, and some old garbage waits for its collection. */
const GROWTH_MIB_MAX = 32;
/** `/assets` gets a 503 after 5 s while the journal is read for it, which needs several times as long on a busy machine. */
const UNANSWERED_MS_MAX = 30_000;
const HELP = `npm run test:soak: services that run for minutes among neighbours that fail, and must not become slower or larger.

  npm run test:soak                             all scenes, one after the other: ${Math.ceil((scenes.length * (SECONDS + 15)) / 60)} minutes
  npm run test:soak -- --scene slow hub         these scenes
      --seconds 60       how long each lasts (${SECONDS}; at least ${SECONDS_MIN})
      --at-once 2        scenes side by side (1)

Scenes:
${scenes.map(({ name, about }) => `  ${name.padEnd(13)}  ${about}`).join('\n')}

Asked of each service of a scene:
  - an event costs at most ${COST_TIMES_MAX} times the processor time in the last sixth of the scene that it cost in the second one;
  - its resident memory grows by at most ${GROWTH_MIB_MAX} MiB between these two;
  - it takes at most ${CORE_MAX} of a core;
  - no kind of reading is without an answer for ${UNANSWERED_MS_MAX / 1000} s, and no report is refused unless the scene wants it;
  - SIGTERM ends it with exit code 0 in time;
  - afterwards \`verify\` says good, each report that got 200 is recorded once, or was removed by retention, and is at the hub, if
    there is one.

Prints the figures of each scene, and last how many passed. The exit code is 1 if one failed. Needs Linux.
ASSETLOG_TEST_PREPARED=1 leaves out the build of dist/server.js. ASSETLOG_TEST_RESULTS names a file for the results as JSON.
`;

interface Outcome {
  readonly scene: string;
  readonly figures: string;
  readonly problems: readonly string[];
}

async function outcomeOf({ name, lay }: Scene, seconds: number, interrupted: AbortSignal): Promise<Outcome> {
  return inScope(async (scope) => {
    const world = new World(scope, seconds, interrupted);
    scope.after(showProgress(name, world));
    const play = async () => {
      await lay(world);
      await watch(world);
      await world.finish();
    };
    const problem = await Promise.race([ended(interrupted), play().catch((error: Error) => `${error.stack}`)]);
    if (problem !== undefined) return { scene: name, figures: 'broken off', problems: [...world.problems, problem] };
    return judge(name, world);
  });
}

/** Runs `act`, and then the functions passed to `after`, last first. */
async function inScope<Result>(act: (scope: Scope) => Promise<Result>): Promise<Result> {
  const releases: (() => unknown)[] = [];
  try {
    return await act({ after: (release) => void releases.unshift(release) });
  } finally {
    for (const release of releases) await release();
  }
}

async function ended(interrupted: AbortSignal): Promise<string> {
  if (!interrupted.aborted) await once(interrupted, 'abort');
  return 'it was interrupted';
}

/** @returns a function that ends the display */
function showProgress(name: string, world: World): () => void {
  const beganMs = performance.now();
  const timer = setInterval(() => {
    const seconds = Math.round((performance.now() - beganMs) / 1_000);
    const memory = world.subjects.map((subject) => `${subject.name} ${subject.memory.at(-1)?.mib ?? 0} MiB`);
    console.log(`${name}: ${seconds} s, ${world.sent.answered} replies, ${memory.join(', ')}`);
  }, PROGRESS_MS);
  return () => clearInterval(timer);
}

/** Measures at the ends of the parts. */
async function watch(world: World): Promise<void> {
  const beganMs = performance.now();
  for (let part = 1; part <= PARTS && !world.isOver; ) {
    await world.pause(MEMORY_MS);
    world.noteMemory();
    if (performance.now() - beganMs < (part * world.seconds * 1_000) / PARTS) continue;
    await world.measure();
    part += 1;
  }
}

interface Figures {
  /** Milliseconds of processor time per event. */
  readonly cost: readonly [first: number, last: number];
  readonly mib: readonly [first: number, last: number];
  readonly core: number;
}

/**
 * A busy machine lets fewer events through, but the cost of readers stays. So a later window counts as if it had at least
 * as many events as the first one.
 */
function figuresOf({ measured, memory }: Subject): Figures {
  const between = (from: number, to: number, eventsMin = 0) => {
    const [a, b] = [measured[from]!, measured[to]!];
    const [ms, wallMs] = [b.processorMs - a.processorMs, b.atMs - a.atMs];
    const events = Math.max(b.events - a.events, eventsMin);
    const samples = memory.filter(({ atMs }) => atMs > a.atMs && atMs <= b.atMs).map(({ mib }) => mib);
    const mib = samples.reduce((sum, one) => sum + one, 0) / samples.length;
    return { events, cost: ms / events, core: ms / wallMs, mib };
  };
  const first = between(0, 1);
  const last = between(PARTS - 2, PARTS - 1, first.events);
  return { cost: [first.cost, last.cost], mib: [first.mib, last.mib], core: between(0, PARTS - 1).core };
}

function judge(scene: string, world: World): Outcome {
  const problems = [...world.problems];
  const figures: string[] = [];
  for (const subject of world.subjects) {
    if (subject.isRestarted) {
      figures.push(`${subject.name} ${subject.end}`);
      continue;
    }
    const { cost, mib, core } = figuresOf(subject);
    const costs = `${cost[0].toFixed(2)} to ${cost[1].toFixed(2)} ms an event`;
    const memory = `${mib[0].toFixed(0)} to ${mib[1].toFixed(0)} MiB`;
    const share = `${(100 * core).toFixed(1)} % of a core`;
    figures.push(`${subject.name} ${costs}, ${memory}, ${share}, ${subject.end}`);
    if (!(cost[1] <= COST_TIMES_MAX * cost[0])) problems.push(`${subject.name}: an event costs more: ${costs}`);
    if (!(mib[1] <= mib[0] + GROWTH_MIB_MAX)) problems.push(`${subject.name}: its memory grows: ${memory}`);
    if (!(core <= CORE_MAX)) problems.push(`${subject.name}: it uses ${share}`);
  }
  const worst = world.readings.toSorted((a, b) => b.worstMs - a.worstMs);
  figures.push(`worst reading ${(worst[0]!.worstMs / 1_000).toFixed(1)} s (${worst[0]!.what})`);
  for (const { what, worstMs, good, instead } of worst) {
    if (worstMs > UNANSWERED_MS_MAX)
      problems.push(`${what}: no answer for ${(worstMs / 1_000).toFixed(1)} s but ${instead}`);
    else if (good === 0) problems.push(`${what}: no answer but ${instead}`);
  }
  const { answered, wantedPerSecond } = world.sent;
  figures.push(`${(answered / world.seconds).toFixed(0)} of ${wantedPerSecond} requests/s`);
  return { scene, figures: figures.join('; '), problems };
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      scene: { type: 'string', multiple: true, default: [] },
      seconds: { type: 'string', default: `${SECONDS}` },
      'at-once': { type: 'string', default: '1' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const [seconds, atOnce] = [Number(values.seconds), Number(values['at-once'])];
  const named = [...values.scene, ...positionals];
  const unknown = named.filter((name) => !scenes.some((scene) => scene.name === name));
  const wrong = [
    ...unknown.map((name) => `there is no scene ${name}; write one of ${scenes.map((scene) => scene.name).join(', ')}`),
    ...(seconds >= SECONDS_MIN ? [] : [`--seconds has to be a number of at least ${SECONDS_MIN}`]),
    ...(Number.isInteger(atOnce) && atOnce > 0 ? [] : ['--at-once has to be a whole number above 0']),
    ...(process.platform === 'linux'
      ? []
      : ['the soak reads processor time and memory from /proc, which only Linux has']),
  ];
  for (const problem of wrong) console.error(problem);
  if (wrong.length > 0) return 2;
  const interrupted = new AbortController();
  setMaxListeners(0, interrupted.signal); // each scene adds some
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());
  if (process.env['ASSETLOG_TEST_PREPARED'] !== '1')
    execFileSync('npm', ['run', '--silent', 'bundle'], { cwd: root, stdio: 'inherit' });
  const chosen = scenes.filter(({ name }) => named.length === 0 || named.includes(name));
  const outcomes: Outcome[] = [];
  await each(chosen, atOnce, async (scene) => {
    if (interrupted.signal.aborted) return;
    console.log(`${scene.name}: starts; ${scene.about}`);
    const outcome = await outcomeOf(scene, seconds, interrupted.signal);
    print(outcome);
    outcomes.push(outcome);
  });
  return report(chosen, outcomes);
}

function report(chosen: readonly Scene[], outcomes: readonly Outcome[]): number {
  console.log('');
  const failed: string[] = [];
  for (const { name: scene } of chosen) {
    const notPlayed: Outcome = { scene, figures: 'not played', problems: ['the soak was interrupted before it'] };
    const outcome = outcomes.find((one) => one.scene === scene) ?? notPlayed;
    print(outcome);
    if (outcome.problems.length > 0) failed.push(scene);
  }
  const passed = chosen.length - failed.length;
  const results = process.env['ASSETLOG_TEST_RESULTS'];
  if (results !== undefined) {
    const entries = failed.map((name) => ({ file: 'soak', name }));
    writeFileSync(results, JSON.stringify({ passed, failed: entries, skipped: [], filesMs: {} }));
  }
  console.log(`${passed} passed, ${failed.length} failed`);
  return failed.length === 0 ? 0 : 1;
}

function print({ scene, figures, problems }: Outcome): void {
  console.log([`${scene}: ${problems.length === 0 ? 'passed' : 'FAILED'}; ${figures}`, ...problems].join('\n  '));
}

process.exitCode = await main();
