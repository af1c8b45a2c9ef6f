/** All groups of rows, for a local and for a hosted service. */

import { access, routes } from './access.ts';
import { batches } from './batches.ts';
import { encodings } from './encodings.ts';
import { formsOf, hosted, type Row, type Style } from './forms.ts';
import { forwarding } from './forwarding.ts';
import { framing, smuggling } from './framing.ts';
import { headers } from './headers.ts';
import { idempotency } from './idempotency.ts';
import { badReports, jsonBodies } from './json.ts';
import { limits } from './limits.ts';
import { pipelining, refusalsThatEnd, refusalsThatKeep, slowness } from './pipelining.ts';
import { readings, rights } from './readings.ts';
import { badRequestLines, targets } from './targets.ts';
import { tokens } from './tokens.ts';

/** @returns the groups for one way to run the service */
export function groupsFor(style: Style): Readonly<Record<string, readonly Row[]>> {
  const forms = formsOf(style);
  return {
    smuggling: smuggling(forms),
    framing: framing(forms),
    headers: headers(forms),
    targets: targets(forms, badRequestLines(forms)),
    encodings: encodings(forms),
    JSON: jsonBodies(forms, badReports(forms)),
    limits: limits(forms),
    batches: batches(forms),
    forwarding: forwarding(forms),
    idempotency: idempotency(forms),
    access: access(forms, routes(forms)),
    readings: readings(forms),
    pipelining: pipelining(forms, refusalsThatEnd(forms), refusalsThatKeep(forms)),
    slowness: slowness(forms),
  };
}

/** @returns the groups with a token in each head, without the `localOnly` rows, and with the rows for hosted services only */
export function hostedGroups(): Readonly<Record<string, readonly Row[]>> {
  const both = Object.entries(groupsFor(hosted)).map(
    ([group, rows]) => [group, rows.filter(({ localOnly }) => localOnly === undefined)] as const,
  );
  const forms = formsOf({ ...hosted, headers: [] });
  return { ...Object.fromEntries(both), tokens: [...tokens(forms), ...rights(forms)] };
}
