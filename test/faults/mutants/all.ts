/** Every mutant; the files are named after the folders of `src/`. */

import { build } from './build.ts';
import { client } from './client.ts';
import { commands } from './commands.ts';
import { config } from './config.ts';
import { deployments } from './deployments.ts';
import { embed } from './embed.ts';
import { event } from './event.ts';
import { forwardCommand } from './forward-command.ts';
import { forwardFiles } from './forward-files.ts';
import { forwardHub } from './forward-hub.ts';
import { forwardSender } from './forward-sender.ts';
import { forwardTargets } from './forward-targets.ts';
import { forwardWiring } from './forward-wiring.ts';
import { http } from './http.ts';
import { idempotency } from './idempotency.ts';
import { journalBackup } from './journal-backup.ts';
import { journalReading } from './journal-reading.ts';
import { journalRecovery } from './journal-recovery.ts';
import { journalWriting } from './journal-writing.ts';
import type { Mutant } from './mutant.ts';
import { page } from './page.ts';
import { readingEvents } from './reading-events.ts';
import { readingState } from './reading-state.ts';
import { service } from './service.ts';
import { telemetry } from './telemetry.ts';
import { testMode } from './test-mode.ts';

export const mutants: readonly Mutant[] = [
  ...build,
  ...client,
  ...commands,
  ...config,
  ...deployments,
  ...embed,
  ...event,
  ...forwardCommand,
  ...forwardFiles,
  ...forwardHub,
  ...forwardTargets,
  ...forwardSender,
  ...forwardWiring,
  ...http,
  ...idempotency,
  ...journalBackup,
  ...journalReading,
  ...journalRecovery,
  ...journalWriting,
  ...page,
  ...readingEvents,
  ...readingState,
  ...service,
  ...telemetry,
  ...testMode,
];
