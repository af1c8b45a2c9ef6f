/**
 * A hub: other journals forward their events to the journals of this service, each event once.
 *
 * - `GET /forward/{source}` returns the last event of a journal that this hub has.
 * - `PUT /forward/{source}/{first_seq}` records lines of the journal. An event that the hub already has is not recorded
 *   again.
 */

import type { Limits } from '../../config/limits.ts';
import { journalFolder } from '../../config/names.ts';
import type { SourceFilter } from '../../event/search.ts';
import { batchItemReader, lineTypes, type ReadItem } from '../../http/batch.ts';
import {
  type Handler,
  type HandlerRequest,
  type LaterHandled,
  type Recorder,
  Refusal,
  type Reply,
  unavailableRefusal,
} from '../../http/message.ts';
import { readQuery } from '../../http/request.ts';
import type { Route } from '../../http/router.ts';
import type { Disk } from '../../journal/disk.ts';
import type { Follower } from '../../journal/follower.ts';
import type { SourceQuery, SourceState } from '../../journal/look/source-state.ts';
import type { OwnProgress } from '../../journal/progress.ts';
import type { Notices } from '../../telemetry/log.ts';
import type { HubFigures } from '../../telemetry/metrics.ts';
import type { Deployment } from '../settings.ts';
import {
  describeAsk,
  describeForward,
  type ForwardRequest,
  readForwardHeaders,
  readForwardPath,
  sendWith,
} from './received.ts';
import { Receiver } from './receiver.ts';
import { isMeantBy } from './sources.ts';

export interface HubOptions {
  /** The data folder. */
  readonly data: string;
  /** Like `ServiceParts.openDisk`. */
  readonly openDisk: (folder: string) => Disk;
  /** Whether files of journals are ever removed. */
  readonly removes: boolean;
  /** The progress of all journals. */
  readonly progress: OwnProgress;
  readonly limits: Limits;
  readonly notices: Notices;
}

/** The receiving side of forwarding, for all journals of a service. */
export class Hub {
  readonly #options: HubOptions;
  readonly #readItem: ReadItem;
  /** The receivers by folder, at most one for each deployment. */
  readonly #receivers = new Map<string, Receiver>();
  /** Bytes of the bodies whose requests are not answered yet. */
  #heldBytes = 0;

  constructor(options: HubOptions) {
    this.#options = options;
    this.#readItem = batchItemReader(options.limits);
  }

  /**
   * Forgets a source of an open journal, durably.
   * @returns whether it was known. @throws the error of a system call
   */
  forget(deployment: Deployment, source: string): Promise<boolean> {
    return this.receiverOf(deployment).forget(source);
  }

  /**
   * Binds sources of an open journal to the name of a token, durably.
   * @param bound the name of a token, to bind all its sources; undefined for the source with the id
   * @param token undefined for the next token that arrives
   * @returns how many sources were selected. @throws the error of a system call
   */
  bind(
    deployment: Deployment,
    id: string | undefined,
    bound: string | undefined,
    token: string | undefined,
  ): Promise<number> {
    return this.receiverOf(deployment).bind(isMeantBy(id, bound), token);
  }

  /** @returns its routes, for `AppParts.readings` */
  routes(): readonly Route<Handler>[] {
    const { limits } = this.#options;
    const { forwardBodyBytesMax: bodyBytesMax, forwardUploadBytesMax: uploadBytesMax } = limits;
    const shared = { needs: 'forward', path: '/forward', bodyTypes: lineTypes } as const;
    return [
      {
        ...shared,
        methods: ['GET', 'HEAD'],
        followedBy: 'one component',
        handler: (request) => this.#ask(request),
        describe: describeAsk,
      },
      {
        ...shared,
        methods: ['PUT'],
        followedBy: 'two components',
        acceptsGzip: true,
        bodyLimits: { bodyBytesMax, uploadBytesMax },
        refusal: (bodyBytes) => this.#refusal(bodyBytes),
        handler: (request) => this.#take(request),
        describe: () => describeForward(limits),
      },
    ];
  }

  /**
   * @param lastSeq the last durable seq of the journal
   * @returns its sources in the order of `Sightings.list`. The state of each is read when the iteration reaches it
   * @throws the error of a system call
   */
  async sourcesOf(deployment: Deployment, lastSeq: number, wanted: SourceQuery): Promise<Iterable<SourceState>> {
    const { sources, sightings } = this.receiverOf(deployment);
    await sightings.load();
    return sightings.list(await sources.view(lastSeq), deployment, wanted);
  }

  /** @returns the filter for the id or the name of a source. @throws the error of a system call */
  sourceFilter(deployment: Deployment, text: string): Promise<SourceFilter> {
    return this.receiverOf(deployment).sightings.filterFor(text);
  }

  /**
   * Figures for the metrics. A journal that no source has asked since the start counts as a journal without sources.
   */
  figures(): HubFigures {
    const receivers = [...this.#receivers.values()];
    const loaded = receivers.filter(({ sources }) => sources.loaded !== undefined);
    const counts = loaded.map(({ sources }) => sources.loaded!.sources.size);
    const firstMs = Math.min(...loaded.map(({ sightings }) => sightings.firstSeenMs));
    return {
      sources: counts.reduce((sum, count) => sum + count, 0),
      sourcesShare: Math.max(0, ...counts) / this.#options.limits.forwardSourcesMax,
      silentSeconds: Number.isFinite(firstMs) ? Math.max(0, Math.floor((Date.now() - firstMs) / 1000)) : undefined,
      lostEvents: receivers.reduce((sum, { lostEvents }) => sum + lostEvents, 0),
      ...sumOf(loaded.map(({ sightings }) => sightings.stopped())),
    };
  }

  /** Called before a journal is opened, also if it is opened again or emptied. @returns its follower */
  followerOf(deployment: Deployment): Follower {
    const { data, progress, removes } = this.#options;
    progress.opening(journalFolder(data, deployment));
    return this.receiverOf(deployment).reopen(removes);
  }

  #ask({ keyPath, query, head, body, tokenName }: HandlerRequest): LaterHandled {
    readQuery(query); // unused, but a malformed query is refused like in a report
    const { source } = readForwardPath(keyPath);
    const { eras, ...said } = readForwardHeaders(source, head.fields.raw);
    if (body.length > 0) throw new Refusal(400, `a GET of this path has no body; ${sendWith}`);
    return {
      kind: 'later',
      reply: (_ending, journal) => this.receiverOf(journal!.deployment).ask(eras, journal!, { ...said, tokenName }),
    };
  }

  #take({ keyPath, query, head, body, tokenName }: HandlerRequest): LaterHandled {
    readQuery(query);
    const path = readForwardPath(keyPath);
    const headers = readForwardHeaders(path.source, head.fields.raw);
    const reason = this.#refusal(body.length);
    if (reason !== undefined) throw unavailableRefusal(reason);
    const request = { ...path, ...headers, tokenName, body };
    return { kind: 'later', reply: (_ending, journal) => this.#record(request, journal!) };
  }

  /** @returns why a body of `bodyBytes` cannot be accepted now */
  #refusal(bodyBytes: number): string | undefined {
    const isFull = this.#heldBytes > 0 && this.#heldBytes + bodyBytes > this.#options.limits.forwardHeldBytesMax;
    return isFull ? 'too many forwarded events wait for the disk' : undefined;
  }

  async #record(request: ForwardRequest, journal: Recorder): Promise<Reply> {
    const receiver = this.receiverOf(journal.deployment);
    const body = Buffer.from(request.body); // the buffer of the request is reused for the next body
    this.#heldBytes += body.length;
    return receiver.take({ ...request, body }, journal).finally(() => {
      this.#heldBytes -= body.length;
    });
  }

  receiverOf(deployment: Deployment): Receiver {
    const { data, openDisk, progress } = this.#options;
    const folder = journalFolder(data, deployment);
    let receiver = this.#receivers.get(folder);
    if (receiver === undefined) {
      receiver = new Receiver({
        ...this.#options,
        readItem: this.#readItem,
        disk: openDisk(folder),
        progress: () => progress.ofOpen(folder),
      });
      this.#receivers.set(folder, receiver);
    }
    return receiver;
  }
}

/** @returns the sums over all journals */
function sumOf(all: readonly Pick<HubFigures, 'sourcesStopped' | 'unsentEvents'>[]) {
  return {
    sourcesStopped: all.reduce((sum, { sourcesStopped }) => sum + sourcesStopped, 0),
    unsentEvents: all.reduce((sum, { unsentEvents }) => sum + unsentEvents, 0),
  };
}
