/** Mutants of sending a report. */

import type { Mutant } from './mutant.ts';

export const client: readonly Mutant[] = [
  {
    breaks: 'a report that may have been received is sent again',
    file: 'client/delivery.ts',
    from: "if (sent) return { kind: 'in doubt'",
    to: "if (code === 'none') return { kind: 'in doubt'",
    tests: ['client/delivery: a report that may have been received is not sent again'],
  },
  {
    breaks: 'a report that got 500 is sent again',
    file: 'client/delivery.ts',
    from: 'if (SAFE.has(status))',
    to: 'if (SAFE.has(status) || status === 500)',
    tests: ['client/delivery: what each status means, and that all but three are final'],
  },
  {
    breaks: 'Retry-After is ignored',
    file: 'client/delivery.ts',
    from: 'Math.min(afterMs + (pauseMs',
    to: 'Math.min((pauseMs',
    tests: ['client/delivery: Retry-After is honoured, in seconds and as a date'],
  },
  {
    breaks: 'clients that were refused together retry together',
    file: 'client/delivery.ts',
    from: '(1 + Math.random())) / 2',
    to: '2) / 2',
    tests: ['client/delivery: backoff is exponential up to a limit, with jitter'],
  },
  {
    breaks: 'a 200 with the page of another server counts as recorded',
    file: 'client/delivery.ts',
    from: 'if (status === 200 && error === undefined)',
    to: 'if (status === 200)',
    tests: ['client/delivery: what each status means, and that all but three are final'],
  },
  {
    breaks: 'a connection that was idle is reused for a report',
    file: 'client/connection.ts',
    from: '- lastMs > limits.keptMs)',
    to: '< 0)',
    tests: ['client/connection: a connection is reused for the next call, unless it was idle'],
  },
  {
    breaks: 'a 101 settles nothing',
    file: 'client/connection.ts',
    from: "resolve({ status: statusCode, headers, body: '' });",
    to: '',
    tests: ['client/connection: however a connection ends, the call settles, and the delivery is decided'],
  },
  {
    breaks: 'the timeout of a call waits for an event',
    file: 'client/connection.ts',
    from: 'failed(error);\n        httpRequest',
    to: 'httpRequest',
    tests: ['client/connection: a call settles whatever events a version of Node leaves out'],
  },
  {
    breaks: 'a connection that closes with nothing else settles nothing',
    file: 'client/connection.ts',
    from: "httpRequest.on('close', closed);",
    to: '',
    tests: ['client/connection: a call settles whatever events a version of Node leaves out'],
  },
  {
    breaks: 'a reply that closes with nothing else settles nothing',
    file: 'client/connection.ts',
    from: "reply.on('close', closed);",
    to: '',
    tests: ['client/connection: a call settles whatever events a version of Node leaves out'],
  },
  {
    breaks: 'each piece of a reply extends the timeout of its call',
    file: 'client/connection.ts',
    from: 'chunks.push(chunk);',
    to: 'chunks.push(chunk);\n          timer.refresh();',
    tests: ['client/connection: a call takes no longer than its timeout, however slow its parts are'],
  },
  {
    breaks: 'the timeout of a call begins when the connection is established',
    file: 'client/connection.ts',
    from: '        sent = true;',
    to: '        sent = true;\n        timer.refresh();',
    tests: ['client/connection: the time that a connection takes to be established counts'],
  },
  {
    breaks: 'report retries with a wrong token while its address is rate limited',
    file: 'client/delivery.ts',
    from: 'if (status === 429 && TOKEN_CHALLENGE',
    to: 'if (status === 428 && TOKEN_CHALLENGE',
    tests: [
      'client/delivery: a 429 with the challenge of assetlog is final, since a valid token is not limited; another one is retried',
    ],
  },
  {
    breaks: 'the rate limit of another server ends report',
    file: 'client/delivery.ts',
    from: 'if (status === 429 && TOKEN_CHALLENGE.test(',
    to: 'if (status === 429 && /./.test(',
    tests: [
      'client/delivery: a 429 with the challenge of assetlog is final, since a valid token is not limited; another one is retried',
    ],
  },
  {
    breaks: 'report appends an endpoint to a URL that already names one',
    file: 'client/base-url.ts',
    from: 'if (at !== -1) {',
    to: 'if (at < -1) {',
    tests: ['program/report: what cannot be a report is reported before anything is sent, and ends with 2'],
  },
  {
    breaks: '--timeout is ignored',
    file: 'commands/report.ts',
    from: 'timeoutMs: timeout }',
    to: 'timeoutMs: Math.max(timeout, 5_000) }',
    tests: [
      'program/report: an attempt takes no longer than --timeout, and the command no longer than --retry-for and one attempt',
    ],
  },
  {
    breaks: 'a reply is read to its end, however long',
    file: 'client/connection.ts',
    from: 'if (bytes <= limits.replyBytesMax) return;',
    to: 'if (bytes > 0) return;',
    tests: ['client/connection: the beginning of an endless reply is read'],
  },
  {
    breaks: 'a tag of a line is taken for a parameter that is no tag',
    file: 'event/item.ts',
    from: "return 'tag' in parameter;",
    to: 'return parameter !== undefined;',
    tests: [
      'event/parameters: a parameter that is recorded as a tag may come from the tags of a line, and others may not',
    ],
  },
  {
    breaks: 'digits of metadata are lost on the way from a line',
    file: 'client/submission.ts',
    from: '[name, text]))',
    to: '[name, JSON.stringify(JSON.parse(text))]))',
    tests: ['program/report: a journal is replayed into another service, line for line and digit for digit'],
  },
];
