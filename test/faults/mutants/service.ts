/** Mutants of the whole service, as it is started and stopped, and of its embedding. */

import type { Mutant } from './mutant.ts';

export const service: readonly Mutant[] = [
  {
    breaks: 'a disk too full for the lock ends the start',
    file: 'service/folder.ts',
    from: 'if (!isFull(error as NodeJS.ErrnoException)) throw lockFailed',
    to: 'throw lockFailed',
    tests: [
      'program/service: a folder that is locked late, since the disk was full, is warned about as well',
      'faults/full-disk',
    ],
  },
  {
    breaks: 'a deployment records before the data folder is locked',
    file: 'service/hosted.ts',
    from: 'return trouble === undefined ? journal : refuseAll(journal, trouble);',
    to: 'return trouble === undefined ? journal : journal;',
    tests: [
      'faults/full-disk: a start without an inode for its folder and its lock waits, and comes up by itself: hosted',
    ],
  },
  {
    breaks: 'an idle service does not notice that its lock is gone',
    file: 'service.ts',
    from: 'folder.watch((error) => recording.abandon(error));',
    to: '',
    tests: ['program/service: a lock file that is removed ends the service with 5, at the next report or without one'],
  },
  {
    breaks: 'a service does not look at its lock',
    file: 'service/local.ts',
    from: ', checkHeld: () => folder.checkHeld() }',
    to: ' }',
    tests: ['program/service: a lock file that is removed ends the service with 5, at the next report or without one'],
  },
  {
    breaks: 'a stop does not wait for requests',
    file: 'service.ts',
    from: 'else await listener.close();',
    to: 'else void listener.close();',
    tests: ['program/service: a stop does not wait for a client that reads no replies, and its other limits hold'],
  },
  {
    breaks: 'the end of the program is not bounded',
    file: 'server.ts',
    from: '.then((code) =>',
    to: '.then((code) => process.exit(code) ??',
    tests: ['faults/injected: a stop comes to its end by itself, also while the disk hangs'],
  },
  {
    breaks: 'a stop leaves the folder to others while the disk may still write to it',
    file: 'service.ts',
    from: 'folder.keepUntil(closed);',
    to: '',
    tests: [
      'program/service: a start that fails keeps its folder locked while the journal that it opened may still be written',
    ],
  },
  {
    breaks: 'a deployments file that everybody may write is not told',
    file: 'service/hosted.ts',
    from: '  await warnOfWriters(config.deployments, DEPLOYMENTS_FILE, notices);\n',
    to: '',
    tests: ['program/hosted: a start warns of a data folder or a deployments file that others may write to'],
  },
  {
    breaks: 'the trouble of one deployment makes the service not ready',
    file: 'service/hosted.ts',
    from: 'trouble: undefined,\n    troubles:',
    to: 'get trouble() {\n      return [...hosted.troubles().values()][0];\n    },\n    troubles:',
    tests: [
      'program/hosted: a damaged journal, a locked one and a failing disk stop only their own deployment, which comes back by itself',
    ],
  },
  {
    breaks: 'the trouble of one deployment refuses the reports of all',
    file: 'service/hosted.ts',
    from: 'const journal = hosted.journalOf(authenticate(head, incoming, needs));',
    to: 'const recorder = hosted.journalOf(authenticate(head, incoming, needs));\n      const journal = recorder;\n      const [reason] = hosted.troubles().values();\n      if (reason !== undefined) return { prefix: recorder.prefix, refusal: () => reason, append: (_event, _bytes, done) => done(reason) };',
    tests: [
      'program/hosted: a damaged journal, a locked one and a failing disk stop only their own deployment, which comes back by itself',
    ],
  },
  {
    breaks: 'all deployments write to one folder',
    file: 'service/hosted.ts',
    from: 'openDisk(join(folder.disk.folder, name))',
    to: 'openDisk(folder.disk.folder)',
    tests: ['program/hosted: each deployment has a journal of its own, which its first report opens'],
  },
  {
    breaks: 'a service does not say how far its journal is durable',
    file: 'service/local.ts',
    from: 'folder.shareDurable(() => local.current.nextSeq);',
    to: '',
    tests: [
      'faults/injected: a follower shows no line of a report that got 503, and none twice, however slow a failed write is cut off',
    ],
  },
  {
    breaks: 'the document is made from another table of parameters than the handlers',
    file: 'service.ts',
    from: '        endpoints,\n        limits,\n      }),',
    to: '        limits,\n      }),',
    tests: ['event/parameters: a service takes a parameter for its row, and its document lists it'],
  },
  {
    breaks: 'a wait is not woken by what is recorded',
    file: 'journal/progress.ts',
    from: 'for (const wake of this.#wakers.get(folder) ?? []) wake();',
    to: '',
    tests: [
      'journal/reader: what waits for more of a journal of this process continues as soon as more is durable, or at the end',
    ],
  },
  {
    breaks: 'a test sees what is not acknowledged',
    file: 'journal/progress.ts',
    from: ": { kind: 'before', seq: seen }",
    to: ": { kind: 'unsaid' }",
    tests: ['embed: lines of any length and files of any number are read, and nothing that is not acknowledged'],
  },
  {
    breaks: 'the folder of a service that nobody stopped stays',
    file: 'test-mode/own-folder.ts',
    from: "process.on('exit', removeOwnFolders)",
    to: 'void removeOwnFolders',
    tests: ['embed: one that is never stopped lets its process end, and its folder goes with it'],
  },
  {
    breaks: 'who reports to a passed socket is refused while the journal is opened',
    file: 'service.ts',
    from: 'if (fd !== undefined) await resolvesWithin(open(), limits.openWaitMs);',
    to: 'if (fd !== undefined) void open().catch(() => {});',
    tests: ['program/activation: who reports before it has started waits, and is not refused'],
  },
  {
    breaks: 'on a passed socket the address of --host decides who may report',
    file: 'service.ts',
    from: 'checkAccess: createAccess({ address, allowedHosts })',
    to: 'checkAccess: createAccess({ address: config.host, allowedHosts })',
    tests: ['program/activation: it serves on the socket that it is given, whatever host and port say'],
  },
  {
    breaks: 'a command that did not finish ends with 0',
    file: 'server.ts',
    from: 'process.exitCode = exitCodes.unexpected;',
    to: 'process.exitCode = exitCodes.done;',
    tests: ['program/program: a command whose work never ends does not end with 0, and says so'],
  },
  {
    breaks: 'a folder that is locked late is not warned about',
    file: 'service/folder.ts',
    from: 'await warnOfHazards(this.disk, lock, this.#notices);',
    to: 'if (onFull.length > 0) await warnOfHazards(this.disk, lock, this.#notices);',
    tests: ['program/service: a folder that is locked late, since the disk was full, is warned about as well'],
  },
  {
    breaks: 'a start that fails leaves the folder to others while it may still recover the journal',
    file: 'service/local-journal.ts',
    from: 'await this.#opened?.catch(() => {}); // a recovery',
    to: '// a recovery',
    tests: [
      'program/service: a start that fails keeps its folder locked while the journal that it opened may still be written',
    ],
  },
  {
    breaks: 'a start that fails keeps what it began',
    file: 'service.ts',
    from: "await shutdown.run('start failed');",
    to: '',
    tests: [
      'program/service: a start that fails says why, with the exit code of its reason, and leaves folder and port to others',
    ],
  },
  {
    breaks: 'a stop undoes the steps of the start in the order in which they were made',
    file: 'service/shutdown.ts',
    from: 'this.#undos.pop()',
    to: 'this.#undos.shift()',
    tests: [
      'program/service: a start that fails keeps its folder locked while the journal that it opened may still be written',
    ],
  },
  {
    breaks: 'a test is not told that the journal is damaged',
    file: 'embed.ts',
    from: "if (kind === 'damage') damage ??= text;",
    to: 'void text;',
    tests: ['embed: a flipped bit is an error with file, line and byte; events before it are found'],
  },
  {
    breaks: 'a disk that is smaller than the space to keep free is taken',
    file: 'service.ts',
    from: 'if (keepFree < totalBytes) return space;',
    to: 'if (keepFree >= 0) return space;',
    tests: ['faults/full-disk: space to keep free that the whole disk does not have is refused with 2'],
  },
  {
    breaks: 'a folder of deployments is opened to every client',
    file: 'service/local.ts',
    from: 'const checked = checkNotHosted(disk, openDisk).then(',
    to: 'const checked = Promise.resolve().then(',
    tests: [
      'program/hosted: without --deployments the folder of hosted mode is refused with 2, and that of one deployment is a journal',
    ],
  },
  {
    breaks: 'what a repair put aside is taken for a deployment',
    file: 'service/local.ts',
    from: "|| name.startsWith('damaged-')) continue",
    to: ') continue',
    tests: [
      'program/hosted: without --deployments the folder of hosted mode is refused with 2, and that of one deployment is a journal',
    ],
  },
  {
    breaks: 'a copy in a folder with a journal is taken for a deployment',
    file: 'service/local.ts',
    from: 'if (contentsOf(names).segments.length > 0) return;',
    to: '',
    tests: [
      'program/hosted: without --deployments the folder of hosted mode is refused with 2, and that of one deployment is a journal',
    ],
  },
  {
    breaks: 'the deployments in trouble are not counted',
    file: 'service/hosted.ts',
    from: 'metrics.deploymentsInTrouble = () => hosted.troubles().size;',
    to: '',
    tests: ['program/hosted: a deployment that is taken out is in trouble no more, and may come back'],
  },
  {
    breaks: 'reading is on where other machines reach the service',
    file: 'service/readable.ts',
    from: '|| isLoopback(address)',
    to: "|| address !== ''",
    tests: [
      'service/readable: reading is on on loopback, with --read or --test and in hosted mode, and --no-read turns it off',
    ],
  },
  {
    breaks: '--no-read does not turn reading off',
    file: 'service/readable.ts',
    from: '!noRead && (',
    to: '(',
    tests: [
      'service/readable: reading is on on loopback, with --read or --test and in hosted mode, and --no-read turns it off',
    ],
  },
  {
    breaks: 'off is not off',
    file: 'service/readable.ts',
    from: 'if (!isOn) throw',
    to: "if (!isOn && options.deployments !== '') throw",
    tests: [
      'service/readable: reading is on on loopback, with --read or --test and in hosted mode, and --no-read turns it off',
    ],
  },
  {
    breaks: 'a request without a token learns whether reading is off',
    file: 'service/readable.ts',
    from: '    const readable = findReadable(head, incoming);\n    if (!isOn) throw new Refusal(403, READING_IS_OFF);',
    to: '    if (!isOn) throw new Refusal(403, READING_IS_OFF);\n    const readable = findReadable(head, incoming);',
    tests: ['service/readable: without a token nothing is learnt, not even whether reading is off'],
  },
  {
    breaks: 'the Host of a reading is not checked',
    file: 'service/readable.ts',
    from: '    checkHost(head, true);',
    to: '   ',
    tests: ['edges/browser-reading: nor can it where the service listens on every interface and may be read'],
  },
  {
    breaks: 'a page on a name that was pointed at the service can read with --read',
    file: 'service/readable.ts',
    from: 'onlyKnownHosts: true',
    to: 'onlyKnownHosts: false',
    tests: [
      'service/readable: without tokens the Host of a reading is known to be this service, also if other machines reach it',
    ],
  },
  {
    breaks: 'one reading needs no right',
    file: 'reading/routes.ts',
    from: "    needs: 'read',",
    to: "    needs: path === '/refusals' ? 'nothing' : 'read',",
    tests: ['program/who-may-read: without the right every reading gets the same 403, whatever there is'],
  },
  {
    breaks: '--read is ignored in hosted mode without a word',
    file: 'service/hosted.ts',
    from: 'if (config.read) notices.warn',
    to: 'if (config.read) notices.debug',
    tests: [
      'program/who-may-read: --no-read turns reading off for good tokens too, and --read has no effect in hosted mode and says so',
    ],
  },
  {
    breaks: 'the start does not say that any client may read',
    file: 'service.ts',
    from: "isReadingOn(config, address) ? 'report and read' : 'report'",
    to: "'report'",
    tests: ['program/who-may-read: a local service lets clients read on loopback, and elsewhere with --read only'],
  },
  {
    breaks: 'each answer with the state of assets leaves a listener behind',
    file: 'reading/live-assets.ts',
    from: "signal.removeEventListener('abort', this.#begin);",
    to: '',
    tests: ['program/get-assets: answers one after the other leave nothing behind that Node would warn of'],
  },
  {
    breaks: 'a start on a disk that fails ends like a mistake of the operator, and is not repeated',
    file: 'service/start-error.ts',
    from: 'known === undefined || MISTAKES.has(known)',
    to: 'known !== ""',
    tests: ['program/service: a start ends with 5 if the disk fails, and with 2 only for a mistake of the operator'],
  },
];
