/**
 * Labels that are set by hand: decisions in their order, which can be undone, kept in this browser until they are
 * committed. A crash, or a restart of the server, loses none.
 */
import type { Row } from "../../api/client";

export type Code = number | null;

export interface Decision {
  code: Code;
  /** With what they had before; undefined where that is not known. */
  rows: { row: number; before?: Code }[];
}

export interface LabelChange {
  row: number;
  before: Code | undefined;
  code: Code;
}

export class LabelEdits {
  /** The tensor that is labelled; null while none is. */
  tensor = $state<string | null>(null);
  #done = $state.raw<readonly Decision[]>([]);
  #undone = $state.raw<readonly Decision[]>([]);
  #key = "";
  /** What differs from the version, by row. */
  changes: ReadonlyMap<number, LabelChange> = $derived(foldDecisions(this.#done));

  constructor(readonly storage: Pick<Storage, "getItem" | "setItem" | "removeItem">) {}

  get canUndo(): boolean {
    return this.#done.length > 0;
  }

  get canRedo(): boolean {
    return this.#undone.length > 0;
  }

  /** Continues the decisions on a tensor of one version. */
  open(dataset: string, version: string, tensor: string): void {
    this.#key = `tensorlake-labels:${dataset}@${version}:${tensor}`;
    this.tensor = tensor;
    this.#done = readDecisions(this.storage.getItem(this.#key));
    this.#undone = [];
  }

  close(): void {
    this.tensor = null;
    this.#done = this.#undone = [];
  }

  decide(code: Code, rows: Decision["rows"]): void {
    this.#put([...this.#done, { code, rows }], []);
  }

  /** Takes the last decision back, and returns it. */
  undo(): Decision | undefined {
    const last = this.#done.at(-1);
    if (last !== undefined) this.#put(this.#done.slice(0, -1), [...this.#undone, last]);
    return last;
  }

  redo(): Decision | undefined {
    const last = this.#undone.at(-1);
    if (last !== undefined) this.#put([...this.#done, last], this.#undone.slice(0, -1));
    return last;
  }

  /** Forgets all decisions: they are committed, or discarded. */
  clear(): void {
    this.#put([], []);
  }

  /** A row as it will be. */
  apply(row: Row): Row {
    const change = this.tensor === null || row._row === null ? undefined : this.changes.get(row._row);
    return change === undefined || this.tensor === null ? row : { ...row, [this.tensor]: change.code };
  }

  #put(done: readonly Decision[], undone: readonly Decision[]): void {
    [this.#done, this.#undone] = [done, undone];
    if (done.length === 0) this.storage.removeItem(this.#key);
    else this.storage.setItem(this.#key, JSON.stringify(done));
  }
}

/** The last decision on each row; none where it has again what it had before. */
export function foldDecisions(decisions: readonly Decision[]): Map<number, LabelChange> {
  const changes = new Map<number, LabelChange>();
  const stored = new Map<number, Code>();
  for (const { code, rows } of decisions) {
    for (const { row, before } of rows) {
      if (before !== undefined && !changes.has(row) && !stored.has(row)) stored.set(row, before);
      changes.set(row, { row, before: stored.get(row), code });
      if (stored.has(row) && stored.get(row) === code) changes.delete(row);
    }
  }
  return changes;
}

function readDecisions(text: string | null): Decision[] {
  if (text === null) return [];
  try {
    const kept: unknown = JSON.parse(text);
    return Array.isArray(kept) ? kept.filter(isDecision) : [];
  } catch (error) {
    if (error instanceof SyntaxError) return []; // not written by this page
    throw error;
  }
}

function isDecision(one: unknown): one is Decision {
  const isCode = (code: unknown) => code === null || typeof code === "number";
  return typeof one === "object" && one !== null && "code" in one && isCode(one.code) && "rows" in one && Array.isArray(one.rows);
}

/** The changes as one transaction: an update for each class. */
export function labelOperations(tensor: string, names: readonly string[], changes: Iterable<LabelChange>) {
  const rowsOf = new Map<Code, number[]>();
  for (const { row, code } of changes) rowsOf.set(code, [...(rowsOf.get(code) ?? []), row]);
  return [...rowsOf].map(([code, rows]) => ({
    op: "update" as const,
    tensor,
    rows: rows.sort((a, b) => a - b),
    value: code === null ? null : (names[code] ?? code),
  }));
}
