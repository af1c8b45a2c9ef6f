/** A life as its options, and what became of it. */

/** What decides a life. */
export interface Replay {
  readonly seed: number;
  /** With faults, before all heals. */
  readonly steps: number;
  /** The numbers of the faults of the plan that happen; all if it is undefined. */
  readonly only?: readonly number[] | undefined;
  /** The names of the clients that live; all if it is undefined. */
  readonly clients?: readonly string[] | undefined;
  /** Whether disks write the sectors of one write in any order. */
  readonly reorders?: boolean | undefined;
  /** When it begins, in virtual milliseconds: with empty disks, and without the faults of its plan from before that. 0 if undefined. */
  readonly fromMs?: number | undefined;
  /** Whether it ends with its steps, and nothing heals: for a promise that breaks before. */
  readonly isCut?: boolean | undefined;
}

/** @returns the options of a life: `['--seed', '7', '--steps', '100000']` */
export function optionsOf({ seed, steps, only, clients, reorders, fromMs, isCut }: Replay): string[] {
  return [
    ...['--seed', `${seed}`, '--steps', `${steps}`],
    ...(only === undefined ? [] : optionOf('--only', only)),
    ...(clients === undefined ? [] : optionOf('--clients', clients)),
    ...(reorders ? ['--reorder'] : []),
    ...(fromMs === undefined ? [] : ['--from', `${fromMs}`]),
    ...(isCut ? ['--cut'] : []),
  ];
}

/** Whether something of the life is left out. */
export function isPart({ only, clients, fromMs }: Replay): boolean {
  return [only, clients, fromMs].some((part) => part !== undefined);
}

/** An empty value is written so that a shell keeps it. */
function optionOf(name: string, values: readonly unknown[]): string[] {
  return values.length === 0 ? [`${name}=`] : [name, values.join(',')];
}

/** @returns the parts of an option such as `3,9,12`; none if it is empty */
export function listed(text: string): string[] {
  return text.split(',').filter((part) => part !== '');
}
