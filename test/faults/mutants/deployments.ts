/** Mutants of hosted mode. */

import type { Mutant } from './mutant.ts';

export const deployments: readonly Mutant[] = [
  {
    breaks: 'the 429 of a failed token cannot be told from any other 429',
    file: 'deployments/authenticator.ts',
    from: '[...challenge, ...retryAfter]',
    to: 'retryAfter',
    tests: [
      'deployments/file: authentication finds the deployment by its path, refuses alike, and slows who fails again and again',
      'program/report',
    ],
  },
  {
    breaks: 'an idle deployment does not notice that its lock is gone',
    file: 'deployments/journals.ts',
    from: 'journal.abandon(error)',
    to: '{}',
    tests: [
      'program/hosted: a deployment whose lock file is removed fails alone, and is opened again once no other process has it',
    ],
  },
  {
    breaks: 'a deployment does not look at its lock',
    file: 'deployments/journals.ts',
    from: 'checkHeld: () => this.#lock?.checkHeld(),',
    to: '',
    tests: [
      'program/hosted: a deployment whose lock file is removed fails alone, and is opened again once no other process has it',
    ],
  },
  {
    breaks: 'of a token only the beginning is compared',
    file: 'deployments/tokens.ts',
    from: "const digest = sha256(token ?? '');",
    to: "const digest = sha256((token ?? '').slice(0, 47));",
    tests: [
      'deployments/file: each deployment takes each of its own tokens, until the day that one ends, and nobody else’s',
    ],
  },
  {
    breaks: 'of the SHA-256 of a token only the beginning is compared',
    file: 'deployments/tokens.ts',
    from: 'const same = timingSafeEqual(candidate.sha256, digest);',
    to: 'const same = candidate.sha256.readUInt16BE() === digest.readUInt16BE();',
    tests: ['program/hostile: hostile inputs in hosted mode'],
  },
  {
    breaks: 'an expired token is good',
    file: 'deployments/tokens.ts',
    from: 'return nowMs < notAfterMs;',
    to: 'return nowMs < (notAfterMs, Number.POSITIVE_INFINITY);',
    tests: ['program/hostile: hostile inputs in hosted mode'],
  },
  {
    breaks: 'a token of one deployment is good for all',
    file: 'deployments/tokens.ts',
    from: 'const tokens = tokensOf.get(name) ?? [];',
    to: 'const tokens = tokensOf.has(name) ? [...tokensOf.values()].flat() : [];',
    tests: ['program/hostile: hostile inputs in hosted mode'],
  },
  {
    breaks: 'a folder is made for whatever name is in the path',
    file: 'deployments/tokens.ts',
    from: 'const tokens = tokensOf.get(name) ?? [];',
    to: 'const tokens = tokensOf.get(name) ?? [...tokensOf.values()].flat();',
    tests: ['program/hostile: hostile inputs in hosted mode'],
  },
  {
    breaks: 'the name of a deployment may lead out of the data folder',
    file: 'deployments/file.ts',
    from: ' || !deploymentName.test(name)',
    to: '',
    tests: ['deployments/file: what is wrong with a file is told with line and member, all of it'],
  },
  {
    breaks: 'an escaped name is a deployment',
    file: 'deployments/authenticator.ts',
    from: "return under.split('/', 1)[0] ?? '';",
    to: "return unescape(under.split('/', 1)[0] ?? '');",
    tests: ['program/hostile: hostile inputs in hosted mode'],
  },
  {
    breaks: 'an unknown deployment is told apart',
    file: 'deployments/authenticator.ts',
    from: 'metrics.authFailures += 1;',
    to: "if (!known.tokensOf.has(name)) throw new Refusal(404, 'there is no such deployment');",
    tests: ['program/hostile: hostile inputs in hosted mode'],
  },
  {
    breaks: 'a good token is refused where others failed',
    file: 'deployments/authenticator.ts',
    from: 'if (valid !== undefined) {',
    to: "if (valid !== undefined && failures.add(clientAddress(socket?.remoteAddress ?? '', fields.raw), now).waitMs === 0) {",
    tests: ['program/hostile: hostile inputs in hosted mode'],
  },
  {
    breaks: 'good reports wipe failures out',
    file: 'deployments/authenticator.ts',
    from: 'return name;',
    to: 'for (let n = 0; n < limits.failedAddressesMax; n += 1) failures.add(String(n), now);\n      return name;',
    tests: ['program/hostile: hostile inputs in hosted mode'],
  },
  {
    breaks: 'an address that failed is remembered for ever',
    file: 'deployments/rate-limit.ts',
    from: 'undefined && current.endMs > nowMs)',
    to: 'undefined)',
    tests: [
      'deployments/file: authentication finds the deployment by its path, refuses alike, and slows who fails again and again',
    ],
  },
  {
    breaks: 'every address that failed is remembered',
    file: 'deployments/rate-limit.ts',
    from: '>= this.#limits.failedAddressesMax',
    to: '< 0',
    tests: [
      'deployments/file: authentication finds the deployment by its path, refuses alike, and slows who fails again and again',
    ],
  },
  {
    breaks: 'one failure more is let through',
    file: 'deployments/rate-limit.ts',
    from: 'window.count > this.#limits.failuresMax ?',
    to: 'window.count > this.#limits.failuresMax + 1 ?',
    tests: ['program/hostile: hostile inputs in hosted mode'],
  },
  {
    breaks: 'bad tokens are counted by proxy',
    file: 'deployments/authenticator.ts',
    from: "clientAddress(socket?.remoteAddress ?? '', fields.raw)",
    to: "socket?.remoteAddress ?? ''",
    tests: [
      'program/hosted: behind a trusted proxy the bad tokens of one client do not turn the 401 of another one into a 429',
    ],
  },
  {
    breaks: 'a bad deployments file takes the place of a good one',
    file: 'config/watched-file.ts',
    from: 'const problem = (error as Error).message;',
    to: 'current = { tokensOf: new Map() } as Value;\n      const problem = (error as Error).message;',
    tests: ['program/hosted: a changed file counts without a restart; a bad one is told once, and what was good stays'],
  },
  {
    breaks: 'a deployments file that changed is not read again',
    file: 'config/watched-file.ts',
    from: 'setInterval(() => void reload(),',
    to: 'setInterval(() => {},',
    tests: ['program/hosted: a changed file counts without a restart; a bad one is told once, and what was good stays'],
  },
  {
    breaks: 'two reads of the deployments file overlap',
    file: 'config/watched-file.ts',
    from: 'next = reading.then(() => {',
    to: 'next = Promise.resolve().then(() => {',
    tests: ['program/hosted: of two reads of the deployments file that overlap, the one that began later counts'],
  },
  {
    breaks: 'a reload counts on a read that began before it',
    file: 'config/watched-file.ts',
    from: '      next = undefined;\n      return read();',
    to: '      return read().finally(() => {\n        next = undefined;\n      });',
    tests: ['program/hosted: of two reads of the deployments file that overlap, the one that began later counts'],
  },
  {
    breaks: 'a token ends on a date that does not exist',
    file: 'deployments/tokens.ts',
    from: 'startsWith(utc)',
    to: "startsWith('')",
    tests: ['deployments/file: a token ends on a date that exists'],
  },
  {
    breaks: 'the journal of a deployment that is gone stays open',
    file: 'deployments/journals.ts',
    from: 'if (!isThere(name)) void journal.retire()',
    to: 'if (!isThere(name)) void Promise.resolve()',
    tests: ['program/hosted: a changed file counts without a restart; a bad one is told once, and what was good stays'],
  },
  {
    breaks: 'more journals hold descriptors than may',
    file: 'deployments/journals.ts',
    from: 'if (this.#held.size < this.#max) {',
    to: 'if (this.#max > 0) {',
    tests: [
      'program/hosted: of more journals than may be open the longest unused is closed, and comes back with its next report',
    ],
  },
  {
    breaks: 'a journal that is being closed is counted as closed',
    file: 'deployments/journals.ts',
    from: 'await state.journal.close(reason);\n    ',
    to: 'this.#options.slots.release(this);\n    await state.journal.close(reason);\n    ',
    tests: [
      'program/hosted: of more journals than may be open the longest unused is closed, and comes back with its next report',
    ],
  },
  {
    breaks: 'a busy journal is closed for another one',
    file: 'deployments/journals.ts',
    from: '(journal.isClosing || journal.isBusy)',
    to: '(journal.isClosing)',
    tests: [
      'program/hosted: of 200 deployments that report at once, only as many journals hold descriptors as may, and nothing is lost',
    ],
  },
  {
    breaks: 'of idle journals the most recently used is closed',
    file: 'deployments/journals.ts',
    from: 'journal.lastUsedMs < found.lastUsedMs',
    to: 'journal.lastUsedMs > found.lastUsedMs',
    tests: [
      'program/hosted: of more journals than may be open the longest unused is closed, and comes back with its next report',
    ],
  },
  {
    breaks: 'a journal that becomes idle is not closed for those that wait',
    file: 'deployments/journals.ts',
    from: 'onIdle: () => slots.closeIdle(),',
    to: 'onIdle: () => {},',
    tests: [
      'program/hosted: of 200 deployments that report at once, only as many journals hold descriptors as may, and nothing is lost',
    ],
  },
  {
    breaks: 'journals that wait are opened in any order',
    file: 'deployments/journals.ts',
    from: 'for (const next of this.#waiting) {',
    to: 'for (const next of [...this.#waiting].reverse()) {',
    tests: ['program/hosted: a busy journal is not closed for another one; those that wait are opened in turn'],
  },
  {
    breaks: 'a journal is opened for reports that were refused',
    file: 'deployments/journals.ts',
    from: 'if (next.isBusy) this.request(next);',
    to: 'if (next.isBusy || next) this.request(next);',
    tests: [
      'program/hosted: a report that waits too long for busy journals is refused, and no journal is opened for it afterwards',
    ],
  },
  {
    breaks: 'a stop does not wait for the journals of deployments',
    file: 'deployments/journals.ts',
    from: '(journal) => journal.close()',
    to: '(journal) => void journal.close()',
    tests: ['program/hosted: each deployment has a journal of its own, which its first report opens'],
  },
  {
    breaks: 'a deployment does not say how far its journal is durable',
    file: 'deployments/journals.ts',
    from: 'lock.shareDurable(() => journal.nextSeq);',
    to: '',
    tests: [
      'program/hosted: a damaged journal, a locked one and a failing disk stop only their own deployment, which comes back by itself',
    ],
  },
  {
    breaks: 'a 401 names paths that are not in the table of endpoints',
    file: 'deployments/authenticator.ts',
    from: 'paths.map((path) =>',
    to: 'paths.map((_, path) =>',
    tests: ['event/parameters: the paths in a 401 and a 404 are those of the table'],
  },
  {
    breaks: 'the journal with the fewest files gives space first',
    file: 'deployments/journals.ts',
    from: 'b.files - a.files',
    to: 'a.files - b.files',
    tests: [
      'program/hosted: on a disk with too little free space the journal with the most files gives its oldest ones first',
    ],
  },
  {
    breaks: 'a token with a day ends when that day begins',
    file: 'deployments/tokens.ts',
    from: 'time === undefined ? ms + DAY_MS : ms',
    to: 'ms',
    tests: [
      'deployments/file: each deployment takes each of its own tokens, until the day that one ends, and nobody else’s',
    ],
  },
  {
    breaks: 'a token is printed with an end that does not exist',
    file: 'commands/token.ts',
    from: 'if (readNotAfter(text) === undefined)',
    to: 'if (text === "")',
    tests: ['program/hosted: as a process: a token can be printed with its end, which has to exist'],
  },
  {
    breaks: 'a client can fill the log with failed tokens',
    file: 'deployments/failure-log.ts',
    from: 'failure.count > 1 ||',
    to: '',
    tests: [
      'program/hosted: the first failure of each address is logged with its reason, at most 20, and never with the token',
    ],
  },
  {
    breaks: 'many addresses can fill the log with failed tokens',
    file: 'deployments/failure-log.ts',
    from: '|| this.#logged >= failuresLoggedMax',
    to: '',
    tests: [
      'program/hosted: the first failure of each address is logged with its reason, at most 20, and never with the token',
    ],
  },
  {
    breaks: 'failures that are not logged are not counted',
    file: 'deployments/failure-log.ts',
    from: 'this.#omitted += 1;',
    to: '',
    tests: [
      'program/hosted: the first failure of each address is logged with its reason, at most 20, and never with the token',
    ],
  },
  {
    breaks: 'an expired token is logged as unknown',
    file: 'deployments/failure-log.ts',
    from: 'if (own !== undefined &&',
    to: 'if (own === undefined &&',
    tests: [
      'program/hosted: the first failure of each address is logged with its reason, at most 20, and never with the token',
    ],
  },
  {
    breaks: 'a failed token is in the log',
    file: 'deployments/failure-log.ts',
    from: '      address,\n',
    to: '      address,\n      sent: failure.token,\n',
    tests: [
      'program/hosted: the first failure of each address is logged with its reason, at most 20, and never with the token',
    ],
  },
  {
    breaks: 'failed tokens are not counted',
    file: 'deployments/authenticator.ts',
    from: 'metrics.authFailures += 1;',
    to: '',
    tests: [
      'program/hosted: the first failure of each address is logged with its reason, at most 20, and never with the token',
    ],
  },
  {
    breaks: 'the log of a request does not name its token',
    file: 'deployments/authenticator.ts',
    from: 'incoming.tokenName = valid.name',
    to: 'void valid',
    tests: [
      'program/hosted: the first failure of each address is logged with its reason, at most 20, and never with the token',
    ],
  },
  {
    breaks: 'a token may read unless its entry says otherwise',
    file: 'deployments/file.ts',
    from: "const REPORT_ONLY: readonly Right[] = ['report'];",
    to: "const REPORT_ONLY: readonly Right[] = ['report', 'read'];",
    tests: [
      'deployments/file: a token may only report unless its entry says otherwise; of two entries of one token any may have the right',
    ],
  },
  {
    breaks: 'an unknown right is taken',
    file: 'deployments/file.ts',
    from: 'value.every((word) => rights.includes(word))',
    to: 'value.some((word) => rights.includes(word))',
    tests: [
      'deployments/file: a token may only report unless its entry says otherwise; of two entries of one token any may have the right',
    ],
  },
  {
    breaks: 'a token without rights is taken',
    file: 'deployments/file.ts',
    from: 'Array.isArray(value) && value.length > 0',
    to: 'Array.isArray(value)',
    tests: [
      'deployments/file: a token may only report unless its entry says otherwise; of two entries of one token any may have the right',
    ],
  },
  {
    breaks: 'of two entries of one token the last one alone decides',
    file: 'deployments/tokens.ts',
    from: '(good === undefined || has(candidate, needs))',
    to: 'true',
    tests: [
      'deployments/file: a token may only report unless its entry says otherwise; of two entries of one token any may have the right',
    ],
  },
  {
    breaks: 'a good token has every right',
    file: 'deployments/authenticator.ts',
    from: "if (needs === 'any right' || valid.may.includes(needs)) return name;",
    to: 'if (valid.may.length > 0) return name;',
    tests: [
      'deployments/file: a token without the right that a request needs gets a 403, which slows no client',
      'program/hosted: a token that may only read reports nowhere, and learns no more than any token which paths there are',
    ],
  },
  {
    breaks: 'a token without the right counts as a failure',
    file: 'deployments/authenticator.ts',
    from: 'if (valid !== undefined) {',
    to: 'if (valid !== undefined) {\n      if (failures.add(name, now).waitMs > 0) throw new Refusal(429, name);',
    tests: ['deployments/file: a token without the right that a request needs gets a 403, which slows no client'],
  },
  {
    breaks: 'a token whose entry lost the right may still read',
    file: 'deployments/tokens.ts',
    from: 'token.sha256.equals(digest) && has(token, right)',
    to: 'token.sha256.equals(digest)',
    tests: [
      'deployments/file: a token that may read stops to when it expires, or when its entry loses the right or is gone',
    ],
  },
  {
    breaks: 'a token that has expired may still read',
    file: 'deployments/tokens.ts',
    from: 'has(token, right) && isValid(token, nowMs)',
    to: 'has(token, right)',
    tests: [
      'deployments/file: a token that may read stops to when it expires, or when its entry loses the right or is gone',
    ],
  },
  {
    breaks: 'a stream continues when its token loses the right',
    file: 'service/hosted.ts',
    from: '    readings.checkAll();\n',
    to: '',
    tests: ['program/who-may-read: a stream ends at the reload at which its token loses the right, and so does a wait'],
  },
  {
    breaks: 'a stream continues when its token expires',
    file: 'deployments/open-readings.ts',
    from: 'setInterval(() => this.checkAll(), this.#checkMs)',
    to: 'setInterval(() => {}, this.#checkMs)',
    tests: ['program/who-may-read: a stream and a wait end when their token expires'],
  },
  {
    breaks: 'every stream ends at a reload',
    file: 'deployments/open-readings.ts',
    from: "if (stillMay(this.#deployments(), deployment, digest, 'read', Date.now())) return;",
    to: 'if (digest.length === 32 && this.#checking === undefined) return;',
    tests: [
      'program/who-may-read: a stream continues over a reload that leaves its token the right, and over a file that is refused',
    ],
  },
  {
    breaks: 'a token may read the journal of another deployment',
    file: 'deployments/authenticator.ts',
    from: 'findToken(known, name, token, now, needs)',
    to: "findToken(known, needs === 'read' ? 'prod' : name, token, now, needs)",
    tests: ['program/who-may-read: without the right every reading gets the same 403, whatever there is'],
  },
  {
    breaks: 'a token that may only report may read',
    file: 'service/hosted.ts',
    from: "authenticate(head, incoming, 'read')",
    to: "authenticate(head, incoming, 'any right')",
    tests: ['program/who-may-read: without the right every reading gets the same 403, whatever there is'],
  },
];
