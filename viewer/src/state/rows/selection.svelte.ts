/**
 * Rows that were selected one by one or in ranges, by their number in the version: the same rows in every query.
 *
 * A version's rows never change their number, so another version starts without a selection.
 */
import { RowSet } from "./row-set";
import { listRuns } from "./runs";

const LONGEST = 16_000; // characters of a query that the server takes, less those of the words around
export const MOST_SELECTED = 2_000_000; // whose numbers are 16 MB on the wire
const LONGEST_COPY = 262_000; // of one that ds.query takes

export class RowSelection {
  #rows = new RowSet();
  /** Raised with every change: a signal for each of a million rows would be slower than drawing the cells in sight again. */
  #changes = $state(0);
  /** The position where a range starts. */
  #anchor: number | null = null;

  get rows(): Pick<RowSet, "size" | "has" | "copy" | typeof Symbol.iterator> {
    void this.#changes;
    return this.#rows;
  }

  get sorted(): Float64Array {
    void this.#changes;
    return this.#rows.toArray();
  }

  toggle(position: number, row: number): void {
    if (!this.#rows.delete(row)) this.#rows.add(row);
    this.#anchor = position;
    this.#changes += 1;
  }

  /** Selects other rows. */
  put(rows: RowSet): void {
    this.#rows = rows;
    this.forgetPlace();
    this.#changes += 1;
  }

  /** Selects from the last one that was toggled to `position`; rows that are not loaded are left out. */
  extend(position: number, rowAt: (position: number) => number | null): void {
    const from = this.#anchor ?? position;
    for (let at = Math.min(from, position); at <= Math.max(from, position); at += 1) {
      const row = rowAt(at);
      if (row !== null) this.#rows.add(row);
    }
    this.#anchor = position;
    this.#changes += 1;
  }

  /** The next range starts anew: positions are those of other rows now. */
  forgetPlace(): void {
    this.#anchor = null;
  }

  clear(): void {
    this.put(new RowSet());
  }
}

/** The query that selects sorted rows, as ranges; null where it would be longer than `longest`. */
export function selectRows(sorted: ArrayLike<number>, longest: "run" | "copy" = "run"): string | null {
  const most = longest === "run" ? LONGEST : LONGEST_COPY;
  const parts: string[] = [];
  const singles: number[] = [];
  for (const { start, length } of listRuns(sorted)) {
    if (length > 2) parts.push(`ROW_NUMBER() BETWEEN ${start} AND ${start + length - 1}`);
    else for (let row = start; row < start + length; row += 1) singles.push(row);
    if (parts.length + singles.length > most) return null;
  }
  if (singles.length > 0) parts.push(`ROW_NUMBER() IN (${singles.join(", ")})`);
  const text = `WHERE ${parts.join(" OR ")}`;
  return text.length > most ? null : text;
}
