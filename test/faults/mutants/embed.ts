/** Mutants of what the author of a test uses: `startService`. */

import type { Mutant } from './mutant.ts';

const WAITS = 'embed: a wait for several events resolves with the first of them, and says how many came';
const METADATA =
  'embed: a filter finds events by members of their metadata, however deep, and numbers by value or by their digits';
const DEPLOYMENTS = 'embed: deployments given by name get a token each, and nothing of them is left';
const TEST_MODE = 'embed: a service for tests fails as its faults say, counts that, and begins anew';

export const embed: readonly Mutant[] = [
  {
    breaks: 'a wait for several events ends with one too few',
    file: 'embed/waits.ts',
    from: '=== (count ?? 1)',
    to: '>= (count ?? 2) - 1',
    tests: [WAITS],
  },
  {
    breaks: 'the error of a wait counts the events that came among the others',
    file: 'embed/waits.ts',
    from: 'if (wrong.length > 0) nearMisses.add(line, wrong);',
    to: 'nearMisses.add(line, wrong);\n          if (wrong.length > 0) continue;',
    tests: [WAITS],
  },
  {
    breaks: 'a filter ignores members of objects inside metadata',
    file: 'embed/metadata.ts',
    from: 'return isSame(found, wanted) ? [] : [path];',
    to: "return isSame(found, wanted) || path.split('.').length > 2 ? [] : [path];",
    tests: [METADATA],
  },
  {
    breaks: 'a filter takes a longer array in metadata for the one it asks for',
    file: 'embed/metadata.ts',
    from: ' || found.length !== wanted.length',
    to: '',
    tests: [METADATA],
  },
  {
    breaks: 'a filter takes a number in metadata for a string with its digits',
    file: 'embed/metadata.ts',
    from: "const NUMBER = 'n';",
    to: "const NUMBER = 's';",
    tests: [METADATA],
  },
  {
    breaks: 'a filter rounds the digits that a bigint asks for',
    file: 'embed/metadata.ts',
    from: 'return found === `${NUMBER}${wanted}`;',
    to: 'return Number(String(found).slice(1)) === Number(wanted);',
    tests: [METADATA],
  },
  {
    breaks: 'the tokens of deployments that are given by name are exchanged',
    file: 'embed/own-deployments.ts',
    from: 'tokens[String(name)] = token;',
    to: 'tokens[String(name)] = Object.values(tokens)[0] ?? token;',
    tests: [DEPLOYMENTS],
  },
  {
    breaks: 'the token of a deployment that is given by name may not read',
    file: 'embed/own-deployments.ts',
    from: 'may = rights',
    to: "may = ['report']",
    tests: [DEPLOYMENTS],
  },
  {
    breaks: 'the token of a deployment that is given by name may more than was asked for',
    file: 'embed/own-deployments.ts',
    from: 'sha256: digest, may }',
    to: 'sha256: digest, may: rights }',
    tests: [DEPLOYMENTS],
  },
  {
    breaks: 'the file with the deployments that are given by name stays',
    file: 'embed.ts',
    from: 'if (hosted !== undefined) removeOwnDeployments(hosted);',
    to: '',
    tests: [DEPLOYMENTS],
  },
  {
    breaks: 'bytes that are no request are not among the refused ones',
    file: 'http/exchanges.ts',
    within: 'Exchanges.#refuseLast',
    from: 'this.#logRefusal(reply,',
    to: 'void (reply,',
    tests: ['embed: refused requests are listed as their clients saw them, also bytes that are no request'],
  },
  {
    breaks: 'a test sees refusals with what a log leaves out',
    file: 'embed/refused.ts',
    from: 'add({ id, method, url, status, error }:',
    to: 'add({ id, method, url, status, problem: error }:',
    tests: ['embed: refused requests are listed as their clients saw them, also bytes that are no request'],
  },
  {
    breaks: 'a reset waits for the waits of the test before it',
    file: 'embed/resets.ts',
    from: "this.#waits.endOpen('the service was reset');",
    to: '',
    tests: [TEST_MODE],
  },
  {
    breaks: 'a reset keeps the refused requests of the test before it',
    file: 'embed/resets.ts',
    from: 'this.#refused.clear();',
    to: '',
    tests: [TEST_MODE],
  },
  {
    breaks: 'what became of a fault is what it was when the fault was added',
    file: 'embed.ts',
    from: 'get met() {\n      return counts.met;\n    },',
    to: 'met: counts.met,',
    tests: [TEST_MODE],
  },
];
