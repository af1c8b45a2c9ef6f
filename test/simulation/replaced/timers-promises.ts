/** `node:timers/promises` in virtual time. */

interface Options {
  readonly signal?: AbortSignal | undefined;
  readonly ref?: boolean;
}

function after<Value>(
  begin: (done: () => void) => unknown,
  end: (timer: unknown) => void,
  value: Value,
  signal?: AbortSignal,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      end(timer);
      reject(
        Object.assign(new Error('The operation was aborted', { cause: signal?.reason }), {
          name: 'AbortError',
          code: 'ABORT_ERR',
        }),
      );
    };
    const timer = begin(() => {
      signal?.removeEventListener('abort', abort);
      resolve(value);
    });
    if (signal?.aborted) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });
}

export function setTimeout<Value>(ms?: number, value?: Value, { signal }: Options = {}): Promise<Value | undefined> {
  return after(
    (done) => globalThis.setTimeout(done, ms),
    (timer) => globalThis.clearTimeout(timer as NodeJS.Timeout),
    value,
    signal,
  );
}

export function setImmediate<Value>(value?: Value, { signal }: Options = {}): Promise<Value | undefined> {
  return after(
    (done) => globalThis.setImmediate(done),
    (timer) => globalThis.clearImmediate(timer as NodeJS.Immediate),
    value,
    signal,
  );
}
