/** How long something computes, whatever else has the processor meanwhile. */

/** @returns processor time of this process so far, in milliseconds: the difference of two is what was computed between them */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
