/** The completions that the shells themselves offer for a line. */

import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { newFolder, run } from '../../support/program.ts';
import { HANG_MS } from '../../support/tools.ts';

/** A line up to the cursor, and the completions of its last word. */
const offers: readonly (readonly [string, readonly string[]])[] = [
  ['assetlog re', ['relay', 'repair', 'report']],
  ['assetlog he', ['healthcheck', 'help']],
  ['assetlog help ver', ['verify']],
  ['assetlog --log', ['--log-level']],
  ['assetlog --log-level d', ['debug']],
  ['assetlog report ', ['check', 'materialization', 'observation']],
  ['assetlog report check orders --check', ['--check-name']],
  ['assetlog report check orders --severity ', ['ERROR', 'WARN']],
  ['assetlog report check orders --severity=W', ['WARN']],
  ['assetlog report --from rep', ['reports of today.jsonl', 'reports.jsonl']],
  ['assetlog report --from=reports.', ['reports.jsonl']],
  ['assetlog verify --data ', ['folder']],
  ['assetlog verify ', ['folder']],
  ['assetlog events --failed fol', ['folder']],
  ['assetlog events --key ', []],
  ['assetlog report materialization orders --partition ', []],
  ['assetlog report materialization or', []],
  ['assetlog forward ', ['ddl', 'dead', 'from', 'identity', 'retry', 'skip', 'status', 'test']],
  ['assetlog forward skip upstream --s', ['--seq']],
  ['assetlog completion ', ['bash', 'zsh']],
  ['assetlog nonsense ', []],
];

const BASH = `
source "$0"
for line; do
  # Like readline, which splits at the equals sign: it is a word.
  IFS=' '; COMP_WORDS=(\${line//=/ = }); [[ $line == *[\\ =] && $line != *= ]] && COMP_WORDS+=('')
  COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
  _assetlog
  echo "=== $line"
  ((\${#COMPREPLY[@]})) && printf '%s\\n' "\${COMPREPLY[@]}" || :
done
`;

/** An interactive zsh in its own terminal, whose compadd prints the matches. */
const ZSH = `
zmodload zsh/zpty
zpty shell "TERM=dumb zsh -f -i"
zpty -w shell "PS1= PS2= PROMPT_EOL_MARK=; autoload -Uz compinit; compinit -D -u; source '$0'; \\
  compadd() { local -a hits; builtin compadd -O hits \\"\\$@\\"; (( \\$#hits )) && print -l -- \\$'\\\\n'HIT:\\$^hits; builtin compadd \\"\\$@\\" }; \\
  at-end() { print; print DO''NE }; zle -N at-end; bindkey '^I' complete-word; bindkey '^G' at-end; setopt noautomenu nobeep; print REA''DY"
zpty -r shell seen '*READY*'
for line; do
  zpty -w -n shell "$line"$'\\t\\C-g'
  zpty -r shell seen '*DONE*'
  zpty -w -n shell $'\\C-u'
  print -r -- "=== $line"
  print -r -- "$seen" | tr -d '\\r' | sed -n 's/^HIT://p'
done
zpty -d shell
`;

const shells = { bash: ['--norc', '-c', BASH], zsh: ['-f', '-c', ZSH] };

for (const [shell, args] of Object.entries(shells)) {
  test(`${shell} completes commands, options, their values, and paths`, { skip: withoutShell(shell) }, async (t) => {
    const { folder, script } = await prepare(t, shell);
    const lines = offers.map(([line]) => line);
    const { stdout } = await promisify(execFile)(shell, [...args, script, ...lines], { cwd: folder, timeout: HANG_MS });
    const [, ...blocks] = `\n${stdout}`.split('\n=== ');
    const offered = blocks.map((block) => {
      const [line = '', ...words] = block.split('\n');
      return [line, [...new Set(words)].filter((word) => word !== '').sort()];
    });
    assert.deepEqual(offered, offers);
  });
}

async function prepare(t: TestContext, shell: string): Promise<{ folder: string; script: string }> {
  const folder = newFolder(t);
  mkdirSync(join(folder, 'folder'));
  for (const name of ['reports.jsonl', 'reports of today.jsonl']) writeFileSync(join(folder, name), '');
  const { code, stdout, stderr } = await run(['completion', shell]);
  assert.deepEqual([code, stderr], [0, '']);
  const script = join(newFolder(t), '_assetlog');
  writeFileSync(script, stdout);
  return { folder, script };
}

function withoutShell(shell: string): string | false {
  try {
    execFileSync(shell, ['-c', 'exit'], { stdio: 'ignore' });
    return false;
  } catch {
    return `${shell} is not installed`;
  }
}
