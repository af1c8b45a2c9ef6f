/** @returns the entries with this message. @param log JSON lines, such as `service.stderr()` */
export function entriesOf(log: string | readonly string[], message: string): Record<string, unknown>[] {
  const lines = typeof log === 'string' ? log.split('\n').slice(0, -1) : log;
  return lines.filter((line) => line.includes(`"message":${JSON.stringify(message)}`)).map((line) => JSON.parse(line));
}
