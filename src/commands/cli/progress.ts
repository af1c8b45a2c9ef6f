/** The progress line of a long command. */

import type { Output } from './command.ts';

const SHOWN_MS = 100;

/**
 * Limits the rate of a progress line to ten texts a second.
 * @returns a function to call at each step; `textAt` gets the seconds since the start
 */
export function createProgress(progress: Output['progress']): (textAt: (seconds: number) => string) => void {
  const startedMs = performance.now();
  let shownMs = startedMs;
  return (textAt) => {
    const nowMs = performance.now();
    if (nowMs - shownMs < SHOWN_MS) return;
    shownMs = nowMs;
    progress(textAt((nowMs - startedMs) / 1000));
  };
}

/** Shows the bytes that are read so far: `40 %  81.2 MB of 203.0 MB, 310 MB/s`. */
export function createByteProgress(progress: Output['progress']): (readBytes: number, totalBytes: number) => void {
  const show = createProgress(progress);
  return (read, total) =>
    show((seconds) => {
      const percent = Math.floor((100 * read) / Math.max(1, total));
      return `${percent} %  ${megabytes(read)} of ${megabytes(total)}, ${(read / 1e6 / seconds).toFixed(0)} MB/s`;
    });
}

/** @returns bytes in units of 1,000,000: `1.5 MB` */
export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
