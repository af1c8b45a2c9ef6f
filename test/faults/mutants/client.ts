/** Mutants of sending a report. */

import type { Mutant } from './mutant.ts';

export const client: readonly Mutant[] = [
  {
    breaks: 'a report that may have been received is sent again',
    file: 'client/delivery.ts',
    from: "if (sent) return { kind: 'in doubt'",
    to: "if (code === 'none') return { kind: 'in doubt'",
    tests: ['client/delivery'],
  },
  {
    breaks: 'a report that got 500 is sent again',
    file: 'client/delivery.ts',
    from: 'if (SAFE.has(status))',
    to: 'if (SAFE.has(status) || status === 500)',
    tests: ['client/delivery'],
  },
  {
    breaks: 'Retry-After is ignored',
    file: 'client/delivery.ts',
    from: 'Math.min(afterMs + (pauseMs',
    to: 'Math.min((pauseMs',
    tests: ['client/delivery'],
  },
  {
    breaks: 'clients that were refused together retry together',
    file: 'client/delivery.ts',
    from: '(1 + Math.random())) / 2',
    to: '2) / 2',
    tests: ['client/delivery'],
  },
  {
    breaks: 'a 200 with the page of another server counts as recorded',
    file: 'client/delivery.ts',
    from: 'if (status === 200 && error === undefined)',
    to: 'if (status === 200)',
    tests: ['client/delivery'],
  },
  {
    breaks: 'a connection that was idle is reused for a report',
    file: 'client/connection.ts',
    from: '- lastMs > limits.keptMs)',
    to: '< 0)',
    tests: ['client/connection'],
  },
  {
    breaks: 'a 101 settles nothing',
    file: 'client/connection.ts',
    from: "resolve({ status: statusCode, headers, body: '' });",
    to: '',
    tests: ['client/connection'],
  },
  {
    breaks: 'the timeout of a call waits for an event',
    file: 'client/connection.ts',
    from: 'failed(error);\n          ',
    to: '',
    tests: ['client/connection'],
  },
  {
    breaks: 'a connection that closes with nothing else settles nothing',
    file: 'client/connection.ts',
    from: "httpRequest.on('close', closed);",
    to: '',
    tests: ['client/connection'],
  },
  {
    breaks: 'a reply that closes with nothing else settles nothing',
    file: 'client/connection.ts',
    from: "reply.on('close', closed);",
    to: '',
    tests: ['client/connection'],
  },
  {
    breaks: 'a reply is read to its end, however long',
    file: 'client/connection.ts',
    from: 'if (bytes <= limits.replyBytesMax) return;',
    to: 'if (bytes > 0) return;',
    tests: ['client/connection'],
  },
  {
    breaks: 'a tag of a line is taken for a parameter that is no tag',
    file: 'client/submission.ts',
    from: "filter((parameter) => 'tag' in parameter)",
    to: 'filter(() => true)',
    tests: ['event/parameters'],
  },
  {
    breaks: 'digits of metadata are lost on the way from a line',
    file: 'client/submission.ts',
    from: 'parameters.set(name, value.text)',
    to: 'parameters.set(name, JSON.stringify(JSON.parse(value.text)))',
    tests: ['program/report'],
  },
];
