/** Mutants of the two kinds of destinations. */

import type { Mutant } from './mutant.ts';

const API = 'forward/targets: a plain upstream: what each answer means';
const ASKED =
  'forward/targets: a hub is asked: what each answer means, and that only an answer decides that there is none';
const SENT = 'forward/targets: a hub gets lines: what each answer means';
const TOKEN =
  'forward/targets: the token is read again when its file changes, is sent in its header, and is never shown';

export const forwardTargets: readonly Mutant[] = [
  {
    breaks: 'a redirect of a destination is followed, and the other server gets the token',
    file: 'forward/targets/requests.ts',
    from: 'return this.#judge(reply);',
    to: `const next = reply.headers.location;
      if (next === undefined) return this.#judge(reply);
      const headersToo = { [tokenHeader]: this.#token ?? '' };
      return this.#judge(await client.call(new URL(next), { ...call, headers: headersToo, timeoutMs: 5_000 }));`,
    tests: ['forward/targets: a redirect is never followed: the other server sees nothing, and the reason names it'],
  },
  {
    breaks: 'the page of a proxy is taken for a refusal by the upstream',
    file: 'forward/targets/api.ts',
    from: 'if (isError && REFUSED.has(status))',
    to: 'if ((isError || status !== 200) && REFUSED.has(status))',
    tests: [API],
  },
  {
    breaks: 'a 200 with an error is recorded',
    file: 'forward/targets/api.ts',
    from: ' && said !== undefined && !isError)',
    to: ' && said !== undefined)',
    tests: [API],
  },
  {
    breaks: 'any success is taken for a recorded event',
    file: 'forward/targets/api.ts',
    from: 'if (status === 200 && said',
    to: 'if (status < 300 && said',
    tests: [API],
  },
  {
    breaks: 'a page with status 200 is taken for a recorded event',
    file: 'forward/targets/api.ts',
    from: ' && said !== undefined && !isError)',
    to: ' && !isError)',
    tests: [API],
  },
  {
    breaks: 'an event that may be recorded at the upstream counts as not recorded',
    file: 'forward/targets/api.ts',
    from: "return { ...answer, kind: 'in doubt', final };",
    to: "return { ...answer, kind: final ? 'in doubt' : 'again', final } as Sent;",
    tests: [API],
  },
  {
    breaks: 'a 500 of the upstream is taken for a refusal',
    file: 'forward/targets/api.ts',
    from: "return { ...answer, kind: 'in doubt', final };",
    to: "return { ...answer, kind: answer.status === undefined ? 'in doubt' : 'refused', final } as Sent;",
    tests: [API],
  },
  {
    breaks: 'a check that the reference has recorded with a 500 is sent again',
    file: 'forward/targets/api.ts',
    from: "const final = answer.status === 500 && type === 'AssetCheckEvaluation'",
    to: "const final = answer.status === 555 && type === 'AssetCheckEvaluation'",
    tests: [API],
  },
  {
    breaks: 'each event with a partition that gets a 500 is given up',
    file: 'forward/targets/api.ts',
    from: "answer.status === 500 && type === 'AssetCheckEvaluation'",
    to: "answer.status === 500 && type !== 'AssetObservation'",
    tests: [API],
  },
  {
    breaks: 'forwarding loses digits of metadata',
    file: 'forward/targets/api.ts',
    from: 'if (!stamp) return metadata;',
    to: 'if (!stamp) return metadata && JSON.stringify(JSON.parse(metadata));',
    tests: ['forward/targets: each type of event is sent with everything in the body, as the API takes it'],
  },
  {
    breaks: 'a stamp rewrites the metadata beside it',
    file: 'forward/targets/api.ts',
    from: '${metadata.slice(0, -1)},',
    to: '${JSON.stringify(JSON.parse(metadata)).slice(0, -1)},',
    tests: ['forward/targets: a stamp is added to the metadata without changing a byte of the rest'],
  },
  {
    breaks: 'a forwarded event has the time of the hub instead of that of the device',
    file: 'forward/targets/api.ts',
    from: 'event.recorded ?? event.time,',
    to: 'event.time,',
    tests: ['forward/targets: a stamp is added to the metadata without changing a byte of the rest'],
  },
  {
    breaks: 'a 502 of a destination is final',
    file: 'forward/targets/requests.ts',
    from: "return status >= 500 ? { kind: 'unclear', status, reason }",
    to: "return status >= 500 && status !== 502 ? { kind: 'unclear', status, reason }",
    tests: [API],
  },
  {
    breaks: 'every answer that is no position decides that a destination is no hub',
    file: 'forward/targets/hub.ts',
    from: "return NO_HUB.has(status) ? { kind: 'no hub' }",
    to: "return NO_HUB.size > 0 ? { kind: 'no hub' }",
    tests: [ASKED],
  },
  {
    breaks: 'any text of a hub is taken for an id, a token as well',
    file: 'forward/targets/hub.ts',
    from: '!isId(id)',
    to: "typeof id !== 'string'",
    tests: [ASKED],
  },
  {
    breaks: 'a 502 decides that a destination is no hub',
    file: 'forward/targets/hub.ts',
    within: 'ask',
    from: "if (answer.kind !== 'answer') return answer;",
    to: "if (answer.kind !== 'answer') return answer.kind === 'again' ? { kind: 'no hub' } : answer;",
    tests: [ASKED],
  },
  {
    breaks: 'the id in the reply of a hub is not compared',
    file: 'forward/targets/hub.ts',
    from: 'if (line.event.id === id)',
    to: 'if (id !== null)',
    tests: [SENT],
  },
  {
    breaks: 'a hub that forwards to the sender is used',
    file: 'forward/targets/hub.ts',
    from: '!told.via.includes(source)',
    to: '!told.via.includes(path)',
    tests: [SENT],
  },
  {
    breaks: 'the page of a proxy in front of a hub gives an event up',
    file: 'forward/targets/hub.ts',
    from: "if (status === 413 && 'error' in said)",
    to: 'if (status === 413)',
    tests: [SENT],
  },
  {
    breaks: 'a request has more lines than a hub takes',
    file: 'forward/targets/hub.ts',
    from: 'index === linesMax || ',
    to: '',
    tests: [
      'forward/targets: as many lines as fit are sent, at least one, and fewer where a proxy takes less or a link is slow',
    ],
  },
  {
    breaks: 'a body that a slow link can not carry in time is sent again as it is',
    file: 'forward/targets/hub.ts',
    from: 'bodyBytes = Math.max(1, body.length >> 1);',
    to: 'bodyBytes = body.length;',
    tests: [
      'forward/targets: as many lines as fit are sent, at least one, and fewer where a proxy takes less or a link is slow',
    ],
  },
  {
    breaks: 'a hub does not learn what was lost',
    file: 'forward/targets/hub.ts',
    from: '...(lost !== undefined &&',
    to: '...(lost === null &&',
    tests: ['forward/targets: a hub gets the lines byte for byte, with the crc before them and what was lost'],
  },
  {
    breaks: 'a destination may ask for any pause',
    file: 'forward/targets/requests.ts',
    from: 'Math.min(retryAfterMs(headers), this.#options.limits.forwardRetryAfterMsMax)',
    to: 'retryAfterMs(headers)',
    tests: [
      'forward/targets: Retry-After is read as seconds or as a date beside the Date of the reply, and is at most an hour',
    ],
  },
  {
    breaks: 'a Retry-After date is compared with the clock of the device',
    file: 'client/delivery.ts',
    from: 'dateMs(date) || Date.now()',
    to: 'Date.now()',
    tests: [
      'forward/targets: Retry-After is read as seconds or as a date beside the Date of the reply, and is at most an hour',
    ],
  },
  {
    breaks: 'a token that a reply repeats is shown',
    file: 'client/connection.ts',
    from: 'body: mask(body)',
    to: 'body',
    tests: [TOKEN],
  },
  {
    breaks: 'a new token is used only after a restart',
    file: 'forward/targets/requests.ts',
    from: 'if (tokenFile !== undefined)',
    to: 'if (tokenFile !== undefined && this.#token === undefined)',
    tests: [TOKEN],
  },
  {
    breaks: 'a token file of two lines is sent',
    file: 'config/files.ts',
    from: '[\\x20-\\x7e]*$/',
    to: '[\\x20-\\x7e]*/',
    tests: [TOKEN],
  },
  {
    breaks: 'a reply is quoted whole',
    file: 'forward/targets/requests.ts',
    from: 'text.slice(0, QUOTED_CHARACTERS_MAX)',
    to: 'text',
    tests: ['forward/targets: a reason says what to do about the token, and quotes little of a reply, on one line'],
  },
  {
    breaks: 'the CA file is ignored',
    file: 'client/connection.ts',
    from: '...(ca !== undefined && { ca })',
    to: '...(ca === null && { ca })',
    tests: [
      'forward/targets-tls: a destination with its own CA is trusted if the CA is in its file, by name and by address',
    ],
  },
  {
    breaks: 'a certificate is not verified if there is a CA file',
    file: 'client/connection.ts',
    from: '...(ca !== undefined && { ca })',
    to: '...(ca !== undefined && { ca, rejectUnauthorized: false })',
    tests: [
      'forward/targets-tls: a certificate for another name, or out of its time, is not trusted, and the reason says what to do',
    ],
  },
  {
    breaks: 'an IPv6 address needs no certificate for it',
    file: 'client/connection.ts',
    from: 'return isProved ? undefined : problem;',
    to: "return isProved || host.includes(':') ? undefined : problem;",
    tests: ['forward/targets-tls: a certificate for another IPv6 address is not trusted'],
  },
  {
    breaks: 'a new CA is used only after a restart',
    file: 'forward/targets/requests.ts',
    from: ' || ca !== this.#ca)',
    to: ')',
    tests: [
      'forward/targets-tls: a CA file that is replaced is used for the next connection, and a bad one stops with its name',
    ],
  },
  {
    breaks: 'an error of TLS is taken for an outage',
    file: 'client/delivery.ts',
    from: 'return /CERT|SIGNATURE|SSL|TLS|EPROTO/.test(code);',
    to: "return code === '';",
    tests: [
      'forward/targets-tls: a certificate for another name, or out of its time, is not trusted, and the reason says what to do',
    ],
  },
];
