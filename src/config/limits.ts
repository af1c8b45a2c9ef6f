/** Every limit with its unit. Whatever is bounded is handed its limit from here, so that a test can hand in another. */

export const KIB = 1024;
export const MIB = 1024 * KIB;

/** What the service bounds, and where. Names end in their unit. */
export const limits = {
  /** One request's body. */
  bodyBytesMax: 1 * MIB,
  /** Bodies that are being received, of all connections together. */
  uploadBytesMax: 16 * MIB,
  /** Of buffers for large bodies: how many are kept for the next ones. */
  roomsMax: 8,
  /** A body beyond this is refused before it is sent where there is no room for it; a smaller one is on its way already. */
  largeBodyBytes: 64 * KIB,
  /** An upload on which nothing came for so long may be ended for others that need its memory. */
  stalledUploadMs: 1_000,
  /** Requests of a connection whose replies are not out: at so many, reading pauses until half of them are. At least 2. */
  pipelinedMax: 16,
  /**
   * The same, parsed: Node parses all of the 64 KiB that it read, so a pause comes too late. The last of so many ends its
   * connection, and what comes after it is ignored (RFC 9112 section 9.6). Each takes about 3 KB.
   */
  unansweredMax: 64,
  /** Request line and headers together, with their line ends. */
  headBytesMax: 16 * KIB,
  headersMax: 100,
  /** An asset key as UTF-8, with one byte between its parts. */
  keyBytesMax: 4 * KIB,
  /** Of the object that a body is; what is inside metadata is not counted. */
  bodyMembersMax: 1_000,
  /** Nesting of arrays and objects in JSON; the outermost is 1. */
  jsonDepthMax: 128,
  /** From the first byte of a request, or from the connection's start, to the end of its headers. */
  headersMs: 10_000,
  /** From the first byte of a request to the last of its body. */
  requestMs: 30_000,
  /** A kept connection without a request. Longer than the 60 s of common proxies, so that they close first. */
  idleMs: 75_000,
  /** A connection that idled for so long may be closed for a new one at the cap; a younger one may be about to send. */
  evictableMs: 1_000,
  /** How often connections are checked for the limits above. */
  deadlineCheckMs: 500,
  /** Of an upload that was refused before its end: read and thrown away so that the client can read the reply. */
  discardBytesMax: 4 * MIB,
  discardMs: 5_000,
  /** What a stop gives a connection on which nothing has come yet: its first request may be on the way. */
  silentMs: 100,
  /** What a stop waits for requests that are still being received. */
  drainMs: 10_000,
  /** What the last replies get to leave before a service whose disk failed ends. */
  lastRepliesMs: 1_000,
  /** Memory of the events that wait for the disk, with a share for each report. */
  queueBytesMax: 16 * MIB,
  /** The same of all deployments together. */
  backlogBytesMax: 64 * MIB,
  queueEventBytes: 2 * KIB,
  /** What is recorded of a larger body waits as bytes of its own, so that the body is not held by parts of it. */
  heldBodyBytesMax: 4 * KIB,
  /** Bytes of one write; what is beyond it waits for the next. A single larger line is a write of its own. */
  batchBytesMax: 4 * MIB,
  /** One line of the journal. A body's every byte may need three in its line: U+0085 is escaped. */
  lineBytesMax: 4 * MIB,
  /**
   * What a start may cut off after a crash: one interrupted write. That has `batchBytesMax` or one line. Version 0.1.0 counted
   * characters, and not what surrounds the members: of ASCII its writes have up to 5 MiB.
   */
  tornBytesMax: 8 * MIB,
  /** Between two attempts at a disk that refused a write, while nobody reports. */
  probeMs: 1_000,
  /** Between two attempts to open a journal on a full disk, doubled each time. Enough free space ends the pause. */
  openRetryMs: 1_000,
  openRetryMsMax: 30_000,
  /** Besides the copy that a start makes: what the file system needs for itself, and other programs for a moment. */
  openReserveBytes: 64 * KIB,
  /** A write or sync that takes longer is told, and further reports are refused until it ends. */
  diskAnswerMs: 10_000,
  /** What a stop waits for the last sync. */
  lastSyncMs: 20_000,
  /** What the end of the process waits for a system call that is still under way; after that it ends by SIGKILL. */
  lastCallMs: 1_000,
  /** Between two looks at the free space. */
  spaceCheckMs: 1_000,
  /** Free space below which a service is not ready, unless --min-free-bytes says otherwise; less on a small disk. */
  minFreeBytes: 64 * MIB,
  minFreePercent: 5,
  /** What a 503 tells the client to wait. */
  retryAfterSeconds: 1,
  /** Of a refused value, in an error. */
  shownCharactersMax: 100,
  /** Between two notices that connections are turned away. */
  notAcceptedNoticeMs: 60_000,
  /** Distinct names that are logged once each; later ones are not logged. */
  oncePerNameMax: 1_000,
  /** A deployment's journal is closed when no report came for so long. */
  idleJournalMs: 300_000,
  /**
   * Journals of deployments that are open, being opened or being closed at a time; each takes three file descriptors, and a
   * few more while it is opened. For another one the least recently used idle one is closed; if all are busy, it waits.
   */
  openJournalsMax: 1_000,
  /** What reports wait for their deployment's journal to be opened. Once it takes longer, each gets 503 at once. */
  openWaitMs: 5_000,
  /** Between two attempts to open a deployment's journal that is out of order. */
  reopenMs: 5_000,
  /** Between two looks at whether the deployments file changed. */
  deploymentsCheckMs: 5_000,
  deploymentsBytesMax: 16 * MIB,
  /** Requests without a good token: how many of an address get 401 in so long, before the others get 429. */
  failuresMax: 20,
  failuresMs: 60_000,
  /** Of addresses that failed: how many are remembered. */
  failedAddressesMax: 10_000,
  /** How long a start waits for rivals that start at the same moment, and for the answer of each. */
  lockMs: 800,
  lockAnswerMs: 300,
  lockAnswerBytesMax: 256,
  /** Between two looks at whether the lock file is still there, besides the one after each write. A second start takes longer. */
  lockCheckMs: 500,
  healthcheckMs: 3_000,
  /** Between two looks of a reader at whether the journal has grown. Not fs.watch: it says nothing on many file systems. */
  followMs: 200,
  /** How often `verify` lists a folder again, from which retention removes files while it reads. */
  verifyLooksMax: 20,
  /** Of a damaged file: pieces of consecutive lines that `repair` tells apart, at 50 bytes of memory each. */
  salvagePiecesMax: 500_000,
  /** In a stretch of damaged bytes as long as a line: beginnings of lines that `repair` tries, and ends for each. */
  hiddenLinesMax: 50,
  /** Of a damaged file: unproved lines and removed places that `repair` lists one by one; further ones are counted. */
  repairListMax: 1_000,
  /** Places of damage that a reader tells one by one; further ones are counted. */
  remarksMax: 20,
  /** Between two looks for files that are too old, besides those behind a start and a rotation. */
  retainCheckMs: 3_600_000,
  /** What a command waits for a connection, and behind a report that it sent for the whole reply. */
  connectMs: 10_000,
  replyMs: 60_000,
  /** A connection that idled longer is not used again: the reference closes its own after 5 s. */
  keptMs: 1_000,
  /** Of a reply, what a command reads; the rest is not waited for. */
  replyBytesMax: 64 * KIB,
  /** Between two attempts at a report, doubled each time. */
  retryMs: 250,
  retryMsMax: 10_000,
  tokenBytesMax: 8 * KIB,
  /** Where memory is scarce: how much of bodies may arrive between two garbage collections. */
  collectBytes: 16 * MIB,
} as const satisfies Record<string, number>;

/** Of `embed.ts`: what `waitFor` waits, and how many events and refusals its error shows, cut at so many characters. */
export const waitLimits = {
  waitMs: 5_000,
  shownMax: 5,
  shownCharactersMax: 300,
} as const satisfies Record<string, number>;

export type Limits = { readonly [Name in keyof typeof limits]: number };

/** From this much memory on the caps of bodies and queues need not be lower. */
const AMPLE_MEMORY_BYTES = 512 * MIB;

/**
 * The caps of bodies and queues in proportion to the memory. No cap is so low that a report which is allowed could never be
 * taken, so much below 64 MiB they no longer keep the process within its memory.
 * @param memoryBytes that the process may use: see `readMemoryBytesMax`
 * @returns `limits` itself where the memory is ample
 */
export function limitsFor(memoryBytes: number): Limits {
  if (memoryBytes >= AMPLE_MEMORY_BYTES) return limits;
  const share = (cap: number, least: number) => Math.max(least, Math.floor((cap * memoryBytes) / AMPLE_MEMORY_BYTES));
  const queueBytesMax = share(limits.queueBytesMax, limits.lineBytesMax + limits.queueEventBytes);
  return {
    ...limits,
    uploadBytesMax: share(limits.uploadBytesMax, 2 * limits.bodyBytesMax),
    roomsMax: share(limits.roomsMax, 1),
    queueBytesMax,
    backlogBytesMax: share(limits.backlogBytesMax, queueBytesMax),
    batchBytesMax: share(limits.batchBytesMax, limits.bodyBytesMax),
    collectBytes: share(limits.collectBytes, limits.bodyBytesMax),
  };
}
