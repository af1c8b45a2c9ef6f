/** What a client of NATS writes, and a server answers. */

export interface Published {
  readonly subject: string;
  /** Empty for none. */
  readonly reply: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: string;
  /** Bytes of headers and payload. */
  readonly size: number;
}

/** @returns the messages in what a client wrote at once, which are whole */
export function publishedIn(bytes: Buffer): Published[] {
  const messages: Published[] = [];
  for (let at = 0; at < bytes.length; ) {
    const newline = bytes.indexOf('\r\n', at);
    const [verb, subject = '', ...rest] = bytes.toString('latin1', at, newline).split(' ');
    at = newline + 2;
    if (verb !== 'PUB' && verb !== 'HPUB') continue;
    const size = Number(rest.at(-1));
    const headerSize = verb === 'HPUB' ? Number(rest.at(-2)) : 0;
    const lines = bytes
      .toString('latin1', at, at + headerSize)
      .split('\r\n')
      .slice(1, -2);
    messages.push({
      subject,
      reply: rest[0]!,
      headers: Object.fromEntries(lines.map((line) => line.split(':') as [string, string])),
      payload: bytes.toString('utf8', at + headerSize, at + size),
      size,
    });
    at += size + 2;
  }
  return messages;
}

export function messageOf(subject: string, payload: object | undefined): string {
  const text = payload === undefined ? '' : JSON.stringify(payload);
  return `MSG ${subject} 1 ${Buffer.byteLength(text)}\r\n${text}\r\n`;
}

/** Nothing takes the subject of a request. */
export function noResponders(subject: string): string {
  const headers = 'NATS/1.0 503\r\n\r\n';
  return `HMSG ${subject} 1 ${headers.length} ${headers.length}\r\n${headers}\r\n`;
}

export function errorOf(err_code: number, description: string): object {
  return { error: { code: 400, err_code, description } };
}
