/** Mutants of what connects forwarding with the service. */

import type { Mutant } from './mutant.ts';

const HANGS =
  'forward/forwarding: a destination that hangs delays no other one and no report, and a stop waits 5 s for it';
const LIMIT =
  'forward/retention: at the limit of retention reports are refused with the name of the destination, until it has the events';
const STOPPED = 'forward/forwarding: a stopped destination tries again when its token is another one, and on SIGHUP';
const FILE =
  'forward/forwarding: a destination is added, changed and removed by its file, and a reload forgets no cursor';
const HOSTED = 'forward/forwarding: each deployment goes to its own URL, with the token of the destination';

export const forwardWiring: readonly Mutant[] = [
  {
    breaks: 'a service that only records loads the code of forwarding',
    file: 'service.ts',
    from: 'import type { Forwarding }',
    to: 'import { type Forwarding }',
    tests: ['house: a service that only records loads neither forwarders, nor the test mode, nor other commands'],
  },
  {
    breaks: 'a hub does not count the journals that it has events of',
    file: 'service.ts',
    from: 'setup.metrics.hubSources = () => hub.sourceCount;',
    to: '',
    tests: ['forward/hub-service: events of other journals are counted as reports are'],
  },
  {
    breaks: 'status has an older kind of a destination than its cursor',
    file: 'forward/status.ts',
    from: "cursor.kind === 'found' ? cursor.value.kind : written?.kind",
    to: 'written?.kind',
    tests: ['program/forward: status says as JSON how far a destination is, since when and why'],
  },
  {
    breaks: 'a deployment that a destination lists, and that there is not, is not reported',
    file: 'forward/forwarding.ts',
    from: '!known.includes(one)',
    to: "one === ''",
    tests: ['forward/forwarding: each deployment goes to its own URL, with the token of the destination'],
  },
  {
    breaks: 'the problems of a file are reported on one line',
    file: 'commands/serve.ts',
    from: "error.message.split('\\n')",
    to: '[error.message]',
    tests: ['forward/forwarding: what is wrong with options and files is a configuration error'],
  },
  {
    breaks: 'the lag of a destination is not told',
    file: 'forward/forwarding.ts',
    from: 'lagEvents: sum(statuses.map(({ lag_events }) => lag_events)),',
    to: 'lagEvents: 0,',
    tests: [HANGS],
  },
  {
    breaks: 'the service lets retention remove what a destination lacks',
    file: 'service.ts',
    from: 'heldBack: () => forwarding?.heldBack(deployment),',
    to: 'heldBack: () => undefined,',
    tests: [LIMIT],
  },
  {
    breaks: 'retention waits for the fastest destination',
    file: 'forward/forwarding.ts',
    from: 'found.fromSeq <= fromSeq',
    to: 'found.fromSeq >= fromSeq',
    tests: [LIMIT],
  },
  {
    breaks: '--when-behind remove holds events',
    file: 'forward/destinations.ts',
    within: 'upstreamOf',
    from: "whenBehind === 'refuse'",
    to: 'true',
    tests: [
      'forward/destinations: --when-behind remove lifts the hold of each destination',
      'forward/retention: with --when-behind remove the events go, and are named in a dead letter',
    ],
  },
  {
    breaks: 'a start does not look at the cursors before it opens the journal',
    file: 'forward/link.ts',
    from: 'this.#foundSeq = found.value.seq + 1;',
    to: '{}',
    tests: [
      'forward/retention: a start at the limit of retention knows from the cursors what may go, before the first report',
    ],
  },
  {
    breaks: 'retention does not run again when a destination has the events of a file',
    file: 'forward/forwarding.ts',
    from: 'this.#journals?.retain(deployment);',
    to: '{}',
    tests: ['forward/retention: retention runs again as soon as a destination has the events of a file'],
  },
  {
    breaks: 'a stop does not wait for forwarders, which then write after the journals are closed',
    file: 'service.ts',
    from: 'if (await resolvesWithin(forwarding.close(), ms)) return;',
    to: 'return;',
    tests: [HANGS],
  },
  {
    breaks: 'a changed destination begins while the one before it still sends',
    file: 'forward/forwarding.ts',
    from: 'const ended = Promise.all(forwarded.closing);',
    to: 'const ended = Promise.resolve();',
    tests: [
      'forward/forwarding: a destination that is changed begins after the request of the one before it has ended',
    ],
  },
  {
    breaks: 'a removed destination gets events',
    file: 'forward/forwarding.ts',
    from: 'const now = wanted?.get(name);',
    to: 'const now = link.options.destination;',
    tests: [FILE],
  },
  {
    breaks: 'a changed file of destinations has no effect',
    file: 'forward/destinations.ts',
    from: 'changed(destinations);',
    to: '',
    tests: [FILE],
  },
  {
    breaks: 'SIGHUP does not let a stopped destination try again',
    file: 'forward/forwarding.ts',
    from: 'for (const link of this.#links()) link.tryNow();',
    to: '',
    tests: [STOPPED],
  },
  {
    breaks: 'a stopped destination does not notice another token',
    file: 'forward/link.ts',
    from: ') forwarder.tryNow();',
    to: ') void 0;',
    tests: [STOPPED],
  },
  {
    breaks: 'a restart forgets when a destination took an event last',
    file: 'forward/link.ts',
    from: ', lastSuccess: this.#lastSuccess }',
    to: ' }',
    tests: ['forward/link: a restart keeps the time of the last success, and what has no time is none'],
  },
  {
    breaks: 'the state file is older than the cursor',
    file: 'forward/forwarder.ts',
    from: 'this.#parts.onChange?.();',
    to: '',
    tests: ['forward/link: what status shows is written when it changes: no state that is older than the cursor'],
  },
  {
    breaks: 'a token that is changed while its request is in flight is tried a minute later',
    file: 'forward/targets/requests.ts',
    within: 'Requests.send',
    from: "if (answer.kind === 'stopped')",
    to: 'this.#files = await filesVersion(this.#options);\n    if (false)',
    tests: ['forward/link: a token file that changes while its request is in flight is tried at once after the stop'],
  },
  {
    breaks: 'SIGHUP stops a service that forwards',
    file: 'commands/serve.ts',
    from: "config.deployments !== '' || forwards(config)",
    to: "config.deployments !== ''",
    tests: [STOPPED],
  },
  {
    breaks: 'what a deployment has to forward waits for its first report',
    file: 'forward/forwarding.ts',
    from: 'this.#journals?.wake(deployment);',
    to: '',
    tests: [HOSTED],
  },
  {
    breaks: 'a deployment that is added is not forwarded',
    file: 'service.ts',
    from: 'onDeployments: async () => forwarding?.update()',
    to: 'onDeployments: async () => {}',
    tests: [HOSTED],
  },
  {
    breaks: 'a hub does not say where its events go',
    file: 'forward/forwarding.ts',
    from: '[source, ...via]',
    to: '[source]',
    tests: ['forward/forwarding: a hub tells its senders where its events go, so that a circle is stopped'],
  },
  {
    breaks: 'there may be any number of forwarders',
    file: 'forward/destinations.ts',
    from: 'count <= limits.forwardersMax ? undefined',
    to: 'count > 0 ? undefined',
    tests: [
      'forward/destinations: a file that turns bad changes nothing, and more forwarders than there may be are a problem',
    ],
  },
  {
    breaks: 'the events of all deployments may be mixed at one URL',
    file: 'forward/destinations.ts',
    from: 'if (isReplaced || isListed) return undefined;',
    to: 'if (isReplaced || isListed || deployments) return undefined;',
    tests: ['forward/destinations: deployments do not share a URL unless they are listed'],
  },
  {
    breaks: 'two destinations may have one name, and so one cursor',
    file: 'forward/destinations.ts',
    from: '} else if (names.has(name)) {',
    to: "} else if (name === '') {",
    tests: ['forward/destinations: every mistake of a file is named with its line and its member, and what to do'],
  },
];
