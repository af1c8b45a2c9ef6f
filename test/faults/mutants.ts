/**
 * Breaks each promise on purpose, in a copy of the source, and runs the tests that should notice. Ends with 1 where a mutant
 * lives, or where what it breaks is not there any more. `mutants.ts [WORDS]` runs those whose promise has the words in it.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from '../program.ts';
import { each, withoutStrace } from './tools.ts';

interface Mutant {
  readonly breaks: string;
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly from: string;
  readonly to: string;
  /** Names of test files without `.test.ts`; those in `faults/` run on the built file. */
  readonly tests: readonly string[];
}

const mutants: readonly Mutant[] = [
  {
    breaks: 'acknowledges before the sync',
    file: 'journal.ts',
    from: 'await append(segment, bytes);\n  checkUntouched(after);',
    to: 'append(segment, bytes).catch(() => {});',
    tests: ['journal', 'faults/order'],
  },
  {
    breaks: 'writes that do not sync, and no sync behind them',
    file: 'disk.ts',
    from: 'constants.O_WRONLY | constants.O_DSYNC : constants.O_WRONLY',
    to: 'constants.O_WRONLY : constants.O_WRONLY',
    tests: ['faults/order'],
  },
  {
    breaks: 'no sync where no write syncs',
    file: 'disk.ts',
    from: 'await syncData(handle).catch(',
    to: 'await Promise.resolve().catch(',
    tests: ['disk', 'faults/order'],
  },
  {
    breaks: 'a sync that failed is taken for a write that did not happen',
    file: 'disk.ts',
    from: 'throw size === end ? error',
    to: 'throw size >= end ? error',
    tests: ['disk'],
  },
  {
    breaks: 'no folder sync for a new file',
    file: 'disk.ts',
    from: '() => entries.sync()).catch(',
    to: '() => Promise.resolve()).catch(',
    tests: ['faults/order'],
  },
  {
    breaks: 'no folder sync behind the copy of a start',
    file: 'recovery.ts',
    from: 'await disk.rename(fresh, name);\n  await disk.syncFolder();',
    to: 'await disk.rename(fresh, name);',
    tests: ['recovery', 'faults/order'],
  },
  {
    breaks: 'no sync of the copy that a start makes',
    file: 'disk.ts',
    from: 'position);\n    await file.sync();',
    to: 'position);',
    tests: ['power', 'repair'],
  },
  {
    breaks: 'a folder that a dead start made is not synced',
    file: 'disk.ts',
    from: 'await syncEntries(parent).catch(() => {});',
    to: '',
    tests: ['faults/order'],
  },
  {
    breaks: 'retries a failed sync',
    file: 'journal.ts',
    from: 'if (error instanceof SyncError) throw error;\n    problem',
    to: 'problem',
    tests: ['journal'],
  },
  {
    breaks: 'a failed sync of the folder is tried again later',
    file: 'journal.ts',
    from: 'throw error instanceof SyncError ? error : new NotWritten(describe(error));',
    to: 'throw new NotWritten(describe(error));',
    tests: ['journal'],
  },
  {
    breaks: 'no cut-back after a short write',
    file: 'journal.ts',
    from: 'await file.truncate(end);\n  throw',
    to: 'throw',
    tests: ['journal', 'power'],
  },
  {
    breaks: 'a cut-back is not synced',
    file: 'disk.ts',
    from: 'await handle.truncate(bytes);\n      await syncData(handle);',
    to: 'await handle.truncate(bytes);',
    tests: ['faults/order'],
  },
  {
    breaks: 'a short write is taken for a whole one',
    file: 'journal.ts',
    from: 'if (written === bytes.length) return;',
    to: 'return;',
    tests: ['journal'],
  },
  {
    breaks: 'no attempt at a disk that refused',
    file: 'journal.ts',
    from: 'this.#running ??= this.#run();\n      }, ',
    to: '}, ',
    tests: ['journal'],
  },
  {
    breaks: 'a disk that does not answer is not told',
    file: 'journal.ts',
    from: "trouble: { kind: 'silent', reason } };",
    to: '};',
    tests: ['journal'],
  },
  {
    breaks: 'a start on a full disk gives up',
    file: 'journal.ts',
    from: 'if (!isFull(error as NodeJS.ErrnoException)) throw error;',
    to: 'throw error;',
    tests: ['journal'],
  },
  {
    breaks: 'no lock',
    file: 'lock.ts',
    from: 'if (rivals.length === 0) break;',
    to: 'break;',
    tests: ['lock'],
  },
  {
    breaks: 'the lock of a dead process holds',
    file: 'lock.ts',
    from: "if (error.code === 'ECONNREFUSED' || error.code === 'ENOENT') resolve(undefined);",
    to: "if (error.code === 'ENOENT') resolve(undefined);",
    tests: ['lock'],
  },
  {
    breaks: 'what died before it was published stays',
    file: 'lock.ts',
    from: 'await removeUnpublished(folder, directory);',
    to: '',
    tests: ['lock', 'faults/one-writer'],
  },
  {
    breaks: 'no check for an unlinked file',
    file: 'journal.ts',
    from: 'if (size === bytes) return;',
    to: 'return;',
    tests: ['journal'],
  },
  {
    breaks: 'no look at the full file before the next is begun',
    file: 'journal.ts',
    from: 'checkUntouched(full);',
    to: '',
    tests: ['journal'],
  },
  {
    breaks: 'crc not compared',
    file: 'event.ts',
    from: 'if (form.crc !== crc) return',
    to: 'if (form.crc < 0) return',
    tests: ['event', 'recovery'],
  },
  {
    breaks: 'seq not compared',
    file: 'event.ts',
    from: 'if (form.seq !== place.seq) return',
    to: 'if (form.seq < 0) return',
    tests: ['event', 'recovery'],
  },
  {
    breaks: 'a seq near 2^53 is rounded',
    file: 'event.ts',
    from: 'seq = seq * 10 + (bytes[at]! - ZERO);',
    to: 'seq = seq * 10 + bytes[at]! - ZERO;',
    tests: ['event'],
  },
  {
    breaks: 'a journal counts on beyond the largest seq',
    file: 'journal.ts',
    from: 'const usedUp = segment.place.seq > SEQ_MAX;',
    to: 'const usedUp = segment.place.seq > 2 * SEQ_MAX;',
    tests: ['journal'],
  },
  {
    breaks: 'a batch takes more seqs than are left',
    file: 'journal.ts',
    from: ' || count === countMax',
    to: '',
    tests: ['journal'],
  },
  {
    breaks: 'gap between files not noticed',
    file: 'recovery.ts',
    from: 'if (expected <= firstSeq && firstSeq <= due) return [];',
    to: 'if (expected <= firstSeq) return [];',
    tests: ['recovery'],
  },
  {
    breaks: 'a bad line inside is cut like a torn end',
    file: 'recovery.ts',
    from: "'bad line inside': {\n    afterCrash: 'refuse'",
    to: "'bad line inside': {\n    afterCrash: 'cut'",
    tests: ['recovery', 'service'],
  },
  {
    breaks: 'a bad end is cut after a clean stop',
    file: 'recovery.ts',
    from: "return names.includes(CLEAN_STOP) ? 'afterStop' : 'afterCrash';",
    to: "return 'afterCrash';",
    tests: ['recovery', 'journal', 'program'],
  },
  {
    breaks: 'a bad end is cut however long it is',
    file: 'recovery.ts',
    from: 'const tooLong = isEnd && flaw.bytes > tornBytesMax;',
    to: 'const tooLong = false;',
    tests: ['recovery'],
  },
  {
    breaks: 'a converted file is cut as an interrupted write',
    file: 'scan.ts',
    from: "if (this.#misplaced !== undefined) return 'bytes between lines';",
    to: '',
    tests: ['recovery'],
  },
  {
    breaks: 'a last line that skips a seq is cut as an interrupted write',
    file: 'scan.ts',
    from: "if (bad !== undefined && bad.seq !== expected) return bad.seq > expected ? 'gap' : 'repeat';",
    to: '',
    tests: ['recovery'],
  },
  {
    breaks: 'a start beside a verify is not noticed',
    file: 'verify.ts',
    from: ' && positionOfLast(namesNow) === position',
    to: '',
    tests: ['recovery'],
  },
  {
    breaks: 'a converted line is lost by a repair',
    file: 'salvage.ts',
    from: 'const end = Math.min(lineFeed, carriageReturn);',
    to: 'const end = lineFeed;',
    tests: ['repair'],
  },
  {
    breaks: 'a write has more bytes than a start takes for one',
    file: 'journal.ts',
    from: 'bytes += lineBytesMax(members);',
    to: 'bytes += members.length;',
    tests: ['journal'],
  },
  {
    breaks: 'what is cut off is not kept',
    file: 'recovery.ts',
    from: 'await copyFile(disk, name, aside, start);',
    to: '',
    tests: ['recovery'],
  },
  {
    breaks: 'the last file is trusted after an unclean stop',
    file: 'recovery.ts',
    from: 'if (!stoppedCleanly) {',
    to: 'if (cut !== undefined) {',
    tests: ['recovery', 'power'],
  },
  {
    breaks: 'a failed disk is remembered as a clean stop',
    file: 'journal.ts',
    from: "if (state.kind === 'failed') return;",
    to: "if (state.kind === 'failed') return rememberCleanStop(this.#options.disk);",
    tests: ['journal'],
  },
  {
    breaks: 'unbounded queue',
    file: 'journal.ts',
    from: 'this.#waitingBytes + more <= queueBytesMax',
    to: 'true',
    tests: ['journal'],
  },
  {
    breaks: 'no bound for the queues of all deployments together',
    file: 'journal.ts',
    from: 'this.#backlog.bytes + more <= backlogBytesMax',
    to: 'true',
    tests: ['journal'],
  },
  {
    breaks: 'a batch that is on its way is not counted',
    file: 'journal.ts',
    from: 'count += 1;',
    to: 'this.#hold(-(this.#queue[count]?.heldBytes ?? 0));\n      count += 1;',
    tests: ['journal'],
  },
  {
    breaks: 'an idle connection is kept for ever',
    file: 'listener.ts',
    from: 'now - quietSinceMs >= idleMs',
    to: 'now < quietSinceMs',
    tests: ['service'],
  },
  {
    breaks: 'a connection that waits for the disk is closed as idle',
    file: 'listener.ts',
    from: 'const busy = last !== undefined && !last.res.isOut;',
    to: 'const busy = false;',
    tests: ['service'],
  },
  {
    breaks: 'a body is held by the parts that are recorded',
    file: 'journal.ts',
    from: 'bodyBytes <= heldBodyBytesMax ? text : packMembers(text)',
    to: 'text',
    tests: ['journal'],
  },
  {
    breaks: 'drain that drops what was taken',
    file: 'journal.ts',
    from: 'await this.#running;\n    clearInterval',
    to: 'clearInterval',
    tests: ['journal', 'service'],
  },
  {
    breaks: 'a stop does not wait for requests',
    file: 'service.ts',
    from: 'await listener.close();\n    const closed',
    to: 'void listener.close();\n    const closed',
    tests: ['service'],
  },
  {
    breaks: 'little free space is not told',
    file: 'space.ts',
    from: 'if (freeBytes >= needed) return undefined;',
    to: 'if (freeBytes >= 0) return undefined;',
    tests: ['space'],
  },
  {
    breaks: 'repair unlinks before it syncs',
    file: 'repair.ts',
    from: 'await copyFile(disk, name,',
    to: 'await disk.rename(name,',
    tests: ['repair'],
  },
  {
    breaks: 'repair keeps nothing of a damaged file',
    file: 'repair.ts',
    from: 'await copyFile(disk, name,',
    to: 'await (async (..._: unknown[]) => {})(disk, name,',
    tests: ['repair'],
  },
  {
    breaks: 'repair replaces a file before what it gives up is in place',
    file: 'repair.ts',
    from: 'runs.toReversed()',
    to: 'runs',
    tests: ['repair'],
  },
  {
    breaks: 'repair gives the seq of a bad last line to somebody else',
    file: 'repair.ts',
    from: 'badBehind = index === segments.length - 1 ? found.badBehind : 0;',
    to: 'badBehind = 0;',
    tests: ['repair'],
  },
  {
    breaks: 'repair takes a refuted line for a good one',
    file: 'salvage.ts',
    from: 'if (refuted || ',
    to: 'if (',
    tests: ['repair'],
  },
  {
    breaks: 'repair does without the lines that a damaged newline joined',
    file: 'salvage.ts',
    from: 'const hidden = hiddenCandidates(bytes, whole);',
    to: 'const hidden: Candidate[] = [];',
    tests: ['repair'],
  },
  {
    breaks: 'of a token only the beginning is compared',
    file: 'deployments.ts',
    from: "const digest = sha256(token ?? '');",
    to: "const digest = sha256((token ?? '').slice(0, 47));",
    tests: ['deployments'],
  },
  {
    breaks: 'of the SHA-256 of a token only the beginning is compared',
    file: 'deployments.ts',
    from: 'const same = timingSafeEqual(known, digest);',
    to: 'const same = known.readUInt16BE() === digest.readUInt16BE();',
    tests: ['hostile'],
  },
  {
    breaks: 'an expired token is good',
    file: 'deployments.ts',
    from: 'nowMs < (notAfterMs ?? Number.POSITIVE_INFINITY)',
    to: 'nowMs < Number.POSITIVE_INFINITY',
    tests: ['hostile'],
  },
  {
    breaks: 'a token of one deployment is good for all',
    file: 'deployments.ts',
    from: 'const tokens = tokensOf.get(name) ?? [];',
    to: 'const tokens = tokensOf.has(name) ? [...tokensOf.values()].flat() : [];',
    tests: ['hostile'],
  },
  {
    breaks: 'a folder is made for whatever name is in the path',
    file: 'deployments.ts',
    from: 'const tokens = tokensOf.get(name) ?? [];',
    to: 'const tokens = tokensOf.get(name) ?? [...tokensOf.values()].flat();',
    tests: ['hostile'],
  },
  {
    breaks: 'the name of a deployment may lead out of the data folder',
    file: 'deployments.ts',
    from: "typeof name !== 'string' || !deploymentName.test(name)",
    to: "typeof name !== 'string'",
    tests: ['deployments'],
  },
  {
    breaks: 'an escaped name is a deployment',
    file: 'access.ts',
    from: "const [name = ''] = under.split('/', 1);",
    to: "const name = unescape(under.split('/', 1)[0] ?? '');",
    tests: ['hostile'],
  },
  {
    breaks: 'an unknown deployment is told apart',
    file: 'access.ts',
    from: 'const waitMs = failed(',
    to: "if (!deployments().tokensOf.has(name)) throw new Refusal(404, 'there is no such deployment');\n    const waitMs = failed(",
    tests: ['hostile'],
  },
  {
    breaks: 'a good token is refused where others failed',
    file: 'access.ts',
    from: 'if (mayReport(deployments(), name, token, now)) return name;',
    to: "const count = failures.get(socket?.remoteAddress ?? '')?.count ?? 0;\n    if (count <= limits.failuresMax && mayReport(deployments(), name, token, now)) return name;",
    tests: ['hostile'],
  },
  {
    breaks: 'good reports wipe failures out',
    file: 'access.ts',
    from: 'if (mayReport(deployments(), name, token, now)) return name;',
    to: 'if (mayReport(deployments(), name, token, now)) {\n      failures.clear();\n      return name;\n    }',
    tests: ['hostile'],
  },
  {
    breaks: 'an address that failed is remembered for ever',
    file: 'access.ts',
    from: 'seen === undefined || seen.untilMs <= now',
    to: 'seen === undefined',
    tests: ['deployments'],
  },
  {
    breaks: 'every address that failed is remembered',
    file: 'access.ts',
    from: 'failures.size >= limits.failedAddressesMax',
    to: 'failures.size < 0',
    tests: ['deployments'],
  },
  {
    breaks: 'one failure more is let through',
    file: 'access.ts',
    from: 'seen.count > limits.failuresMax ?',
    to: 'seen.count > limits.failuresMax + 1 ?',
    tests: ['hostile'],
  },
  {
    breaks: 'the rules for web pages hold on one path only',
    file: 'app.ts',
    from: 'checkAccess(head); // 403',
    to: "if (head.path.includes('/report_asset_materialization')) checkAccess(head); // 403",
    tests: ['hostile'],
  },
  {
    breaks: 'the rules for web pages leave the health paths out',
    file: 'app.ts',
    from: 'checkAccess(head); // 403',
    to: "if (!head.path.endsWith('z')) checkAccess(head); // 403",
    tests: ['hostile'],
  },
  {
    breaks: 'health paths need a token',
    file: 'app.ts',
    from: "const site = asked.kind === 'unknown path' ?",
    to: "const site = tokenHeaders.size > 0 || asked.kind === 'unknown path' ?",
    tests: ['hostile'],
  },
  {
    breaks: 'a body is read before the token is looked at',
    file: 'app.ts',
    from: "const site = asked.kind === 'unknown path' ? findSite(head, incoming) : undefined; // 401, 429",
    to: "let site: Site | undefined;\n      try {\n        site = asked.kind === 'unknown path' ? findSite(head, incoming) : undefined;\n      } catch (error) {\n        return (_bytes, respond) => respond(refuse(error));\n      }",
    tests: ['hostile'],
  },
  {
    breaks: 'the second of two token headers is not seen',
    file: 'request.ts',
    from: "if (token !== undefined) throw malformed('more than one token header; send one');\n",
    to: '',
    tests: ['hostile'],
  },
  {
    breaks: 'one byte more of an announced body',
    file: 'request.ts',
    from: 'if (bytes > limits.bodyBytesMax) throw',
    to: 'if (bytes > limits.bodyBytesMax + 1) throw',
    tests: ['hostile'],
  },
  {
    breaks: 'one byte more of a chunked body',
    file: 'listener.ts',
    from: 'if (connection.uploadBytes > bodyBytesMax)',
    to: 'if (connection.uploadBytes > bodyBytesMax + 1)',
    tests: ['hostile'],
  },
  {
    breaks: 'one byte more of request line and headers',
    file: 'request.ts',
    from: 'bytes + requestLineBytes > limits.headBytesMax)',
    to: 'bytes + requestLineBytes > limits.headBytesMax + 1)',
    tests: ['hostile'],
  },
  {
    breaks: 'one header more',
    file: 'request.ts',
    from: 'raw.length > limits.headersMax * 2)',
    to: 'raw.length > limits.headersMax * 2 + 2)',
    tests: ['hostile'],
  },
  {
    breaks: 'one byte more of a key',
    file: 'handlers.ts',
    from: 'if (bytes > limits.keyBytesMax) {',
    to: 'if (bytes > limits.keyBytesMax + 1) {',
    tests: ['hostile'],
  },
  {
    breaks: 'a key is measured in characters',
    file: 'handlers.ts',
    from: 'if (characters * UTF8_BYTES_MAX > limits.keyBytesMax)',
    to: 'if (characters > limits.keyBytesMax)',
    tests: ['hostile'],
  },
  {
    breaks: 'one level more of JSON',
    file: 'json.ts',
    from: 'if (this.#depth > this.#depthMax)',
    to: 'if (this.#depth > this.#depthMax + 1)',
    tests: ['hostile'],
  },
  {
    breaks: 'one member more in a body',
    file: 'json.ts',
    from: 'if (count === this.#countMax)',
    to: 'if (count === this.#countMax + 1)',
    tests: ['hostile'],
  },
  {
    breaks: 'a bad deployments file takes the place of a good one',
    file: 'hosted.ts',
    from: 'const problem = (error as Error).message;',
    to: 'current = { tokensOf: new Map() };\n      const problem = (error as Error).message;',
    tests: ['hosted'],
  },
  {
    breaks: 'a deployments file that changed is not read again',
    file: 'hosted.ts',
    from: 'setInterval(() => void reload(),',
    to: 'setInterval(() => {},',
    tests: ['hosted'],
  },
  {
    breaks: 'the journal of a deployment that is gone stays open',
    file: 'hosted.ts',
    from: 'if (!isThere(name)) void journal.retire()',
    to: 'if (!isThere(name)) void Promise.resolve()',
    tests: ['hosted'],
  },
  {
    breaks: 'the trouble of one deployment makes the service not ready',
    file: 'service.ts',
    from: 'trouble: undefined,\n    troubles:',
    to: 'get trouble() {\n      return [...hosted.troubles().values()][0];\n    },\n    troubles:',
    tests: ['hosted'],
  },
  {
    breaks: 'the trouble of one deployment refuses the reports of all',
    file: 'service.ts',
    from: 'hosted.journalOf(door(head, incoming)),',
    to: '{\n      const site = hosted.journalOf(door(head, incoming));\n      const [reason] = hosted.troubles().values();\n      if (reason === undefined) return site;\n      return { prefix: site.prefix, refusal: () => reason, append: (_event, _bytes, done) => done(reason) };\n    },',
    tests: ['hosted'],
  },
  {
    breaks: 'all deployments write to one folder',
    file: 'service.ts',
    from: 'held.openDisk(join(disk.folder, name))',
    to: 'held.openDisk(disk.folder)',
    tests: ['hosted'],
  },
  {
    breaks: 'a stop does not wait for the journals of deployments',
    file: 'hosted.ts',
    from: 'await Promise.all([...this.#deployments.values()].map((journal) => journal.close()));',
    to: 'for (const journal of this.#deployments.values()) void journal.close();',
    tests: ['hosted'],
  },
  {
    breaks: 'a reader believes a line whatever its crc',
    file: 'reader.ts',
    from: 'seeds.some((seed) => crcOf(bytes, form, seed) === form.crc)',
    to: 'seeds.length > 0',
    tests: ['reader'],
  },
  {
    breaks: 'a reader tells no missing file',
    file: 'reader.ts',
    from: 'for (const { file, problem } of findings)',
    to: 'for (const { file, problem } of findings.slice(1))',
    tests: ['reader'],
  },
  {
    breaks: 'a reader gives up behind a bad line',
    file: 'reader.ts',
    from: 'if (this.#fits(bytes, form, this.#trouble)) {',
    to: 'if (this.#fits(bytes, form, this.#trouble) && form.seq === 0) {',
    tests: ['reader'],
  },
  {
    breaks: 'a reader passes over what was added before the next file was begun',
    file: 'reader.ts',
    from: 'if (isClosed) continue; //',
    to: 'if (isClosed) break; //',
    tests: ['reader'],
  },
  {
    breaks: 'a reader does not see that a file was cut back',
    file: 'reader.ts',
    from: 'this.#goodBytes > 0 && !(await this.#endsAsBefore())',
    to: 'this.#goodBytes < 0',
    tests: ['reader'],
  },
  {
    breaks: 'a reader passes over a file by the time of its first line alone',
    file: 'reader.ts',
    from: 'const times = [await this.#firstTime(segment), last && readTime(last.line)];',
    to: 'const times = [await this.#firstTime(segment)];',
    tests: ['reader'],
  },
  {
    breaks: 'a reader takes a bad end for damage',
    file: 'reader.ts',
    from: '!hasNext && this.#trouble.formsBehind === 0',
    to: '!hasNext && this.#trouble.formsBehind < 0',
    tests: ['reader'],
  },
  {
    breaks: 'text in metadata is taken for what is looked for',
    file: 'assets.ts',
    from: 'if (isWanted(event, wanted)) note(found, event);',
    to: 'note(found, event);',
    tests: ['assets'],
  },
  {
    breaks: 'what somebody sent steers the terminal',
    file: 'table.ts',
    from: 'text.replace(UNPRINTABLE,',
    to: 'text.replace(/(?!)/g,',
    tests: ['table', 'events'],
  },
  {
    breaks: 'a cell of CSV is a formula',
    file: 'table.ts',
    from: 'FORMULA.test(cell) ?',
    to: "cell === '=' ?",
    tests: ['table', 'events'],
  },
  {
    breaks: 'damage ends with 0',
    file: 'look.ts',
    from: 'return damaged ? exitCodes.damaged : exitCodes.done;',
    to: 'return exitCodes.done;',
    tests: ['events'],
  },
  {
    breaks: 'a parameter of the document is not looked at',
    file: 'handlers.ts',
    from: "readString(request, 'partition'),\n  };\n  return outcome(request, key, event, CHECK",
    to: "readString(request, 'partition_key'),\n  };\n  return outcome(request, key, event, CHECK",
    tests: ['contract'],
  },
  {
    breaks: 'a null that the document forbids is taken',
    file: 'handlers.ts',
    from: "if (name === undefined) throw new Refusal(400, 'check_name is missing: send the name of the check as a string');",
    to: "if (name === undefined) return 'unnamed';",
    tests: ['contract'],
  },
  {
    breaks: 'a refusal lacks a header of the document',
    file: 'app.ts',
    from: ", { headers: ['Allow', match.allow] }",
    to: '',
    tests: ['contract'],
  },
  {
    breaks: 'a line has a member that its schema does not know',
    file: 'event.ts',
    from: ',"tags":{"data_version":',
    to: ',"tags":{"version":',
    tests: ['contract'],
  },
  {
    breaks: 'a route of the document is not there',
    file: 'app.ts',
    from: "{ methods: ['GET', 'HEAD'], path: '/openapi.json', takesKey: false, handler: () => ({ reply: readContract() }) },",
    to: '',
    tests: ['contract'],
  },
  {
    breaks: 'a wait is not woken by what is recorded',
    file: 'embed.ts',
    from: '    this.#nextSeqs.set(folder, nextSeq);\n    this.#wake();',
    to: '    this.#nextSeqs.set(folder, nextSeq);',
    tests: ['embed'],
  },
  {
    breaks: 'a test sees what is not acknowledged',
    file: 'embed.ts',
    from: 'this.#nextSeqs.get(disk.folder) ?? Number.POSITIVE_INFINITY',
    to: 'Number.POSITIVE_INFINITY',
    tests: ['embed'],
  },
  {
    breaks: 'a batch is told as recorded before its sync',
    file: 'journal.ts',
    from: 'const startedMs = performance.now();\n      const after',
    to: 'this.#options.onRecorded?.(segment.place.seq + batch.length);\n      const startedMs = performance.now();\n      const after',
    tests: ['journal'],
  },
  {
    breaks: 'a service in a test keeps its process alive',
    file: 'listener.ts',
    from: 'if (this.#options.background) socket.unref();',
    to: '',
    tests: ['embed'],
  },
  {
    breaks: 'the folder of a service that nobody stopped stays',
    file: 'embed.ts',
    from: "process.on('exit', removeOwnFolders)",
    to: 'void removeOwnFolders',
    tests: ['embed'],
  },
  {
    breaks: 'who reports to a passed socket is refused while the journal is opened',
    file: 'service.ts',
    from: 'await Promise.race([opened, sleep(limits.openWaitMs, undefined, { ref: false })]).catch(() => {}); // see below',
    to: 'void opened.catch(() => {});',
    tests: ['activation'],
  },
  {
    breaks: 'on a passed socket the address of --host decides who may report',
    file: 'service.ts',
    from: 'checkAccess: createAccess({ address, ',
    to: 'checkAccess: createAccess({ address: config.host, ',
    tests: ['activation'],
  },
  {
    breaks: 'retention removes the newest file',
    file: 'retention.ts',
    from: 'const next = segments[index + 1];',
    to: 'const next = segments[index + 1] ?? segments[index];',
    tests: ['retention'],
  },
  {
    breaks: 'files are removed before the marker is durable',
    file: 'retention.ts',
    from: 'await (await disk.create(marker)).close();',
    to: 'void disk.create(marker).then((made) => made.close());',
    tests: ['retention'],
  },
  {
    breaks: 'a marker that a dead run left is taken for durable',
    file: 'retention.ts',
    from: 'await disk.syncFolder().catch(',
    to: 'await Promise.resolve().catch(',
    tests: ['retention'],
  },
  {
    breaks: 'the old marker goes before the files',
    file: 'retention.ts',
    from: 'for (const fields of files) {',
    to: "for (const name of names) if (goneRange(name, 'removed')) await disk.remove(name);\n    for (const fields of files) {",
    tests: ['retention'],
  },
  {
    breaks: 'an interrupted removal is not finished',
    file: 'retention.ts',
    from: 'firstSeq <= before',
    to: 'firstSeq < 0',
    tests: ['retention'],
  },
  {
    breaks: 'no limit in bytes is obeyed',
    file: 'retention.ts',
    from: 'left > retainBytes',
    to: 'left < 0',
    tests: ['retention'],
  },
  {
    breaks: 'no limit in days is obeyed',
    file: 'retention.ts',
    from: '> retainDays * DAY_MS',
    to: '> Number.POSITIVE_INFINITY',
    tests: ['retention'],
  },
  {
    breaks: 'a rotation does not look at the limits',
    file: 'journal.ts',
    from: '    this.#retention.run();\n',
    to: '',
    tests: ['retention'],
  },
  {
    breaks: 'a close does not wait for a removal',
    file: 'journal.ts',
    from: 'await this.#retention.stop();',
    to: 'void this.#retention.stop();',
    tests: ['retention'],
  },
  {
    breaks: 'what retention removed is taken for damage',
    file: 'scan.ts',
    from: 'gone: [{ first: 1, last }, ...lost],',
    to: 'gone: lost,',
    tests: ['retention'],
  },
  {
    breaks: 'a label of the metrics comes from the request',
    file: 'app.ts',
    from: 'incoming.route = match.path;',
    to: 'incoming.route = head.path;',
    tests: ['metrics'],
  },
  {
    breaks: 'an event is counted that was not recorded',
    file: 'app.ts',
    from: 'if (failure !== undefined) return respond',
    to: 'if (failure !== undefined) metrics.events[type] += 1;\n          if (failure !== undefined) return respond',
    tests: ['metrics'],
  },
  {
    breaks: 'the error and the log have different ids',
    file: 'listener.ts',
    from: '    this.#id ??= nextId();\n    return this.#id;',
    to: '    return nextId();',
    tests: ['service'],
  },
  {
    breaks: 'a report that may have arrived is sent again',
    file: 'delivery.ts',
    from: "if (sent) return { kind: 'in doubt'",
    to: "if (code === 'none') return { kind: 'in doubt'",
    tests: ['delivery'],
  },
  {
    breaks: 'a 500 is asked again',
    file: 'delivery.ts',
    from: 'if (SAFE.has(status))',
    to: 'if (SAFE.has(status) || status === 500)',
    tests: ['delivery'],
  },
  {
    breaks: 'Retry-After is not obeyed',
    file: 'delivery.ts',
    from: 'Math.min(afterMs + (pauseMs',
    to: 'Math.min((pauseMs',
    tests: ['delivery'],
  },
  {
    breaks: 'all that were turned away together come back together',
    file: 'delivery.ts',
    from: '(1 + Math.random())) / 2',
    to: '2) / 2',
    tests: ['delivery'],
  },
  {
    breaks: 'a page that some other server answers with counts as recorded',
    file: 'delivery.ts',
    from: 'if (status === 200 && error === undefined)',
    to: 'if (status === 200)',
    tests: ['delivery'],
  },
  {
    breaks: 'a connection that idled is trusted with a report',
    file: 'client.ts',
    from: 'if (performance.now() - lastMs > limits.keptMs)',
    to: 'if (performance.now() < 0)',
    tests: ['client'],
  },
  {
    breaks: 'a reply is read to its end, however long',
    file: 'client.ts',
    from: 'if (bytes <= limits.replyBytesMax) return;',
    to: 'if (bytes > 0) return;',
    tests: ['client'],
  },
  {
    breaks: 'digits of metadata are lost on the way from a line',
    file: 'submission.ts',
    from: 'parameters.set(name, value.text)',
    to: 'parameters.set(name, JSON.stringify(JSON.parse(value.text)))',
    tests: ['report'],
  },
  {
    breaks: 'a line that is refused ends the run',
    file: 'bulk.ts',
    from: 'if (stop !== undefined) break;',
    to: 'if (counts.refused > 0) break;',
    tests: ['bulk'],
  },
  {
    breaks: 'a line is held in memory, however long',
    file: 'bulk.ts',
    from: 'if (heldBytes <= limits.lineBytesMax) held.push(rest);',
    to: 'if (heldBytes > 0) held.push(rest);',
    tests: ['bulk'],
  },
  {
    breaks: 'what is no token is shown',
    file: 'report.ts',
    from: 'path} holds no token',
    to: 'text} holds no token',
    tests: ['report'],
  },
];

const AT_ONCE = 2;
const TIMEOUT_MS = 120_000;

/** @returns how the mutant ended: which tests noticed, or that it lives */
async function tryMutant({ file, from, to, tests }: Mutant): Promise<string> {
  const copy = mkdtempSync(join(tmpdir(), 'assetlog-mutant-'));
  try {
    for (const name of ['src', 'test', 'package.json', 'tsconfig.json'])
      cpSync(join(root, name), join(copy, name), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    const path = join(copy, 'src', file);
    const text = readFileSync(path, 'utf8');
    if (text.split(from).length !== 2)
      return `LIVES: what it breaks is not in ${file} exactly once; bring it up to date`;
    writeFileSync(
      path,
      text.replace(from, () => to),
    );
    for (const name of tests) if ((await run(copy, name)) !== 0) return `killed by ${name}`;
    return 'LIVES';
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

async function run(folder: string, name: string): Promise<number | null> {
  const built = name.startsWith('faults/');
  if (built && withoutStrace) return 0;
  const test = `node --import tsx --test --test-timeout=60000 test/${name}.test.ts`;
  const command = built ? `npm run --silent build && ASSETLOG_TEST_BUILT=dist/server.js ${test}` : test;
  const child = spawn('sh', ['-c', command], {
    cwd: folder,
    stdio: 'ignore',
    timeout: TIMEOUT_MS,
    env: { ...process.env, NODE_TEST_CONTEXT: undefined, NODE_V8_COVERAGE: undefined },
  });
  const [code] = await once(child, 'exit');
  return code;
}

const words = process.argv.slice(2).join(' ');
const chosen = mutants.filter(({ breaks }) => breaks.includes(words));
let lives = chosen.length === 0 ? 1 : 0;
await each(chosen, AT_ONCE, async (mutant) => {
  const end = await tryMutant(mutant);
  if (end.startsWith('LIVES')) lives += 1;
  console.log(`| ${mutant.breaks} | \`${mutant.file}\` | ${end} |`);
});
console.log(`${chosen.length - lives} of ${chosen.length} mutants were killed`);
process.exitCode = lives === 0 ? 0 : 1;
