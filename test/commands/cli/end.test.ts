/** Ends of the process while a system call does not return: a FIFO without a writer blocks a thread like a disk that hangs. */

import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { extname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { IN_OTHER_PIDS, withoutPidNamespaces } from '../../support/machine.ts';
import { newFolder, root } from '../../support/program.ts';
import { HANG_MS, within } from '../../support/tools.ts';

/** The compiled source if the tests are compiled, so that a process needs no compiler. */
const ending = extname(import.meta.filename);
const source = join(import.meta.dirname, `../../../src/commands/cli/end${ending}`);
const loader = ending === '.ts' ? ['--import', import.meta.resolve('tsx')] : [];

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stderr: string;
}

/** Runs a script in which `hang` opens the FIFO, and calls `act` after its `ready`. @returns how the script ends */
async function runScript(
  t: TestContext,
  script: string,
  { fifo = newFifo(t), under = [] as readonly string[], act = (_child: ChildProcess) => {} } = {},
): Promise<Ended> {
  const head = `import { open } from 'node:fs';
    import { endBySignal, endWith } from ${JSON.stringify(source)};
    const hang = () => open(${JSON.stringify(fifo)}, () => {});
    const complain = (problem) => console.error(problem);
    const ready = () => console.log('ready');\n`;
  const node = [process.execPath, ...loader, '--input-type=module', '--eval'];
  const [command = '', ...args] = [...under, ...node, head + script];
  const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  t.after(() => child.kill('SIGKILL'));
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const closed = once(child, 'close');
  child.stdout.once('data', () => act(child));
  const [code, signal] = await within(`the end of ${script}`, HANG_MS, closed);
  return { code, signal, stderr };
}

function newFifo(t: TestContext): string {
  const fifo = join(newFolder(t), 'fifo');
  execFileSync('mkfifo', [fifo]);
  return fifo;
}

test('a process whose threads are idle ends with its exit code', async (t) => {
  assert.deepEqual(await runScript(t, 'endWith(5, 60_000, complain);'), { code: 5, signal: null, stderr: '' });
});

test('the exit waits for a system call that returns in time', async (t) => {
  const fifo = newFifo(t);
  const act = () => closeSync(openSync(fifo, 'w'));
  const ended = await runScript(t, 'hang(); endWith(5, 60_000, complain); ready();', { fifo, act });
  assert.deepEqual(ended, { code: 5, signal: null, stderr: '' });
});

test('a system call that does not return ends the process by SIGKILL after a while, which is logged', async (t) => {
  assert.deepEqual(await runScript(t, 'hang(); endWith(5, 100, complain);'), {
    code: null,
    signal: 'SIGKILL',
    stderr: 'a system call has not returned for 100 ms; the process ends by SIGKILL, and not with exit code 5\n',
  });
});

test('an end by a signal waits for nothing, even if the signal has handlers', async (t) => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const script = `process.on('${signal}', () => endBySignal('${signal}')); hang(); setInterval(ready, 100);`;
    const ended = await runScript(t, script, { act: (child) => child.kill(signal) });
    assert.deepEqual(ended, { code: null, signal, stderr: '' });
  }
});

test('the first process of a container, which cannot signal itself, ends too', {
  skip: withoutPidNamespaces,
}, async (t) => {
  const idle = await runScript(t, "endBySignal('SIGTERM');", { under: IN_OTHER_PIDS });
  assert.deepEqual(idle, { code: 1, signal: null, stderr: '' });
  const busy = await runScript(t, "hang(); endBySignal('SIGTERM');", { under: IN_OTHER_PIDS });
  assert.ok((busy.code ?? 0) > 128 || busy.signal !== null, `${busy.code} ${busy.signal}`);
});
