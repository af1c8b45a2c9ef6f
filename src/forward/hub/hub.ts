/**
 * A hub: other journals forward their events to the journals of this service, each event once.
 *
 * - `GET /forward/{source}` says how far the hub is with a journal.
 * - `PUT /forward/{source}/{first_seq}` takes lines of it. What is known already is not recorded again.
 */

import { journalFolder } from '../../config/config.ts';
import type { Limits } from '../../config/limits.ts';
import type { SourceFilter } from '../../event/search.ts';
import { itemReader, lineTypes, type ReadItem } from '../../http/batch.ts';
import {
  type Handler,
  type HandlerRequest,
  type LaterOutcome,
  type Recorder,
  Refusal,
  type Reply,
  unavailableRefusal,
} from '../../http/message.ts';
import { readQuery } from '../../http/request.ts';
import type { Route } from '../../http/router.ts';
import type { Disk } from '../../journal/disk.ts';
import type { JournalHooks } from '../../journal/hooks.ts';
import type { SourceQuery, SourceState } from '../../journal/look/source-state.ts';
import type { OwnProgress } from '../../journal/progress.ts';
import type { Notices } from '../../telemetry/log.ts';
import { takeForget } from './forget.ts';
import { listSources } from './listed.ts';
import {
  type ForwardHeaders,
  type ForwardPath,
  readForwarded,
  readForwardHeaders,
  readForwardPath,
  sendWith,
} from './received.ts';
import { Receiver } from './receiver.ts';

/** The path of its routes. */
export const forwardPath = '/forward';

export interface HubOptions {
  /** The data folder. */
  readonly data: string;
  /** Like `ServiceParts.openDisk`. */
  readonly openDisk: (folder: string) => Disk;
  /** Gets the values of `JournalOptions.onRecorded` of all journals. */
  readonly progress: OwnProgress;
  /** @returns the journals that the events of this one reach, as far as its destinations have said */
  readonly viaOf: (deployment: string | undefined) => readonly string[];
  readonly limits: Limits;
  readonly notices: Notices;
}

/** The receiving side of forwarding, for all journals of a service. */
export class Hub {
  readonly #options: HubOptions;
  readonly #readItem: ReadItem;
  /** By folder. Their number is bounded by that of the deployments. */
  readonly #receivers = new Map<string, Receiver>();
  /** Bytes of the bodies whose requests have no reply yet. */
  #heldBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | undefined;

  constructor(options: HubOptions) {
    this.#options = options;
    this.#readItem = itemReader(options.limits);
  }

  /** Begins to look for the sources that an operator wants to be forgotten. */
  begin(): void {
    const check = () => {
      this.#checking ??= this.#check().finally(() => {
        this.#checking = undefined;
      });
    };
    this.#timer = setInterval(check, this.#options.limits.forgetCheckMs).unref();
  }

  /** Ends that. Never rejects. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#checking;
  }

  async #check(): Promise<void> {
    const { openDisk, progress, notices } = this.#options;
    for (const [folder, receiver] of this.#receivers) {
      if (progress.nextSeq(folder) === undefined) continue; // it was never open
      await takeForget(openDisk(folder), (source) => receiver.forget(source), notices);
    }
  }

  /** @returns its routes, for `AppParts.readings` */
  routes(): readonly Route<Handler>[] {
    const { limits } = this.#options;
    const shared = { needs: 'forward', path: forwardPath, bodyTypes: lineTypes } as const;
    const { forwardBodyBytesMax: bodyBytesMax, forwardUploadBytesMax: uploadBytesMax } = limits;
    const bodyLimits = { bodyBytesMax, uploadBytesMax };
    return [
      { ...shared, methods: ['GET', 'HEAD'], followedBy: 'one component', handler: (request) => this.#ask(request) },
      {
        ...shared,
        methods: ['PUT'],
        followedBy: 'two components',
        bodyLimits,
        refusal: (bodyBytes) => this.#refusal(bodyBytes),
        handler: (request) => this.#take(request),
      },
    ];
  }

  /**
   * @param lastSeq the last durable seq of its own journal
   * @returns the journals that forward to that one, first the one that was not heard of for the longest time
   * @throws the error of a system call
   */
  sourcesOf(deployment: string | undefined, lastSeq: number, wanted: SourceQuery): Promise<Iterable<SourceState>> {
    const { sources, sightings } = this.receiverOf(deployment);
    return listSources({ deployment, sources, sightings, lastSeq }, wanted);
  }

  /** @returns the filter for the id or the name of a source. @throws the error of a system call */
  sourceFilter(deployment: string | undefined, text: string): Promise<SourceFilter> {
    return this.receiverOf(deployment).sightings.filterFor(text);
  }

  /** Number of journals that it has events of, a sum over its own journals. A journal that was not asked for since the start has none. */
  get sourceCount(): number {
    return [...this.#receivers.values()].reduce((sum, { sources }) => sum + (sources.loaded?.size ?? 0), 0);
  }

  /** Share of `limits.forwardSourcesMax`, the largest of its own journals. */
  get sourcesShare(): number {
    const { forwardSourcesMax } = this.#options.limits;
    const counts = Array.from(this.#receivers.values(), ({ sources }) => sources.loaded?.size ?? 0);
    return Math.max(0, ...counts) / forwardSourcesMax;
  }

  /** Seconds since the last request of the source that made none for the longest time; undefined if none is known. */
  get silentSeconds(): number | undefined {
    let firstMs = Number.POSITIVE_INFINITY;
    for (const { sightings, sources } of this.#receivers.values())
      if (sources.loaded !== undefined) firstMs = Math.min(firstMs, sightings.firstSeenMs ?? firstMs);
    return firstMs === Number.POSITIVE_INFINITY ? undefined : Math.max(0, Math.floor((Date.now() - firstMs) / 1000));
  }

  /** Number of events that other journals said are lost, since the start. */
  get lostEvents(): number {
    return [...this.#receivers.values()].reduce((sum, { lostEvents }) => sum + lostEvents, 0);
  }

  /**
   * Called once for each journal that is opened: also if it is opened again, or begins anew.
   * @returns hooks that hold nothing back, and keep the watermarks when files are removed
   */
  hooksOf(deployment: string | undefined): JournalHooks {
    const { sources, sightings } = this.receiverOf(deployment);
    this.#options.progress.opening(this.#folderOf(deployment));
    sources.forget();
    sightings.forget();
    return {
      heldBack: () => undefined,
      opened: (lastSeq) => sources.opened(lastSeq),
      removing: (lastSeq) => sources.removing(lastSeq),
      closed: async (lastSeq) => {
        await sightings.write();
        await sources.closed(lastSeq);
      },
    };
  }

  #ask({ keyPath, query, body, tokenName }: HandlerRequest): LaterOutcome {
    readQuery(query); // nothing in it is used, but a malformed query is refused, as in a report
    const { source } = readForwardPath(keyPath);
    if (body.length > 0) throw new Refusal(400, `a GET of this path has no body; ${sendWith}`);
    return {
      kind: 'later',
      reply: (_ending, journal) => this.receiverOf(journal!.deployment).ask(source, journal!, { tokenName }),
    };
  }

  #take({ keyPath, query, head, body, tokenName }: HandlerRequest): LaterOutcome {
    readQuery(query);
    const path = readForwardPath(keyPath);
    const { said, ...rest } = readForwardHeaders(head.fields.raw, this.#options.limits);
    const headers = { ...rest, said: { ...said, tokenName } };
    const reason = this.#refusal(body.length);
    if (reason !== undefined) throw unavailableRefusal(reason);
    return { kind: 'later', reply: (_ending, journal) => this.#record(path, headers, body, journal!) };
  }

  /** @returns why a body of so many bytes cannot be taken now */
  #refusal(bodyBytes: number): string | undefined {
    const isFull = this.#heldBytes > 0 && this.#heldBytes + bodyBytes > this.#options.limits.forwardHeldBytesMax;
    return isFull ? 'too many forwarded events wait for the disk' : undefined;
  }

  async #record(path: ForwardPath, { crc, ...said }: ForwardHeaders, body: Buffer, journal: Recorder): Promise<Reply> {
    const receiver = this.receiverOf(journal.deployment);
    const copied = Buffer.from(body); // the buffer is used again for the next body
    const read = () => readForwarded(copied, path, crc, this.#readItem, this.#options.limits);
    const bodyBytes = body.length;
    this.#heldBytes += bodyBytes;
    return receiver.take({ ...path, ...said, read }, bodyBytes, journal).finally(() => {
      this.#heldBytes -= bodyBytes;
    });
  }

  receiverOf(deployment: string | undefined): Receiver {
    const { openDisk, progress, viaOf } = this.#options;
    const folder = this.#folderOf(deployment);
    let receiver = this.#receivers.get(folder);
    if (receiver === undefined) {
      receiver = new Receiver({
        ...this.#options,
        disk: openDisk(folder),
        progress: () => progress.ofOpen(folder),
        via: () => viaOf(deployment),
      });
      this.#receivers.set(folder, receiver);
    }
    return receiver;
  }

  #folderOf(deployment: string | undefined): string {
    return journalFolder(this.#options.data, deployment);
  }
}
