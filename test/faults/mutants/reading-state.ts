/** Mutants of the refusals and of the state of assets that a service shows. */

import type { Mutant } from './mutant.ts';

const OWN =
  'program/get-refusals: a reader sees the refusals of its own deployment only, and clients without a token push out half of them at most';
const SHOWN = 'program/get-refusals: refused requests of every kind are shown, the newest first, without their query';

export const readingState: readonly Mutant[] = [
  {
    breaks: 'a reader sees the refusals of another deployment',
    file: 'service/hosted.ts',
    from: 'return file.current.tokensOf.has(name) ? name : undefined;',
    to: "return name && 'prod';",
    tests: [OWN],
  },
  {
    breaks: 'refusals of all deployments are in one list',
    file: 'service.ts',
    from: 'setup.refusals.deploymentIn = recording.deploymentIn;',
    to: 'setup.refusals.deploymentIn = () => recording.deployment;',
    tests: [OWN],
  },
  {
    breaks: 'clients without a token push out all refusals of a deployment',
    file: 'telemetry/refusals.ts',
    from: 'kept.indexOf(strangers[0]!)',
    to: '0',
    tests: [OWN],
  },
  {
    breaks: 'the query of a refused request is shown',
    file: 'telemetry/refusals.ts',
    from: ".replace(/[?#].*$/s, '')",
    to: '',
    tests: [SHOWN],
  },
  {
    breaks: 'what a refused query or metadata holds is shown',
    file: 'http/exchanges.ts',
    within: 'Exchanges.#logRefusal',
    from: 'problem: logged',
    to: 'problem: error',
    tests: [SHOWN],
  },
  {
    breaks: 'refusals are kept without a bound',
    file: 'telemetry/refusals.ts',
    from: 'if (kept.length > limits.refusalsKeptMax) this.#dropOne(kept);',
    to: '',
    tests: ['program/get-refusals: of refused requests the last hundred are kept'],
  },
  {
    breaks: 'an unknown parameter of a reading is ignored',
    file: 'reading/query.ts',
    from: 'if (name === undefined) throw unknown(sent, names);',
    to: 'if (name === undefined) continue;',
    tests: [SHOWN],
  },
];
