/** Mutants of the refusals and of the state of assets that a service shows. */

import type { Mutant } from './mutant.ts';

const OWN =
  'program/get-refusals: a reader sees the refusals of its own deployment only, and clients without a token push out half of them at most';
const SHOWN = 'program/get-refusals: refused requests of every kind are shown, the newest first, without their query';

const EXACT =
  'program/get-assets: each answer has all that was recorded before it, also after a crash, as the command shows it';
const RETAINED = 'program/get-assets: what retention removes is gone from the state of the assets';
const CHOSEN = 'program/get-assets: assets are chosen by prefix and failing checks, in pages by key';

const CUT = 'program/remote: a reply that is cut anywhere loses no line and doubles none';
const FOLLOWED =
  'program/remote: --follow continues after a kill and a restart of the service, without losing or doubling a line';

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
  {
    breaks: 'the state of the assets is as of the first request',
    file: 'reading/live-assets.ts',
    from: 'await building.caughtUp();',
    to: 'if (building.lastSeq === 0) await building.caughtUp();',
    tests: [EXACT],
  },
  {
    breaks: 'an answer about assets has what was read before its request',
    file: 'reading/live-assets.ts',
    within: 'caughtUp',
    from: 'this.#begin();',
    to: 'this.#begin(); resolve();',
    tests: [EXACT],
  },
  {
    breaks: 'events that retention removed are counted in the state of their assets',
    file: 'reading/live-assets.ts',
    from: 'this.states.forgetOldest();',
    to: '',
    tests: [RETAINED],
  },
  {
    breaks: 'of the file that is removed next no event is counted',
    file: 'reading/live-assets.ts',
    from: 'for (const { event } of lines) this.states.countOldest(event);',
    to: '',
    tests: [RETAINED],
  },
  {
    breaks: 'a first reading counts no event of the oldest file',
    file: 'reading/live-assets.ts',
    from: 'if (event.seq < this.#countedEndSeq) this.states.countOldest(event);',
    to: '',
    tests: [RETAINED],
  },
  {
    breaks: 'the state of the assets is not built again if several files were removed',
    file: 'reading/live-assets.ts',
    from: 'if (!isKnown) throw new Outdated();',
    to: '',
    tests: [RETAINED],
  },
  {
    breaks: 'an asset without events is still shown',
    file: 'journal/asset-state.ts',
    from: 'this.#found.delete(name);',
    to: '',
    tests: [RETAINED],
  },
  {
    breaks: 'a page of assets begins with the last one of the page before',
    file: 'journal/asset-state.ts',
    from: 'name > afterName)',
    to: 'name >= afterName)',
    tests: [CHOSEN],
  },
  {
    breaks: 'a prefix of keys matches a part of a part',
    file: 'journal/asset-state.ts',
    from: '!name.startsWith(`${first}${BETWEEN_PARTS}`)',
    to: '!name.startsWith(first)',
    tests: [CHOSEN],
  },
  {
    breaks: 'assets without failing checks are failing',
    file: 'reading/assets.ts',
    from: 'if (wanted.failing && !isFailing(asset)) continue;',
    to: '',
    tests: [CHOSEN],
  },
  {
    breaks: '--url loses a line where one request continues the one before',
    file: 'commands/remote.ts',
    from: 'after_seq: before,',
    to: 'after_seq: before === 0 ? 0 : before + 1,',
    tests: [CUT, FOLLOWED],
  },
  {
    breaks: '--url shows a line twice where one request continues the one before',
    file: 'commands/remote.ts',
    from: 'position.seq = line.seq;',
    to: 'position.seq = line.seq - 1;',
    tests: [CUT],
  },
  {
    breaks: '--url takes a reply that was cut for the whole',
    file: 'commands/remote.ts',
    within: 'RemoteJournal.read',
    from: 'if (error instanceof ServiceFailure) throw error;',
    to: 'return;',
    tests: [CUT],
  },
  {
    breaks: '--url --follow gives up while the service restarts',
    file: 'commands/remote.ts',
    from: 'signal === undefined ? retryFor : Number.POSITIVE_INFINITY',
    to: 'retryFor',
    tests: [FOLLOWED],
  },
  {
    breaks: '--url shows the page of another server',
    file: 'client/connection.ts',
    from: "headers['content-type']?.startsWith(accept)",
    to: 'accept',
    tests: ['program/remote: what a service refuses, and an address without one, is a sentence and an exit code'],
  },
  {
    breaks: '--url ignores a filter',
    file: 'commands/remote.ts',
    from: 'check: checkName,',
    to: '',
    tests: ['program/remote: for filters by chance a service and its folder show the same lines'],
  },
  {
    breaks: 'the states of assets that were asked for long ago are kept, and the newest are refused',
    file: 'reading/assets.ts',
    from: 'if (deployment === growing) continue;',
    to: 'continue;',
    tests: [
      'reading/assets: states that were not asked for longest are forgotten, and built again when they are asked for',
    ],
  },
  {
    breaks: 'states of assets that are too large are read again for each request',
    file: 'reading/assets.ts',
    from: 'this.#tooLarge.set(growing, performance.now() + limits.assetsAgainMs);',
    to: '',
    tests: [
      'reading/assets: states that do not fit into the memory are refused, without reading the journal each time',
    ],
  },
];
