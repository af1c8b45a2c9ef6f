/**
 * Journals that forward to each other at random, with faults: what a hub decides is that of the service, all else is a model. Requests
 * are lost, late or come twice; replies are lost; a crash keeps any part of what was not synced; files are removed, repaired, put back,
 * copied and made anew, and destinations change. Each run is one seed. A promise that is broken throws.
 */

import assert from 'node:assert/strict';
import type { EventOrigin } from '../../src/event/event.ts';
import type { LineName } from '../../src/event/line-name.ts';
import type { ForwardedEvent } from '../../src/forward/hub/received.ts';
import {
  addLine,
  bounded,
  decide,
  NOTHING,
  type Own,
  type Watermark,
  watermarkOf,
} from '../../src/forward/hub/watermark.ts';
import type { SeqRange } from '../../src/forward/position.ts';
import type { Era } from '../../src/forward/source.ts';
import { Chance } from './chance.ts';

interface Line {
  readonly seq: number;
  readonly id: string;
  readonly from?: LineName | undefined;
  readonly origin?: LineName | undefined;
}

/** What a folder has. */
interface Folder {
  eras: Era[];
  lines: Line[];
  last: number;
  removed: number;
  losses: SeqRange[];
  snapshot: { readonly seq: number; readonly marks: readonly (readonly [string, Watermark])[] } | undefined;
  /** The ids of all events that it ever had, but for those that a repair has lost. */
  had: Set<string>;
}

interface Pipe {
  readonly to: number;
  theirs: { readonly seq: number; readonly id: string | null } | undefined;
  confirmed: number;
  request: Request | undefined;
}

interface Request {
  readonly sender: Node;
  readonly to: number;
  readonly life: number;
  readonly eras: readonly Era[];
  readonly firstSeq: number;
  readonly lost: SeqRange | undefined;
  readonly after: string | undefined;
  readonly lines: readonly Line[];
}

/** A request that is being recorded. */
interface Task {
  readonly request: Request;
  readonly marks: ReadonlyMap<string, Watermark>;
  readonly journals: ReadonlySet<string>;
  left: number;
}

interface Node {
  readonly index: number;
  folder: Folder;
  pending: { readonly line: Omit<Line, 'seq'>; readonly task?: Task }[];
  marks: Map<string, Watermark> | undefined;
  /** The journals of the requests that are being recorded. */
  held: Set<string>;
  pipes: Map<number, Pipe>;
  /** Number of its starts. */
  life: number;
  /** Whether a journal might have lines under its id that a backup does not have. */
  hasSent: boolean;
  backup: Folder | undefined;
}

export interface WorldOptions {
  readonly seed: number;
  readonly steps: number;
  readonly nodes: number;
  /** Without moves, losses and new ids each journal also has the events of each other one in order. */
  readonly isOrdered: boolean;
  readonly partsMax: number;
}

export class OriginWorld {
  readonly #options: WorldOptions;
  readonly #nodes: Node[];
  readonly #chance: Chance;
  #ids = 0;
  #net: Request[] = [];
  /** Lines that their journals said are lost: `J1:7`. */
  readonly #declared = new Set<string>();
  readonly #lastOf = new Map<string, number>();

  constructor(options: WorldOptions) {
    this.#options = options;
    this.#chance = new Chance(options.seed);
    this.#nodes = Array.from({ length: options.nodes }, (_, index) => ({
      index,
      folder: this.#newFolder(),
      pending: [],
      marks: undefined,
      held: new Set(),
      pipes: new Map(),
      life: 0,
      hasSent: false,
      backup: undefined,
    }));
    for (const node of this.#nodes) this.#reroute(node);
  }

  run(): void {
    for (let step = 0; step < this.#options.steps; step += 1) this.#step();
    this.#settle();
  }

  #below(count: number): number {
    return this.#chance.integer(0, count - 1);
  }

  #pick<Value>(values: readonly Value[]): Value {
    return this.#chance.oneOf(values);
  }

  #newId(): string {
    this.#ids += 1;
    return `J${this.#ids}`;
  }

  #newFolder(): Folder {
    const eras: Era[] = [[1, this.#newId()]];
    return { eras, lines: [], last: 0, removed: 0, losses: [], snapshot: undefined, had: new Set() };
  }

  #step(): void {
    const node = this.#pick(this.#nodes);
    const pipe = node.pipes.size > 0 ? this.#pick([...node.pipes.values()]) : undefined;
    const other = this.#pick(this.#nodes);
    const steps: readonly (readonly [weight: number, isOrdered: boolean, () => void])[] = [
      [16, true, () => node.pending.push({ line: { id: `E${this.#newId()}` } })],
      [20, true, () => this.#sync(node, this.#below(node.pending.length + 1))],
      [
        22,
        true,
        () =>
          pipe && (pipe.theirs === undefined || this.#below(10) === 0 ? this.#ask(node, pipe) : this.#send(node, pipe)),
      ],
      [22, true, () => this.#net.length > 0 && this.#deliver(this.#below(this.#net.length))],
      [2, true, () => this.#lose(this.#net.splice(this.#below(this.#net.length), 1)[0])],
      [4, true, () => this.#crash(node)],
      [1.5, true, () => this.#stop(node)],
      [1.5, true, () => this.#remove(node, true)],
      [4, false, () => this.#reroute(node)],
      [1.5, false, () => this.#remove(node, false)],
      [1, false, () => Object.assign(node, { backup: structuredClone(node.folder) })],
      [1, false, () => this.#restore(node)],
      [1, false, () => this.#renew(node)],
      [1, false, () => this.#repair(node)],
      [0.7, false, () => other !== node && this.#copy(node, other)],
      [0.4, false, () => this.#replace(node, this.#newFolder())],
    ];
    let at = this.#chance.share() * steps.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, isOrdered, run] of steps) {
      at -= weight;
      if (at >= 0) continue;
      if (isOrdered || !this.#options.isOrdered) run();
      return;
    }
  }

  #reroute(node: Node): void {
    const others = this.#nodes.filter((one) => one !== node);
    const wanted = new Set(
      Array.from({ length: this.#options.isOrdered ? 2 : this.#below(3) }, () => this.#pick(others).index),
    );
    for (const to of node.pipes.keys()) if (!wanted.has(to)) node.pipes.delete(to);
    for (const to of wanted)
      if (!node.pipes.has(to)) node.pipes.set(to, { to, theirs: undefined, confirmed: 0, request: undefined });
  }

  #sync(node: Node, count = node.pending.length): void {
    const { pending } = node;
    let end = count;
    // The lines of a request are synced together.
    while (
      end > 0 &&
      end < pending.length &&
      pending[end]!.task !== undefined &&
      pending[end]!.task === pending[end - 1]!.task
    )
      end += 1;
    for (const { line, task } of pending.splice(0, end)) {
      this.#add(node, line);
      if (task === undefined) continue;
      task.left -= 1;
      if (task.left > 0) continue;
      for (const [journal, mark] of task.marks) node.marks!.set(journal, mark);
      for (const journal of task.journals) node.held.delete(journal);
      this.#reply(node, task.request);
    }
  }

  #add(node: Node, line: Omit<Line, 'seq'>): void {
    const { folder } = node;
    assert.ok(!folder.had.has(line.id), `${line.id} is twice at ${node.index}`);
    folder.last += 1;
    folder.lines.push({ ...line, seq: folder.last });
    folder.had.add(line.id);
    if (!this.#options.isOrdered) return;
    const [journal, seq] = line.origin ?? line.from ?? [folder.eras[0]![1], folder.last];
    const key = `${node.index} ${journal}`;
    assert.ok((this.#lastOf.get(key) ?? 0) < seq, `${journal} is out of order at ${node.index}`);
    this.#lastOf.set(key, seq);
  }

  #ownOf({ folder: { eras, last, losses } }: Node): Own {
    return { eras, losses, lastSeq: last };
  }

  #bound(mark: Watermark): Watermark {
    return bounded(mark, this.#options.partsMax, () => {});
  }

  /** What a start reads. */
  #load(node: Node): Map<string, Watermark> {
    if (node.marks !== undefined) return node.marks;
    const { snapshot, lines, losses } = node.folder;
    const marks = new Map(snapshot?.marks);
    const readSeq = snapshot?.seq ?? 0;
    for (const { seq, id, from, origin } of lines) {
      if (seq <= readSeq || from === undefined) continue;
      const isAfterLoss = losses.some(({ last }) => last > readSeq && last < seq);
      addLine(
        marks,
        { from, origin: origin ?? from, id },
        { isAfterLoss, isFirst: false, bound: (mark) => this.#bound(mark) },
      );
    }
    node.marks = marks;
    if (this.#below(2) === 0) this.#write(node);
    return marks;
  }

  #write(node: Node): void {
    const marks = [...this.#load(node)];
    node.folder.snapshot = { seq: node.folder.last, marks };
  }

  #positionOf(node: Node, eras: readonly Era[]): Watermark {
    const mark = watermarkOf(this.#load(node), this.#ownOf(node), eras) ?? NOTHING;
    const sender = this.#nodes.find(({ folder }) => folder.eras.at(-1)![1] === eras.at(-1)![1]);
    for (const { seq, id } of sender?.folder.lines ?? []) {
      if (seq > mark.seq || node.folder.had.has(id) || this.#isDeclared(sender!, seq)) continue;
      assert.fail(`${node.index} says that it has ${mark.seq} of ${sender!.index}, and lacks its line ${seq}, ${id}`);
    }
    return mark;
  }

  #isDeclared({ folder: { eras } }: Node, seq: number): boolean {
    return eras.some(([, id]) => this.#declared.has(`${id}:${seq}`));
  }

  #declare(eras: readonly Era[], { first, last }: SeqRange): void {
    for (const [, id] of eras) for (let seq = first; seq <= last; seq += 1) this.#declared.add(`${id}:${seq}`);
  }

  #ask(node: Node, pipe: Pipe): void {
    const hub = this.#nodes[pipe.to]!;
    if (pipe.request === undefined) this.#hear(node, pipe, this.#positionOf(hub, node.folder.eras));
  }

  #reply(node: Node, request: Request): void {
    const mark = this.#positionOf(node, request.eras);
    const pipe = this.#lose(request);
    if (pipe === undefined || request.sender.life !== request.life || this.#below(7) === 0) return;
    this.#hear(request.sender, pipe, mark);
  }

  #hear({ index, folder: { last, lines } }: Node, pipe: Pipe, { seq, id }: Watermark): void {
    const own = lines.find((line) => line.seq === seq)?.id ?? id;
    assert.ok(
      seq <= last && (id === null || own === id),
      `${index} ends with ${last}, and ${pipe.to} has ${seq} as ${id}`,
    );
    pipe.theirs = { seq, id };
    pipe.confirmed = seq;
  }

  #send(node: Node, pipe: Pipe): void {
    const { lines, eras } = node.folder;
    if (pipe.theirs === undefined || pipe.request !== undefined) return;
    const due = pipe.theirs.seq + 1;
    const start = lines.findIndex(({ seq }) => seq >= due);
    if (start === -1) return;
    let end = start + 1;
    for (const most = start + 1 + this.#below(4); end < most && lines[end]?.seq === lines[end - 1]!.seq + 1; ) end += 1;
    const firstSeq = lines[start]!.seq;
    const lost = firstSeq > due ? { first: due, last: firstSeq - 1 } : undefined;
    const after = firstSeq === due ? (pipe.theirs.id ?? undefined) : undefined;
    pipe.request = {
      sender: node,
      to: pipe.to,
      life: node.life,
      eras: [...eras],
      firstSeq,
      lost,
      after,
      lines: lines.slice(start, end),
    };
    node.hasSent = true;
    this.#net.push(pipe.request);
  }

  /** A sender gets no reply. @returns its pipe, if it waits for that */
  #lose(request: Request | undefined): Pipe | undefined {
    const pipe = request?.sender.pipes.get(request.to);
    if (pipe === undefined || pipe.request !== request) return undefined;
    pipe.request = pipe.theirs = undefined;
    return pipe;
  }

  #deliver(at: number): void {
    const request = this.#net[at]!;
    const { eras, lines } = request;
    const hub = this.#nodes[request.to]!;
    const [, source] = eras.at(-1)!;
    const events = lines.map(({ seq, id, from, origin }) => {
      const [journal, n] = origin ?? from ?? [eras.findLast(([first]) => first <= seq)![1], seq];
      const first: LineName | undefined = journal === source && n === seq ? undefined : [journal, n];
      return { origin: { id, source, seq, first } as EventOrigin } as ForwardedEvent;
    });
    const journals = new Set([...eras.map(([, id]) => id), ...events.map(({ origin }) => origin.first?.[0] ?? source)]);
    if ([...journals].some((journal) => hub.held.has(journal))) return;
    if (this.#below(10) > 0 || this.#net.length > 12) this.#net.splice(at, 1);
    const decision = decide(
      { marks: this.#load(hub), own: this.#ownOf(hub), partsMax: this.#options.partsMax },
      request,
      events,
    );
    assert.notEqual(decision.kind, 'fork', `${request.sender.index} is a fork at ${hub.index}`);
    assert.notEqual(decision.kind, 'restored', `${hub.index} is restored, says ${request.sender.index}`);
    if (decision.kind !== 'taken') {
      this.#lose(request);
      return;
    }
    const { fresh, marks } = decision;
    const recorded = new Set(fresh.map(({ origin }) => origin.id));
    for (const { id, seq } of lines)
      assert.ok(
        recorded.has(id) || hub.folder.had.has(id),
        `${hub.index} leaves out ${id}, line ${seq} of ${source}, and lacks it`,
      );
    if (request.lost !== undefined) this.#declare(eras, request.lost);
    const task: Task = { request, marks, journals, left: fresh.length };
    for (const { origin } of fresh)
      hub.pending.push({ line: { id: origin.id, from: [source, origin.seq], origin: origin.first }, task });
    if (fresh.length > 0) for (const journal of journals) hub.held.add(journal);
    else {
      for (const [journal, mark] of marks) hub.marks!.set(journal, mark);
      this.#reply(hub, request);
    }
  }

  #crash(node: Node): void {
    for (const { line } of node.pending.slice(0, this.#below(node.pending.length + 1))) this.#add(node, line);
    this.#restart(node);
  }

  #restart(node: Node): void {
    for (const { task } of node.pending) this.#lose(task?.request);
    node.pending = [];
    node.held = new Set();
    node.marks = undefined;
    node.life += 1;
    for (const pipe of node.pipes.values()) pipe.theirs = pipe.request = undefined;
  }

  #stop(node: Node): void {
    this.#sync(node);
    this.#write(node);
    this.#restart(node);
  }

  /** @param isHeld whether what a destination has not confirmed stays */
  #remove(node: Node, isHeld: boolean): void {
    const { folder } = node;
    if (folder.lines.length < 2) return;
    let last = folder.lines[this.#below(folder.lines.length - 1)]!.seq;
    if (isHeld) for (const { confirmed } of node.pipes.values()) last = Math.min(last, confirmed);
    if (folder.lines[0]!.seq > last) return;
    if ((folder.snapshot?.seq ?? 0) < last) this.#write(node);
    folder.lines = folder.lines.filter(({ seq }) => seq > last);
    folder.removed = last;
  }

  /** Loses lines after the snapshot. */
  #repair(node: Node): void {
    this.#sync(node);
    const { folder } = node;
    const some = folder.lines.filter(({ seq }) => seq > (folder.snapshot?.seq ?? 0) && seq < folder.last);
    if (some.length === 0) return;
    const at = this.#below(some.length);
    const gone = some.slice(at, at + 1 + this.#below(3));
    folder.lines = folder.lines.filter((line) => !gone.includes(line));
    for (const { id } of gone) folder.had.delete(id);
    const range = { first: gone[0]!.seq, last: gone.at(-1)!.seq };
    folder.losses.push(range);
    this.#declare(folder.eras, range);
    this.#restart(node);
  }

  /** `identity --new` */
  #renew(node: Node): void {
    this.#sync(node);
    node.folder.eras.push([node.folder.last + 1, this.#newId()]);
    node.hasSent = false;
    for (const pipe of node.pipes.values()) pipe.confirmed = 0;
    this.#restart(node);
  }

  #restore(node: Node): void {
    if (node.backup === undefined) return;
    const hadOther = `${node.folder.eras}` !== `${node.backup.eras}`;
    node.folder = structuredClone(node.backup);
    this.#restart(node);
    // It is not known which of its lines others have.
    if (node.hasSent || hadOther) this.#renew(node);
    node.hasSent = true;
  }

  #copy(from: Node, to: Node): void {
    from.hasSent = true;
    this.#replace(to, structuredClone(from.folder));
    this.#renew(to);
    to.hasSent = true;
  }

  #replace(node: Node, folder: Folder): void {
    this.#restart(node);
    node.folder = folder;
    node.backup = undefined;
    for (const pipe of node.pipes.values()) pipe.confirmed = 0;
  }

  /** The faults end: everything arrives. */
  #settle(): void {
    for (let round = 0; ; round += 1) {
      const pipes = this.#nodes.flatMap((node) => [...node.pipes.values()].map((pipe) => ({ node, pipe })));
      if (round === 30) for (const { pipe } of pipes) if (pipe.request === undefined) pipe.theirs = undefined;
      for (const node of this.#nodes) this.#sync(node);
      for (let at = this.#net.length - 1; at >= 0; at -= 1) if (at < this.#net.length) this.#deliver(at);
      if (round > 20) this.#net = this.#net.filter((one) => one.sender.pipes.get(one.to)?.request === one);
      for (const node of this.#nodes) this.#sync(node);
      let isDone = round > 30 && this.#net.length === 0;
      for (const { node, pipe } of pipes) {
        const { request } = pipe;
        if (request !== undefined && !this.#net.includes(request)) this.#lose(request);
        if (pipe.theirs === undefined) this.#ask(node, pipe);
        if ((pipe.theirs?.seq ?? -1) < node.folder.last) isDone = false;
        this.#send(node, pipe);
      }
      if (isDone && this.#nodes.every(({ pending }) => pending.length === 0)) break;
      assert.ok(round < 399, 'it does not end');
    }
    this.#checkAll();
  }

  #checkAll(): void {
    for (const node of this.#nodes) {
      for (const { to } of node.pipes.values()) {
        for (const { id, seq } of node.folder.lines)
          assert.ok(
            this.#nodes[to]!.folder.had.has(id) || this.#isDeclared(node, seq),
            `${to} lacks ${id}, line ${seq} of ${node.index}`,
          );
      }
    }
  }
}
