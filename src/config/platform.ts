/**
 * The differences between operating systems that the program depends on. No other file checks on which system it runs.
 */

/** The properties of a system that the program depends on. A test passes those of another system. */
export interface Platform {
  /** Has /proc, abstract sockets, and an `O_DSYNC` that reaches stable storage. */
  readonly isLinux: boolean;
  /** Has named pipes in place of socket files, cannot sync a folder, and keeps the name of a removed file while it is open. */
  readonly isWindows: boolean;
  /** Whether `Prod` and `prod` are one folder, as on the standard file systems of Windows and macOS. */
  readonly ignoresCase: boolean;
}

/** @param name a value of `process.platform`: `linux`, `darwin` or `win32` */
export function platformOf(name: NodeJS.Platform): Platform {
  const isWindows = name === 'win32';
  return { isLinux: name === 'linux', isWindows, ignoresCase: isWindows || name === 'darwin' };
}

/** The system of this process. */
export const platform: Platform = platformOf(process.platform);
