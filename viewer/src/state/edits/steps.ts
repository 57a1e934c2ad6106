/**
 * Edits that are not committed: steps in their order, each with what its cells had, so that each can be taken back.
 *
 * A step is done or undone as a whole: a box that goes takes its label with it. Cells are named by tensor and by the
 * row's number in the version, which never changes.
 */
import type { CellValue, Row } from "../../api/client";

/** One tensor's cells of a step: all get one value. */
export interface Part {
  tensor: string;
  rows: readonly number[];
  /** What each of the rows had. */
  before: readonly CellValue[];
  value: CellValue;
}

export type Step = readonly Part[];

/** What differs from the version in one cell. */
export interface Change {
  before: CellValue;
  value: CellValue;
}

/** The outcome of all steps, cell by cell; a cell that has again what it had does not differ. */
export class Changes {
  readonly #byTensor = new Map<string, Map<number, Change>>();

  get tensors(): readonly string[] {
    return [...this.#byTensor.keys()];
  }

  get count(): number {
    let count = 0;
    for (const cells of this.#byTensor.values()) count += cells.size;
    return count;
  }

  of(tensor: string): ReadonlyMap<number, Change> {
    return this.#byTensor.get(tensor) ?? new Map<number, Change>();
  }

  hasRow(row: number): boolean {
    for (const cells of this.#byTensor.values()) if (cells.has(row)) return true;
    return false;
  }

  apply(step: Step): void {
    for (const { tensor, rows, before, value } of step) rows.forEach((row, i) => this.#set(tensor, row, before[i] ?? null, value));
  }

  /** Gives the cells what they had before the step. */
  revert(step: Step): void {
    for (const { tensor, rows, before, value } of step) rows.forEach((row, i) => this.#set(tensor, row, value, before[i] ?? null));
  }

  clear(): void {
    this.#byTensor.clear();
  }

  /** The row as it will be. */
  onto(row: Row): Row {
    if (row._row === null) return row;
    let changed: Row | null = null;
    for (const [tensor, cells] of this.#byTensor) {
      const change = cells.get(row._row);
      if (change !== undefined && tensor in row) changed = { ...(changed ?? row), [tensor]: change.value };
    }
    return changed ?? row;
  }

  #set(tensor: string, row: number, had: CellValue, value: CellValue): void {
    const cells = this.#byTensor.get(tensor) ?? new Map<number, Change>();
    const before = cells.has(row) ? (cells.get(row)?.before ?? null) : had;
    if (isSame(before, value)) cells.delete(row);
    else cells.set(row, { before, value });
    if (cells.size > 0) this.#byTensor.set(tensor, cells);
    else this.#byTensor.delete(tensor);
  }
}

export function isSame(a: CellValue, b: CellValue): boolean {
  return a === b || (typeof a === "object" && typeof b === "object" && JSON.stringify(a) === JSON.stringify(b));
}
