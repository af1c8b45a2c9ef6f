/** The routes of a service, and which clients may use them. */

import type { AllAssets } from '../assets/all-assets.ts';
import { fileQueue } from '../config/file-queue.ts';
import { version } from '../config/names.ts';
import type { Config } from '../config/options-of-service.ts';
import type { Hub } from '../forward/hub/hub.ts';
import { createApp } from '../http/app.ts';
import type { App } from '../http/message.ts';
import { openApi } from '../http/openapi.ts';
import { createAccess } from '../http/origin.ts';
import { pageRoutes } from '../http/page/page.ts';
import { deploymentReadiness, readinessOf } from '../http/routes.ts';
import type { SpaceWatch } from '../journal/free-space.ts';
import { eventSchema } from '../journal/line/line-schema.ts';
import type { AssetReadings } from '../reading/assets.ts';
import type { ReadableJournals } from '../reading/journals.ts';
import { readingRoutes } from '../reading/routes.ts';
import { metricsText } from '../telemetry/metrics.ts';
import type { TestMode } from '../test-mode/test-mode.ts';
import { eraseRoute } from './erase-route.ts';
import type { Eraser } from './eraser.ts';
import type { DataFolder } from './folder.ts';
import type { Peers } from './peers.ts';
import { createFindReadable } from './readable.ts';
import type { Recording } from './recording.ts';
import type { Setup } from './setup.ts';

export interface RequestParts {
  readonly folder: DataFolder;
  readonly recording: Recording;
  readonly space: SpaceWatch;
  readonly journals: ReadableJournals;
  readonly allAssets: AllAssets;
  readonly assets: AssetReadings;
  readonly peers: Peers;
  readonly eraser: Eraser;
  readonly testMode: TestMode | undefined;
}

/** @param address the address of the listener */
export function createAppFor(address: string, setup: Setup, parts: RequestParts): App {
  const { folder, recording, space, journals, allAssets, assets, peers, eraser, testMode } = parts;
  const { hub, acks } = peers;
  const { config, notices, activity, refusals, limits, metrics, keyMemory, shutdown, refusedFiles } = setup;
  const { pathPrefix, allowedHost: allowedHosts } = config;
  const tokenHeader = config.deployments === '' ? undefined : config.tokenHeader;
  const strict = strictnessOf(config);
  const acceptsKeys = keyMemory !== undefined;
  const problem = () => {
    if (shutdown.hasBegun) return 'the service is stopping';
    return folder.trouble ?? recording.trouble ?? space.trouble ?? acks?.problem(recording.deployments());
  };
  const troubles = () => new Map([...(acks?.troubles(recording.deployments()) ?? []), ...recording.troubles()]);
  const sourcesOf: Hub['sourcesOf'] = (...asked) => hub.sourcesOf(...asked);
  const sourceFilter: Hub['sourceFilter'] = (...asked) => hub.sourceFilter(...asked);
  const readiness = () => readinessOf(problem(), { deployments: troubles(), files: filesIn(refusedFiles) });
  const readyOne = deploymentReadiness((name) =>
    readinessOf(problem() ?? troubles().get(name), { deployments: NONE, files: NONE }),
  );
  const showMetrics = async () => {
    await assets.update();
    const shown = {
      isReady: readiness().status === 200,
      freeBytes: space.freeBytes,
      keys: keyMemory,
      assets: allAssets,
      watchedAges: allAssets.ages(Date.now()),
      tokens: recording.tokens(),
      deploymentsInTrouble: troubles().size,
      filesRefused: filesIn(refusedFiles).size,
      deployments: metrics.deployments && (await recording.figures()),
      waitingReplies: acks?.waiting ?? 0,
      forwarding: peers.figures(),
      hub: hub.figures(),
    };
    return metricsText(metrics, shown, limits);
  };
  return createApp({
    acceptsKeys,
    pathPrefix,
    checkAccess: createAccess({ address, allowedHosts }),
    namesDeployment: config.deployments !== '',
    tokenHeaders: recording.tokenHeaders,
    findRecorder: recording.findRecorder,
    readings: [
      ...pageRoutes({ version, pathPrefix, tokenHeader, limits }),
      ...readingRoutes({ journals, assets, refusals, sourcesOf, sourceFilter, limits, metrics }),
      ...hub.routes(),
      ...(config.deployments === '' ? [] : [readyOne, eraseRoute(eraser, limits)]),
    ],
    findReadable: createFindReadable(config, address, recording.findReadable),
    readiness: testMode === undefined ? readiness : () => testMode.named(readiness()),
    strict,
    acks,
    tests: testMode,
    contract: (routes) =>
      JSON.stringify(
        openApi({
          server: pathPrefix || '/',
          lineSchema: eventSchema(),
          tokenHeader,
          acceptsKeys,
          strict: strict !== undefined,
          routes,
          limits,
        }),
      ),
    limits,
    metrics,
    showMetrics,
    turn: () => journals.shared.turns.take(),
    notices,
    activity,
  });
}

/** @returns why a report with an unknown parameter is refused; undefined if the parameter is ignored */
function strictnessOf({ strict, test }: Pick<Config, 'strict' | 'test'>): string | undefined {
  if (!(strict ?? test)) return undefined;
  return `${strict ? '--strict refuses it' : 'test mode is strict'}; --strict=false ignores it`;
}

/** @returns the files that a service reads again and could not read, each with the consequence. The log has the reasons. */
function filesIn(refused: ReadonlySet<string>): ReadonlyMap<string, string> {
  const files = new Map([...refused].map((path) => [path, REFUSED]));
  if (fileQueue.late !== undefined) files.set(fileQueue.late, LATE);
  return files;
}

const NONE: ReadonlyMap<string, string> = new Map();
const REFUSED = 'it is refused, and the previous version stays in effect; see the log';
const LATE = 'it does not answer, and no other file is read before it does; check its file system';
