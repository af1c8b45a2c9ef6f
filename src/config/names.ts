/** The version of the program, and the forms of the names that operators give. */

import { join } from 'node:path';

/** The version in `package.json`. */
export const version = '0.4.0';

/** The form of a header's name: a token of RFC 9110 section 5.6.2. */
export const headerName = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;

/** The form of a destination's name, safe in the names of files and in metrics. */
export const destinationName = /^[a-z0-9][a-z0-9-]{0,62}$/;

/**
 * The form of a service's name at a hub: at most 64 characters, without characters that change how a terminal or a page
 * shows the text: control and format characters, such as those that change the direction of text, and line separators.
 */
export const sourceName = /^(?=.*\S)[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]{1,64}$/u;
export const SOURCE_NAME_WANTED = 'at most 64 characters, none for control or format';

/** The form of a deployment's name, safe as a folder and as a part of a path. */
export const deploymentName = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;

/**
 * @returns the folder of a journal: the folder of its deployment in the data folder, or in local mode the data folder
 * itself
 */
export function journalFolder(data: string, deployment: string | undefined): string {
  return deployment === undefined ? data : join(data, deployment);
}
