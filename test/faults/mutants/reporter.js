/** A reporter of node:test: writes each step of a run immediately as a line of JSON, so that the name of a hanging test is known. */

export default async function* report(events) {
  for await (const { type, data } of events) {
    const { name, nesting, skip, todo, details } = data ?? {};
    if (type === 'test:dequeue') yield `${JSON.stringify({ kind: 'starts', name, nesting })}\n`;
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const skipped = skip !== undefined || todo !== undefined;
    const kind = skipped ? 'skipped' : type === 'test:pass' ? 'passes' : 'fails';
    yield `${JSON.stringify({ kind, name, nesting, ms: details.duration_ms })}\n`;
  }
}
