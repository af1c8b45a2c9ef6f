/** Every limit, with its unit in the name. Code receives its limits as an argument, so that a test can pass others. */

export const KIB = 1024;
export const MIB = 1024 * KIB;

/** The limits of the service and of its commands. */
export const limits = {
  /** Body of one request. */
  bodyBytesMax: 1 * MIB,
  /** Bodies that are being received, on all connections together. */
  uploadBytesMax: 16 * MIB,
  /** The part of `uploadBytesMax` for bodies of forwarded events. The rest is for the bodies of reports. */
  forwardUploadBytesMax: 8 * MIB,
  /**
   * Compressed bodies that are decompressed at a time. Node has four threads for this and for system calls, and writes need
   * one.
   */
  unpackingMax: 2,
  /** Buffers for large bodies that are kept for reuse. */
  spareBuffersMax: 8,
  /** A larger body is refused before its upload if its report could not be recorded now; a smaller one is already in transit. */
  largeBodyBytes: 64 * KIB,
  /** An upload that received no bytes for this long may be ended if other uploads need its memory. */
  stalledUploadMs: 1_000,
  /**
   * A connection may send pieces of bodies: chunks, and the parts of a chunk in separate TCP segments. Node's parser makes a call for
   * each piece, so 1 MiB in chunks of one byte costs a second. Every `bodyPieceBytes` bytes pay for one piece, and the connection may
   * owe the bytes of `unpaidPiecesMax` pieces.
   */
  bodyPieceBytes: 16,
  unpaidPiecesMax: 4_000,
  /** Requests of a connection whose replies are not sent: at this number, reading pauses until half of them are. At least 2. */
  pipelinedMax: 16,
  /**
   * Parsed requests of a connection whose replies are not sent. They can be more than `pipelinedMax`, since Node parses all of
   * the 64 KiB that it read before a pause takes effect. The request that reaches this number ends its connection, and the
   * bytes after it are ignored (RFC 9112 section 9.6). Each request uses about 3 KB.
   */
  unansweredMax: 64,
  /** Request line and headers together, including line ends. */
  headBytesMax: 16 * KIB,
  headersMax: 100,
  /** An asset key in UTF-8, with one byte between its parts. */
  keyBytesMax: 4 * KIB,
  /** Visible ASCII characters of an idempotency key. */
  idempotencyKeyCharactersMax: 255,
  /** Items of one batch, and wrong items that its reply describes. */
  batchItemsMax: 10_000,
  batchErrorsMax: 100,
  /** Top-level members of the JSON object in a body; members inside metadata are not counted. */
  bodyMembersMax: 1_000,
  /** Nesting depth of arrays and objects in JSON; the outermost has depth 1. */
  jsonDepthMax: 128,
  /** Time from the first byte of a request, or from the start of the connection, to the end of its headers. */
  headersMs: 10_000,
  /** Time from the first byte of a request to the last byte of its body. */
  requestMs: 30_000,
  /** Idle timeout of a keep-alive connection. Longer than the 60 s of common proxies, so that they close first. */
  idleMs: 75_000,
  /** The idle timeouts that can be chosen: longer than `headersMs`, so that slow requests get 408; the longest of proxies is 6,000 s. */
  leastIdleMs: 15_000,
  idleMsMax: 7_200_000,
  /**
   * A client that has read nothing of its replies for this long is disconnected, whatever its idle timeout, because the replies
   * use memory.
   */
  unreadMs: 75_000,
  /** At `maxConnections`, a connection idle for this long is closed for a new one; after a shorter time it might be about to send. */
  evictableMs: 1_000,
  /** Interval at which connections are checked against the limits above. */
  deadlineCheckMs: 500,
  /** How much of an upload is read and discarded after its refusal, and for how long, so that the client can read the reply. */
  discardBytesMax: 4 * MIB,
  discardMs: 5_000,
  /** Forwarding: bytes of the lines in one request to a hub, and of the largest body that a hub accepts, so that any line fits. */
  forwardBatchBytes: 1 * MIB,
  forwardBodyBytesMax: 4 * MIB,
  /** Forwarding: lines of one insert into ClickHouse. */
  insertBytes: 4 * MIB,
  insertLinesMax: 10_000,
  /**
   * Number of journals whose events one journal of a hub has, and the percentage of it at which a warning is logged.
   */
  forwardSourcesMax: 50_000,
  forwardSourcesWarnedPercent: 90,
  /** At the limit, a journal without an event for this long is forgotten to free a place for another one. */
  forwardForgottenMs: 90 * 86_400_000,
  /** Bytes of the names and numbers that a hub stores for a source, and how soon it stores them, and a new name. */
  seenBytesMax: 1_024,
  seenWriteMs: 10_000,
  seenNamedMs: 1_000,
  /**
   * Bytes a second that a hub writes about how far it is with other journals, if lines that it left out changed that. The whole file is written, each
   * `seenWriteMs` or later.
   */
  snapshotRateBytes: 100_000,
  /**
   * After this long without an event, a pipe asks its hub, which otherwise could not distinguish a silent device from a lost one.
   */
  forwardIdleMs: 600_000,
  /**
   * Parts of a journal that a hub has after events that it does not have, and ranges of events that are lost. Others count as
   * present.
   */
  forwardPartsMax: 64,
  /**
   * Requests of one source that wait at a hub for the previous request, and bytes of all bodies that are not recorded yet.
   */
  forwardWaitingMax: 4,
  forwardHeldBytesMax: 8 * MIB,
  /** Part of `forwardHeldBytesMax` that is parsed at a time for one journal of a hub: events use about ten times as much memory. */
  forwardParsedBytesMax: 2 * MIB,
  /** Senders that may be active at a time, for the destinations of all journals together. */
  sendersMax: 64,
  /** Timeout of one request to a destination, and how long a stop waits for the request in flight. */
  forwardRequestMs: 30_000,
  forwardStopMs: 5_000,
  /**
   * An idle connection to a hub is kept for this time, which is less than the `idleMs` of the hub and 60 s of common proxies. Node
   * keeps it for a shorter time if the hub announces one in `Keep-Alive`.
   */
  forwardKeptMs: 30_000,
  /** Timeout of an answer of a NATS server, and the interval of repeated requests: without a leader the server drops them. */
  natsAnswerMs: 5_000,
  natsRepeatMs: 250,
  /** Lines of the largest batch that NATS stores. Bytes of a line of its protocol, such as INFO with all servers, and of a message. */
  natsBatchLinesMax: 1_000,
  natsControlBytesMax: 64 * KIB,
  natsMessageBytesMax: 8 * MIB,
  /**
   * Bytes a second beyond which a connection to it is closed. Each line and each chunk counts more than its bytes, since it costs time.
   */
  natsSecondBytesMax: 32 * MIB,
  natsPieceBytes: 4 * KIB,
  /** How long a reply waits for the destination of `--ack`. */
  ackMs: 10_000,
  /**
   * The longest backoff for the destination of `--ack`, since clients wait for it too, and for an engine, which few pipes use.
   */
  nearRetryMsMax: 5_000,
  /** Bytes of a file with the certificates of authorities. */
  caBytesMax: 1 * MIB,
  /** Exponential backoff with full jitter while a destination does not answer, and the longest `Retry-After` that is obeyed. */
  forwardRetryMs: 500,
  forwardRetryMsMax: 60_000,
  forwardRetryAfterMsMax: 3_600_000,
  /** Interval of attempts of a stopped pipe. */
  forwardStoppedMs: 60_000,
  /** Pause of a pipe that waits for its service, and of a pipe that passes only unwanted events. */
  forwardCheckMs: 1_000,
  /**
   * Interval at which the cursor of a hub is saved, since the hub itself reports which events it has, and at which
   * files of an operator are checked.
   */
  forwardLookMs: 10_000,
  /** The shortest time between two writes of a state in which only times have changed. */
  forwardStateMs: 5_000,
  /** Time after which an unanswered request is shown. */
  forwardSlowMs: 5_000,
  /** Requests for an event in doubt before the next event is tried, and refusals in a row at which a pipe stops. */
  forwardTriesMax: 3,
  forwardRefusalsMax: 20,
  /**
   * How long a hook may fail with an event until the event is given up, and how many hooks in a row may post an event.
   */
  hookFailingMs: 300_000,
  hooksPassedMax: 3,
  /** Bytes of the dead letters of one destination of one journal, and their largest share of `--retain-bytes`. */
  deadLetterBytesMax: 64 * MIB,
  deadLetterRetainPercent: 25,
  /** After an outage of this length, the first event waits a random time of up to `forwardSpreadMsMax`, and the rate starts at 1/s. */
  forwardOutageMs: 60_000,
  forwardSpreadMsMax: 30_000,
  /**
   * How long events are collected after a request to a hub, unless `lingerMs` says otherwise, and their number at which they are read.
   */
  forwardLingerMs: 1_000,
  forwardLingerEventsMax: 64,
  /** How long a shutdown keeps a connection that has sent no byte yet: its first request might be in transit. */
  firstByteMs: 100,
  /** How long a shutdown waits for requests that are still being received. */
  drainMs: 10_000,
  /** How long a service whose disk failed waits for its last replies to be sent before it exits. */
  lastRepliesMs: 1_000,
  /** Memory of the events that wait to be written, with `queueEventBytes` of overhead for each report. */
  queueBytesMax: 16 * MIB,
  queueEventBytes: 2 * KIB,
  /** The sum of all `queueBytesMax` in hosted mode. */
  backlogBytesMax: 64 * MIB,
  /** Memory of the events that `events --by event_time` sorts. */
  sortBytesMax: 256 * MIB,
  /** Memory overhead of each further line of a report with several lines, until they are written. */
  queueLineBytes: 256,
  /** Bytes of one write; further reports wait for the next write. A report whose lines are larger is written alone. */
  batchBytesMax: 4 * MIB,
  /** --commit-delay: the longest pause before a write (clients have timeouts), and the bytes of lines that end it. */
  commitDelayMsMax: 1_000,
  commitDelayBytes: 64 * KIB,
  /** One line of the journal. A byte of a body can become three bytes in its line: U+0085 is escaped. */
  lineBytesMax: 4 * MIB,
  /**
   * Bytes that a start may truncate after a crash: one interrupted write, which has at most `batchBytesMax` or the lines of one
   * request. The lines of a body of 1 MiB without idempotency keys have at most 4 MiB; a batch with larger lines gets 413.
   * Version 0.1.0 counted characters instead of bytes, and only those of the members: its writes have up to 5 MiB of ASCII.
   */
  tornBytesMax: 8 * MIB,
  /** Idempotency keys that are remembered, for all deployments together, unless --idempotency-keys is set; 32 bytes each. */
  idempotencyKeysMax: 1_000_000,
  /** Events that are erased at a time, since their seqs are in memory. */
  eraseEventsMax: 1_000_000,
  /** Segments that a service rewrites while its journal is closed; reports wait for `openWaitMs`. */
  eraseSegmentsMax: 4,
  /** Ids that one call of a command can contain. */
  eraseIdsMax: 1_000,
  /** Bytes of closed files without a sidecar that a start reads for idempotency keys. */
  keyScanBytesMax: 256 * MIB,
  /**
   * A closed file of at most this many bytes is read again, to check the keys in memory against its lines. Only tests do
   * that.
   */
  keyCheckBytesMax: 0,
  /**
   * Repeated reports whose first lines are read at a time, for comparison. Node has four threads for system calls, and writes need
   * one.
   */
  keyReadsMax: 2,
  /** Sidecars that wait to be written; further sidecars are left out, and a start reads their journal files instead. */
  sidecarsWaitingMax: 16,
  /** Interval of attempts to use a disk that refused a write, while no report arrives. */
  probeMs: 1_000,
  /** Pause between attempts to open a journal on a full disk, doubled each time. Enough free space ends the pause early. */
  openRetryMs: 1_000,
  openRetryMsMax: 30_000,
  /**
   * Free space that a start leaves in addition to the copy that it creates, for the file system itself and for other
   * programs.
   */
  openReserveBytes: 64 * KIB,
  /** A write or sync that takes longer is logged, and new reports are refused until it ends. */
  diskAnswerMs: 10_000,
  /** How long a shutdown waits for the last sync. */
  lastSyncMs: 20_000,
  /** How long the exit of the process waits for a pending system call; after that the process ends itself with SIGKILL. */
  lastCallMs: 1_000,
  /**
   * Size at which a journal file is closed, unless --segment-bytes is set: `segmentBytes`, or `segmentPercent` of a smaller
   * --retain-bytes or --keep-free, since only closed files can be removed.
   */
  segmentBytes: 64 * MIB,
  leastSegmentBytes: 4 * KIB,
  segmentPercent: 25,
  /** Below --keep-free the only file of a journal is closed at this size, so that it can be removed. */
  earlyCloseBytes: 64 * KIB,
  /** A jump of the system's clock by more than this is logged. */
  clockJumpMs: 86_400_000,
  /** Interval of checks of the free space: while events are recorded or space is short, and otherwise. */
  spaceCheckMs: 1_000,
  spaceIdleCheckMs: 10_000,
  /** Free space below which a service is not ready, unless --min-free-bytes is set; on a smaller disk `minFreePercent` of it. At most half of --keep-free. */
  minFreeBytes: 64 * MIB,
  minFreePercent: 5,
  /** A reply that is produced while it is sent is cut off if its client read nothing for this long. */
  streamStallMs: 30_000,
  /** Assets in one reply of `GET /assets`. */
  readAssetsMax: 1_000,
  /** Memory for the state of assets, of all journals together, in bytes: about 140,000 assets with two checks each. */
  assetBytesMax: 192 * MIB,
  /** The most checks of an asset, partitions of all its checks, and failing partitions of one check in the state. */
  assetChecksMax: 1_000,
  assetPartitionsMax: 1_000,
  failedPartitionsMax: 100,
  /** How long a request waits while the state of the assets is read; after that it gets 503. */
  assetsWaitMs: 5_000,
  /**
   * The shortest and the longest time between two searches for stale assets. Searches are rare while no asset can become stale, but the
   * time of a late event can be before all others.
   */
  staleCheckMs: 10_000,
  staleCheckMsMax: 300_000,
  /** Alarms of a hook that have not ended, and the bytes of their names. */
  alarmsMax: 1_000,
  alarmBytesMax: 4 * MIB,
  /** The shortest time between two looks of a hook at failures, while there are events. */
  alarmLookMs: 1_000,
  /** A difference is posted to a hook once it has held for this time, and the same alarm again only after the pause. */
  alarmHeldMs: 10_000,
  alarmPauseMs: 300_000,
  /**
   * Nothing becomes stale for this time after a start, a change of the clock or a stop, since devices deliver their backlog
   * first.
   */
  alarmGraceMs: 900_000,
  /** Keys in `--watch-asset`. */
  watchedKeysMax: 20,
  /** How long `/metrics` waits for the state of the watched keys. */
  watchWaitMs: 1_000,
  /** Bytes of lines that a start reads for the state of the assets before it writes the state at once: see `segmentBytes`. */
  assetsSaveBytes: 16 * MIB,
  /** Bytes of lines that are kept for a state that is behind, until it has read as far as these lines. */
  assetsWaitBytes: 1 * MIB,
  /** Interval of attempts to write the state of the assets, after a failure. */
  assetsSaveMs: 10_000,
  /** Greatest value of `--last`: its search keeps the seq of each of these events in memory. */
  lastEventsMax: 1_000_000,
  /**
   * The most bytes of the events of `--last` that are kept in memory when they are found; if they are larger, they are
   * read again.
   */
  lastBytesMax: 16 * MIB,
  /** Events in one reply of `GET /events`, unless it is a stream. */
  readEventsMax: 1_000,
  /** Characters of a text to search for. The worst text of this length takes 50 ms for the worst line of 1 MiB, others a few. */
  searchCharactersMax: 100,
  /** Streams of events that are open at a time, for all journals together. */
  streamsMax: 32,
  /** Interval of comments on a stream without events, so that a proxy keeps its connection. */
  streamCommentMs: 15_000,
  /** A client connects again at a random time from `streamRetryMs` to `streamRetryMsMax` after the end of its stream. */
  streamRetryMs: 2_000,
  streamRetryMsMax: 5_000,
  /** Interval at which the streams of a journal read new lines while reports arrive. */
  streamWakeMs: 25,
  /** Bytes of a journal that a reading processes at a time, while reports and other readings wait. */
  readTurnBytes: 32 * KIB,
  /**
   * Memory of all active readings. Each needs three times `readTurnBytes`, so the readings of 256 connections and of all streams fit,
   * even if none of their clients reads.
   */
  readBytesMax: 40 * MIB,
  /** The newest lines of journals that streams share. A stream that needs older lines reads the file itself. */
  sharedLinesBytesMax: 1 * MIB,
  /** Share of the event loop's time for readings while reports arrive: of all, and of what it would be idle without readings. The larger one counts. */
  readTimePercent: 5,
  readIdlePercent: 50,
  /** After the last recorded report, the time until readings may use the whole event loop again. */
  readIdleMs: 100,
  /** Interval between two log lines that give the same reason for refusing connections or reports. */
  notAcceptedNoticeMs: 60_000,
  /** Lines about refused requests and, on a terminal, about recorded events in `activityMs`. Further ones are counted. */
  refusalLinesMax: 10,
  recordedLinesMax: 100,
  activityMs: 1_000,
  /** Refused requests that are kept for `GET /refusals`: of each deployment, and of all together. Each needs up to 4 KB. */
  refusalsKeptMax: 100,
  refusalsOfAllMax: 5_000,
  refusalErrorCharactersMax: 1_000,
  /** Characters of a request's path, or of an event, in such a line. */
  loggedPathCharactersMax: 200,
  /** Characters of each value in a log line, and bytes of the log that wait in memory for a slow reader. */
  logTextCharactersMax: 2_000,
  logWaitingBytesMax: 1_000_000,
  /** Distinct names that are logged, each once. Further names are not logged. */
  oncePerNameMax: 1_000,
  /** A deployment's journal is closed when no report arrived for this long. */
  idleJournalMs: 300_000,
  /**
   * Journals of deployments that are open, being opened or being closed at a time; fewer if the process may open few files: see
   * `openJournalsFor`. To open another journal, the least recently used idle journal is closed; if all are busy, the open
   * waits.
   */
  openJournalsMax: 1_000,
  /** File descriptors of an open journal, and one more to open and close it. */
  journalDescriptorsMax: 4,
  /** The part of the process's descriptors that journals may hold; the rest is left to connections, readings and forwarding. */
  journalDescriptorsPercent: 50,
  /** How long reports wait for their deployment's journal to be opened. If opening takes longer, each report gets 503 at once. */
  openWaitMs: 5_000,
  /** Interval of attempts to open a deployment's journal that could not be opened. */
  reopenMs: 5_000,
  /** Interval of checks whether the deployments file changed. */
  deploymentsCheckMs: 5_000,
  /** Interval of checks whether the token of a reply that is still being sent has expired. */
  rightsCheckMs: 1_000,
  /** Series of each metric of --deployment-metrics; those of further deployments and tokens are left out. */
  deploymentSeriesMax: 1_000,
  deploymentsBytesMax: 16 * MIB,
  /**
   * How long a caller waits for a file with deployments, destinations or a secret, including the reads of other files before it.
   */
  fileReadMs: 10_000,
  /** How long before its expiry an expiring token is logged, and the number of expiring tokens that the log names. */
  tokenExpiringMs: 14 * 86_400_000,
  tokensNamedMax: 10,
  /** Requests without a valid token that get 401, for each address in `failuresMs`; further requests get 429. */
  failuresMax: 20,
  failuresMs: 60_000,
  /** Log entries about requests without a valid token in `failuresMs`: one for each address; further ones are counted. */
  failuresLoggedMax: 20,
  /** Addresses with failed requests that are remembered. */
  failedAddressesMax: 10_000,
  /** How long a start waits for processes that start at the same moment (`lockMs`), and for the answer of each. */
  lockMs: 800,
  lockAnswerMs: 300,
  lockAnswerBytesMax: 256,
  /**
   * Requests of commands over the lock: the time for the first byte and for the whole request, the connections that may wait or be
   * answered at a time, and how often a command tries. Clients of version 0.3.0 and earlier wait for `doorWaitMs`, and give up
   * after 300 ms.
   */
  doorWaitMs: 150,
  doorRequestMs: 1_000,
  doorRequestBytesMax: 64 * KIB,
  doorAnswerBytesMax: 16 * MIB,
  doorAskersMax: 8,
  doorTriesMax: 3,
  /**
   * Interval of checks that a lock file still exists, in addition to the check after each write, and the number of locks checked in
   * one interval.
   */
  lockCheckMs: 10_000,
  lockChecksMax: 30,
  healthcheckMs: 3_000,
  /**
   * Interval at which a reader checks whether the journal has grown, and the longest interval at which it reads a journal that has
   * not grown and asks its service. `fs.watch` is not used, since it reports nothing on many file systems.
   */
  followMs: 250,
  followIdleMs: 60_000,
  /** Listings of a folder by `verify`, if retention removes files during the run. */
  verifyListingsMax: 20,
  /** Stretches of good lines in a damaged file; each needs about 200 bytes of the memory of `repair`. */
  stretchesMax: 500_000,
  /** Removed ranges of a damaged file that `repair` lists one by one; further ranges are counted. */
  repairListMax: 1_000,
  /** Size of the chunks in which a command reads a single journal: with a quarter of this size a search takes 50 % longer. */
  lookChunkBytes: 1 * MIB,
  /** Journals of deployments that `events` merges, and bytes of the chunks of all their files together. */
  mergedJournalsMax: 256,
  mergedBytesMax: 8 * MIB,
  leastMergedChunkBytes: 16 * KIB,
  mergedChunkBytesMax: 256 * KIB,
  /** Damaged ranges that a reader reports one by one; further ranges are counted. */
  damageReportsMax: 20,
  /** Interval of checks for files that are too old, in addition to the checks after a start and after a rotation. */
  retainCheckMs: 3_600_000,
  /** How long after an opening for `--retain-days` the closed journal of a deployment is not opened for that again. */
  retainClosedMs: 24 * 3_600_000,
  /** `--timeout` of `report`: the time of one attempt, from connecting to the last byte of the reply. */
  attemptMs: 10_000,
  /** A connection that was idle for longer is not reused: the reference implementation closes idle connections after 5 s. */
  keptMs: 1_000,
  /**
   * Pause between the probes (TCP keep-alive) on an idle connection. Node's default of a second costs a metered link 10 kB for
   * each event.
   */
  aliveProbeMs: 60_000,
  /** Bytes of a reply that a command reads; it does not wait for the rest. */
  replyBytesMax: 64 * KIB,
  /**
   * Bytes of the heads of a reply, including interim replies (1xx), and the bytes that a chunk counts in addition to its own, for the
   * time it takes.
   */
  replyHeadBytesMax: 64 * KIB,
  replyChunkBytes: 64,
  /** Bytes of a long reply: an OpenAPI document, or the reply to a batch that describes `batchErrorsMax` wrong items. */
  longReplyBytesMax: 1 * MIB,
  /** One line of `GET /assets` that a command reads: an asset can have thousands of checks. */
  assetLineBytesMax: 16 * MIB,
  /**
   * The most consecutive replies that report the next events as removed: retention removes the oldest file from time to
   * time.
   */
  removalsMax: 10,
  /**
   * Bodies with more bytes are sent compressed. Compressing a smaller one costs more processor time at both ends than its
   * bytes are worth.
   */
  packBytes: 1 * KIB,
  /**
   * Lines that `report --from` sends in one request, with at most `bodyBytesMax` bytes, and lines that it reads ahead.
   */
  groupLinesMax: 500,
  /** Pause between two attempts to send a report, doubled each time. */
  retryMs: 250,
  retryMsMax: 10_000,
  tokenBytesMax: 8 * KIB,
  /** Faults of a service for tests, the longest delay of a reply, and the number of replies that are delayed at a time. */
  faultsMax: 100,
  faultDelayMsMax: 300_000,
  delayedRepliesMax: 1_000,
  /**
   * Bytes between two garbage collections: bytes of arriving bodies if memory is scarce, and always bytes of forwarded events,
   * unless the heap is larger than `collectedHeapBytesMax`, so that a collection would take long.
   */
  collectBytes: 16 * MIB,
  collectedHeapBytesMax: 64 * MIB,
  /** Each half of V8's young generation, which doubles when it grows. */
  youngHalfBytesMax: 8 * MIB,
  /** A request to a destination of at least this many bytes is part of a backlog. */
  backlogRequestBytes: 64 * KIB,
} as const satisfies Record<string, number>;

/**
 * Limits of `embed.ts`: how long `waitFor` and `expectNone` wait, the refused requests that are kept, and the events and refusals
 * that an error shows, with the characters of each.
 */
export const waitLimits = {
  waitMs: 5_000,
  expectNoneMs: 1_000,
  refusedMax: 1_000,
  shownMax: 5,
  shownCharactersMax: 300,
} as const satisfies Record<string, number>;

/** Limits of the page for browsers, `http/page/browser/`. */
export const pageLimits = {
  /**
   * Events that the page holds, and the characters of their lines. Beyond these limits the oldest events are dropped.
   */
  linesMax: 10_000,
  charactersMax: 32 * MIB,
  /** Events of one request. */
  readLimit: 1_000,
  /**
   * Tokens of nested metadata, and members, that the page shows of one event. The line itself is always shown
   * completely.
   */
  tokensMax: 5_000,
  /** Lines and characters of a value that are shown at first, and in each further block on request. */
  foldedLines: 20,
  foldedCharacters: 2_000,
  /** A longer line has no preview of its metadata in the list. */
  previewedCharactersMax: 4 * KIB,
  /** After this long without a byte, a connection counts as lost. A stream has a comment every 15 s. */
  quietMsMax: 40_000,
  /** Interval at which assets and refusals are read again. */
  pollMs: 3_000,
  /** First pause before the page connects again, doubled each time. */
  retryMs: 500,
  retryMsMax: 15_000,
} as const satisfies Record<string, number>;

/** What is shown of an asset over time, on the page and on a terminal. */
export const historyLimits = {
  /** The newest events of the asset that are read. */
  events: 1_000,
  /** The newest values of a number that are drawn. */
  points: 200,
  /** Numbers that are shown at first: the most frequently reported ones. */
  numbers: 20,
  /** The newest results of a check that are shown at first. */
  results: 60,
  days: 35,
  /**
   * Members of metadata that are kept for one event, and for all events together. Beyond that the members of the oldest
   * events are left out.
   */
  eventMembers: 5_000,
  members: 200_000,
} as const satisfies Record<string, number>;

/** Values for all limits: `limits`, the result of `limitsFor`, or the choice of a test. */
export type Limits = { readonly [Name in keyof typeof limits]: number };

/** With at least this much memory, the caps keep their values. */
const AMPLE_MEMORY_BYTES = 512 * MIB;

/**
 * Scales the caps of bodies, queues and readings in proportion to the memory. Every report of an allowed size still fits, so far
 * below 64 MiB the caps no longer keep the process within its memory. A batch of many items that does not fit a lowered
 * `queueBytesMax` gets 413.
 * @param memoryBytes the memory that the process may use: see `readMemoryBytesMax`
 * @returns lower limits; `limits` itself from `AMPLE_MEMORY_BYTES` on
 */
export function limitsFor(memoryBytes: number): Limits {
  if (memoryBytes >= AMPLE_MEMORY_BYTES) return limits;
  const share = (cap: number, least: number) => Math.max(least, Math.floor((cap * memoryBytes) / AMPLE_MEMORY_BYTES));
  const queueBytesMax = share(limits.queueBytesMax, limits.lineBytesMax + limits.queueEventBytes);
  return {
    ...limits,
    uploadBytesMax: share(limits.uploadBytesMax, limits.forwardBodyBytesMax),
    forwardUploadBytesMax: share(limits.forwardUploadBytesMax, limits.forwardBodyBytesMax),
    forwardHeldBytesMax: share(limits.forwardHeldBytesMax, limits.forwardBodyBytesMax),
    spareBuffersMax: share(limits.spareBuffersMax, 1),
    queueBytesMax,
    backlogBytesMax: share(limits.backlogBytesMax, queueBytesMax),
    batchBytesMax: share(limits.batchBytesMax, limits.bodyBytesMax),
    collectBytes: share(limits.collectBytes, limits.bodyBytesMax),
    idempotencyKeysMax: share(limits.idempotencyKeysMax, 1_000),
    assetBytesMax: share(limits.assetBytesMax, 4 * MIB),
    readTurnBytes: share(limits.readTurnBytes, 8 * KIB),
    readBytesMax: share(limits.readBytesMax, 4 * MIB),
    sharedLinesBytesMax: share(limits.sharedLinesBytesMax, 64 * KIB),
  };
}
