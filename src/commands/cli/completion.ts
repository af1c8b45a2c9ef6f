/** `assetlog completion`: the completion scripts for bash and zsh, made from the table of commands. */

import { exitCodes } from '../../config/exit-codes.ts';
import { flagOf, type Option } from '../../config/options.ts';
import { didYouMean } from '../../event/nearest.ts';
import { type Command, defineCommand, refuse } from './command.ts';

const shells = ['bash', 'zsh'] as const;
type Shell = (typeof shells)[number];

/** @param scriptFor returns the script for a shell; called when the command runs */
export function completionOf(scriptFor: (shell: Shell) => string): Command {
  return defineCommand<object>(
    {
      summary: 'print a script that makes bash or zsh complete commands, options and files',
      about: 'Prints a script for the shell. It contains the commands of this version, and does not run assetlog.',
      notes: [
        'Examples:',
        "  echo 'source <(assetlog completion bash)' >> ~/.bashrc",
        "  echo 'source <(assetlog completion zsh)' >> ~/.zshrc     after the line with compinit",
        '  assetlog completion zsh > /usr/local/share/zsh/site-functions/_assetlog',
        '',
        'Exit codes:',
        '  0 printed, 2 an unknown shell',
      ],
      operands: { max: 1, text: shells.join('|'), choices: shells },
      options: {},
    },
    async (_values, output, [word = '']) => {
      const shell = shells.find((known) => known === word);
      if (shell === undefined) {
        return refuse(output, `name a shell: assetlog completion ${shells.join('|')}${didYouMean(word, shells)}`);
      }
      output.print(scriptFor(shell));
      return exitCodes.done;
    },
  );
}

export type Commands = Readonly<Record<string, Command>>;

/** @returns the completion scripts without their last newlines */
export function completionScripts(commands: Commands): Readonly<Record<Shell, string>> {
  return { bash: bashScript(commands), zsh: zshScript(commands) };
}

/** @returns the possible values of an option: a list of words, or the paths of files or of folders */
function valuesOf({ argument, choices = [] }: Option<unknown>): readonly string[] | 'files' | 'folders' {
  if (argument.startsWith('FILE')) return 'files';
  return argument === 'FOLDER' ? 'folders' : choices;
}

function flagsOf({ options }: Command): string {
  return [...Object.keys(options).map(flagOf), 'help'].map((flag) => `--${flag}`).join(' ');
}

/** The cases of the words after the options of a command; after a switch any word can follow. */
function bashValues(name: string, { options }: Command): string[] {
  const withValue = Object.entries(options).filter(
    ([, { argument, choices = [] }]) => argument !== '' || choices.length > 0,
  );
  return withValue.map(([option, known]) => `    ${name}/--${flagOf(option)}) ${bashAction(valuesOf(known))};;`);
}

function bashAction(values: ReturnType<typeof valuesOf>): string {
  if (values === 'files') return '_assetlog_paths -f ';
  if (values === 'folders') return '_assetlog_paths -d ';
  return values.length === 0 ? '' : `_assetlog_words ${values.join(' ')} `; // a value without choices is not an operand either
}

/** The cases of the other words of a command. */
function bashWords(name: string, command: Command): string[] {
  const { choices = [], paths } = command.operands ?? {};
  const cases = [`      ${name}/-) _assetlog_words ${flagsOf(command)} ;;`];
  if (choices.length > 0) cases.push(`      ${name}/2) _assetlog_words ${choices.join(' ')} ;;`);
  if (paths !== undefined) cases.push(`      ${name}/*) _assetlog_paths ${paths === 'files' ? '-f' : '-d'} ;;`);
  return cases;
}

/** The script works in bash 3.2 and later, without the package bash-completion. */
function bashScript(commands: Commands): string {
  const all = Object.entries(commands);
  const names = Object.keys(commands).join(' ');
  const values = all.flatMap(([name, command]) => bashValues(name, command));
  const rest = all.flatMap(([name, command]) => bashWords(name, command));
  return `# bash completion for assetlog
_assetlog_words() { COMPREPLY=($(compgen -W "$*" -- "$word")); }
_assetlog_paths() { local IFS=$'\\n'; compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen "$1" -- "$word")); }
_assetlog() {
  local IFS=$' \\t\\n' command=\${COMP_WORDS[1]} word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]}
  COMPREPLY=()
  # bash splits --flag=value into three words
  if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=\${COMP_WORDS[COMP_CWORD-2]}; fi
  if ((COMP_CWORD == 1)); then command=none; elif [[ $command == -* ]]; then command=serve; fi
  case $command/$before in
${values.join('\n')}
    *) case $command/$([[ $word == -* ]] && echo - || echo "$COMP_CWORD") in
      none/-) _assetlog_words --version ${flagsOf(commands['serve'] as Command)} ;;
      none/1|help/2) _assetlog_words help ${names} ;;
${rest.join('\n')}
    esac ;;
  esac
}\ncomplete -F _assetlog assetlog`;
}

function zshScript(commands: Commands): string {
  const names = Object.entries(commands).map(([name, { summary }]) => quote(`${name}:${summary}`));
  const cases = Object.entries(commands).map(([name, { options, operands }]) => {
    const specs = Object.entries(options).map(([option, known]) => {
      const { argument, help, repeated } = known;
      const found = valuesOf(known);
      const action =
        found === 'files'
          ? '_files'
          : found === 'folders'
            ? '_files -/'
            : found.length > 0
              ? `(${found.join(' ')})`
              : ' ';
      const [equals, value] = argument === '' ? ['', ''] : ['=', `:${argument.replaceAll(':', '\\:')}:${action}`];
      const text = help.replaceAll(/[[\]\\]/g, '\\$&');
      return quote(`${repeated ? '*' : ''}--${flagOf(option)}${equals}[${text}]${value}`);
    });
    if (operands?.choices !== undefined) specs.push(`'1:what:(${operands.choices.join(' ')})'`);
    if (operands?.paths !== undefined) specs.push(`'1:folder:_files${operands.paths === 'folders' ? ' -/' : ''}'`);
    return `    ${name}) _arguments ${specs.join(' ')} '--help[how it is used]' ;;`;
  });
  return `#compdef assetlog
_assetlog() {
  local -a commands=(${names.join(' ')} 'help:how a command is used')
  if [[ $CURRENT == 2 && $words[2] != -* || $words[2] == help ]]; then
    _describe command commands
    return
  fi
  local command=serve
  [[ $words[2] == -* ]] || { command=$words[2]; shift words; ((CURRENT--)) }
  case $command in
${cases.join('\n')}
  esac
}
# In a folder of functions this file is the function; sourced by a shell it registers the completion.\nif [[ $funcstack[1] == _assetlog ]]; then _assetlog "$@"; else compdef _assetlog assetlog; fi`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
