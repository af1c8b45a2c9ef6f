/** Server-Sent Events over `fetch`, since an EventSource cannot send a token header. */

/** A message of a stream: a journal line, or a change of the journal. */
export interface Message {
  /** An event type such as `AssetMaterialization`, or `gap` or `reset`. */
  readonly event: string;
  readonly data: string;
}

/** Called with all messages that arrived together. */
export type OnMessages = (messages: readonly Message[]) => void;

/** Parses the pieces of a stream (HTML standard, section 9.2.6). */
export class MessageParser {
  #rest = '';
  #event = '';
  #data: string[] = [];
  /** The last `retry:`, in milliseconds. */
  retryMs: number | undefined;

  /** @returns the messages that this piece completes */
  parse(piece: string): Message[] {
    const end = piece.lastIndexOf('\n');
    if (end === -1) {
      this.#rest += piece;
      return [];
    }
    const lines = (this.#rest + piece.slice(0, end)).split('\n');
    this.#rest = piece.slice(end + 1);
    const messages: Message[] = [];
    for (const line of lines) {
      if (line !== '') {
        this.#field(line);
      } else if (this.#data.length > 0) {
        messages.push({ event: this.#event, data: this.#data.join('\n') });
        this.#data = [];
        this.#event = '';
      }
    }
    return messages;
  }

  #field(line: string): void {
    const [, name, value = ''] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name === 'data') this.#data.push(value);
    else if (name === 'event') this.#event = value;
    else if (name === 'retry') this.retryMs = Number(value);
  }
}

/**
 * Reads a reply until it ends, or until no byte has arrived for `quietMsMax`: the connection is then dead, since the service
 * sends a comment every 15 s.
 */
export async function readStream(
  body: ReadableStream<Uint8Array>,
  parser: MessageParser,
  onMessages: OnMessages,
  quietMsMax: number,
): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const watch = () => {
    clearTimeout(timer);
    timer = setTimeout(() => void reader.cancel(), quietMsMax);
  };
  try {
    for (;;) {
      watch();
      const { done, value } = await reader.read();
      if (done) return;
      const messages = parser.parse(value);
      if (messages.length > 0) onMessages(messages);
    }
  } finally {
    clearTimeout(timer);
  }
}
