/** The stages of `.ci/run` and `.ci/night`, from the longest to the shortest, so that two at a time end together. */

import type { ToolName } from './tools.ts';

export interface Stage {
  readonly name: string;
  readonly asks: string;
  /**
   * `always`: by day and at night. `changed`: at night, and by day if it was not green for the same inputs. `night`: at night only.
   * `day`: by day only. Random tests have their short form by day, and their long form at night.
   */
  readonly when: 'always' | 'changed' | 'night' | 'day';
  /** An npm script and its arguments, or the README's command in a fresh clone. */
  readonly command: readonly [script: string, ...args: string[]] | 'README';
  /** The files that can break it, besides `SHARED` of green.ts. The list can be incomplete, so at night all stages run. */
  readonly inputs: readonly string[];
  readonly tools: readonly ToolName[];
  /** Nothing runs beside it, since it measures memory or time. */
  readonly isAlone?: true;
}

export type Script = 'run' | 'night';

/** Whether a script has a stage. By day, a `changed` stage can still be left out. */
export function isOf(script: Script, { when }: Stage): boolean {
  return script === 'run' ? when !== 'night' : when !== 'day';
}

/** The test command of README.md; `main.ts` checks that the page has it. */
export const TEST_COMMAND = 'npm ci && npm test';

const ALL = ['src', 'test', 'bin', 'README.md'];
/** The code of all test processes, and of the program that they start. */
const SUPPORT = [
  'test/support',
  'test/python',
  'test/world',
  'src/server.ts',
  'src/service.ts',
  'src/service',
  'src/config',
];
const HTTP = ['src/http', 'src/event', ...SUPPORT];
const LINES = ['src/journal/line', 'src/event', ...SUPPORT];
const FORWARD = ['src/forward', 'src/client', 'src/journal/line', ...SUPPORT];

const shells = ['script', 'zsh', 'curl', 'jq', 'openssl', 'python3', 'strace', 'prlimit', 'ip', 'nginx'] as const;
const disks = ['strace', 'prlimit', 'mkfs.ext4', 'xfs_io', 'ip'] as const;

function programOn(version: '20' | '22' | '24' | '26', when: Stage['when']): Stage {
  return {
    name: `program-${version}`,
    asks: `the program's tests with the built file, on Node ${version}`,
    when,
    command: ['test:built'],
    inputs: ['src', 'test/program', 'test/python', 'test/support', 'test/world'],
    tools: [`node-${version}`, ...shells],
  };
}

/** A stage of `test:edges`. */
function edges(
  name: string,
  asks: string,
  words: readonly string[],
  more: Pick<Stage, 'when' | 'inputs' | 'tools'>,
): Stage {
  return { name, asks, command: ['test:edges', ...words.map((word) => `edges/${word}.test`)], ...more };
}

export const stages: readonly Stage[] = [
  {
    name: 'test',
    asks: `the README's test command, in a fresh clone: ${TEST_COMMAND}`,
    when: 'always',
    command: 'README',
    inputs: ALL,
    tools: shells,
  },
  {
    name: 'mutants',
    asks: 'mutants of the files that changed since the last green run, and 40 others',
    when: 'day',
    command: ['test:mutants', '--since', 'GREEN', '--others', '40'],
    inputs: ALL,
    tools: [...shells, ...disks, 'chromium'],
  },
  {
    name: 'simulation',
    asks: 'the saved lives, then new ones, for three minutes',
    when: 'day',
    command: ['test:simulation', '--seconds', '180', '--at-once', '1'],
    inputs: ALL,
    tools: [],
  },
  {
    name: 'lives',
    asks: 'the saved lives, then new ones for half an hour',
    when: 'night',
    command: ['test:simulation', '--seconds', '1800', '--at-once', '1'],
    inputs: ['src', 'test/simulation', 'test/support', 'test/world'],
    tools: [],
  },
  {
    name: 'soak',
    asks: 'ten scenes of five minutes: the cost of an event, memory, readings, the stop',
    when: 'night',
    command: ['test:soak', '--at-once', '3'],
    inputs: ['src', 'test/soak', 'test/support', 'test/world'],
    tools: [],
  },
  {
    name: 'coverage',
    asks: 'the long form of npm test, and the coverage with its thresholds',
    when: 'night',
    command: ['coverage'],
    inputs: ALL,
    tools: shells,
  },
  {
    name: 'mutants-all',
    asks: 'all mutants',
    when: 'night',
    command: ['test:mutants'],
    inputs: ALL,
    tools: [...shells, ...disks, 'chromium'],
  },
  programOn('20', 'always'),
  programOn('26', 'always'),
  programOn('22', 'night'),
  programOn('24', 'night'),
  {
    name: 'faults',
    asks: 'the order of calls, a power cut on ext4, full disks, and one that hangs',
    when: 'day',
    command: ['test:faults', 'faults/order', 'faults/power-cut', 'faults/full-disk', 'faults/injected'],
    inputs: ['src', 'test/faults', 'test/support', 'test/world'],
    tools: disks,
  },
  edges('page', 'the page for browsers, in Chromium', ['page', 'page-asset'], {
    when: 'always',
    inputs: ['src', 'test/edges'],
    tools: ['chromium'],
  }),
  edges('package', 'the package and a release, installed into new projects', ['package', 'release'], {
    when: 'always',
    inputs: ALL,
    tools: [],
  }),
  edges(
    'proxies',
    'nginx and HAProxy, with the examples of the handbook, in front of the service',
    ['nginx', 'haproxy'],
    {
      when: 'always',
      inputs: ['src', 'bin', 'test/edges'],
      tools: ['nginx', 'haproxy', 'openssl', 'systemd-analyze', 'ip'],
    },
  ),
  {
    name: 'engines',
    asks: 'real NATS servers and a real ClickHouse',
    when: 'changed',
    command: ['test:engines'],
    inputs: ['test/engines', 'bin', ...FORWARD],
    tools: ['go', 'nats', 'nats-old', 'nats-cli', 'clickhouse', 'nginx', 'openssl', 'python3'],
  },
  edges(
    'reference',
    'the reference beside the service, as a destination, and with the sensor that asks for events',
    [
      'reference',
      'report-reference',
      'forward-reference',
      'forward-upstream',
      'getting-started',
      'dagster',
      'dagster-daemon',
      'dagster-hostile',
      'dagster-refused',
    ],
    {
      when: 'changed',
      inputs: ['test/edges', 'test/README.md', 'bin/handbook/getting-started.md', 'src/commands', ...HTTP, ...FORWARD],
      tools: ['reference', 'dagster-old', 'postgresql', 'python3', 'script'],
    },
  ),
  edges('reference-own', "the reference's own tests of the three endpoints", ['reference-own'], {
    when: 'night',
    inputs: ['test/edges', ...HTTP],
    tools: ['reference', 'reference-source'],
  }),
  edges(
    'recipes',
    'the recipes of the pages, and what commands print: Python 3.8 to 3.13, Go, Java, databases, S3, Alertmanager, proxies',
    ['recipes', 'python', 'relay', 'printed', 'promtool'],
    {
      when: 'changed',
      inputs: [
        ...['test/edges', 'README.md', 'bin', 'src/test-mode', 'src/telemetry', ...LINES],
        ...['src/commands/printed', 'src/http/batch.ts', 'src/forward/alarms'],
      ],
      tools: [
        ...(['reference', 'dagster-old', 'recipes', 'python3', 'pythons', 'postgresql', 'promtool', 'go'] as const),
        ...(['javac', 'curl', 'jq', 'openssl', 'prometheus-alertmanager', 'tinyproxy'] as const),
      ],
    },
  ),
  edges('checkers', 'ruff, pyright and mypy on the programs that commands print', ['checkers'], {
    when: 'changed',
    inputs: ['test/edges/checkers.test.ts', 'src/commands/printed'],
    tools: ['python3', 'python-checkers'],
  }),
  edges('retries', 'reports that real clients lose and double while the service fails on purpose', ['retries'], {
    when: 'changed',
    inputs: ['test/edges', 'bin', 'src/test-mode', ...HTTP],
    tools: ['reference', 'recipes', 'go', 'curl'],
  }),
  edges('client', 'clients generated from the OpenAPI document', ['client'], {
    when: 'changed',
    inputs: ['test/edges', 'src/reading', 'src/forward/hub', 'src/test-mode', ...HTTP],
    tools: ['go', 'openapi-python-client', 'oapi-codegen'],
  }),
  edges('browsers', 'hostile pages in Chromium', ['browser', 'browser-reading'], {
    when: 'changed',
    inputs: ['test/edges', 'src/deployments', ...HTTP],
    tools: ['chromium', 'openssl'],
  }),
  edges('systemd', 'the units of the handbook', ['systemd'], {
    when: 'changed',
    inputs: ['test/edges', 'bin', 'src/commands', ...SUPPORT],
    tools: ['systemd-analyze', 'strace', 'ip'],
  }),
  edges(
    'container',
    'the steps of a container, and forwarders through nginx and a proxy',
    ['container', 'forward', 'proxy'],
    {
      when: 'changed',
      inputs: ['test/edges', 'bin', ...FORWARD],
      tools: ['nginx', 'openssl', 'ip', 'tinyproxy'],
    },
  ),
  edges('windows', "the program's day on Windows: Node 20 and 22 under Wine", ['windows'], {
    when: 'changed',
    inputs: [
      ...['test/edges', 'test/program/day', 'src/journal', 'src/deployments', 'src/test-mode', 'src/commands'],
      ...SUPPORT,
    ],
    tools: ['wine', 'windows'],
  }),
  edges('musl', "the program's day with a Node for musl", ['musl'], {
    when: 'night',
    inputs: ['test/edges', 'test/program/day', 'src'],
    tools: ['musl'],
  }),
  {
    name: 'digests',
    asks: 'a life has the same digest twice, and on the oldest and the newest Node',
    when: 'night',
    command: ['test:simulation', '--digests'],
    inputs: ['src', 'test/simulation', 'test/support', 'test/world'],
    tools: ['node-26', 'node-20'],
  },
  {
    name: 'faults-all',
    asks: 'all tests of a machine that fails below real processes',
    when: 'night',
    command: ['test:faults'],
    inputs: ['src', 'test/faults', 'test/support', 'test/world'],
    tools: disks,
    isAlone: true,
  },
];
