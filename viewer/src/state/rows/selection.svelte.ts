/**
 * Rows that were selected one by one or in ranges, by their number in the version: the same rows in every query.
 *
 * A version's rows never change their number, so another version starts without a selection.
 */
import { SvelteSet } from "svelte/reactivity";

const LONGEST = 16_000; // characters of a query that the server takes, less those of the words around

export class RowSelection {
  readonly rows = new SvelteSet<number>();
  /** The position where a range starts. */
  #anchor: number | null = null;

  toggle(position: number, row: number): void {
    if (!this.rows.delete(row)) this.rows.add(row);
    this.#anchor = position;
  }

  /** Selects from the last one that was toggled to `position`; rows that are not loaded are left out. */
  extend(position: number, rowAt: (position: number) => number | null): void {
    const from = this.#anchor ?? position;
    for (let at = Math.min(from, position); at <= Math.max(from, position); at += 1) {
      const row = rowAt(at);
      if (row !== null) this.rows.add(row);
    }
    this.#anchor = position;
  }

  /** The next range starts anew: positions are those of other rows now. */
  forgetPlace(): void {
    this.#anchor = null;
  }

  clear(): void {
    this.rows.clear();
    this.forgetPlace();
  }
}

/** The query that selects rows, as ranges; null where it would be too long. */
export function selectRows(rows: Iterable<number>): string | null {
  const sorted = [...rows].sort((a, b) => a - b);
  const parts: string[] = [];
  const singles: number[] = [];
  for (let i = 0; i < sorted.length; ) {
    let stop = i;
    while (sorted[stop + 1] === (sorted[stop] ?? NaN) + 1) stop += 1;
    if (stop - i < 2) singles.push(...sorted.slice(i, stop + 1));
    else parts.push(`ROW_NUMBER() BETWEEN ${sorted[i]} AND ${sorted[stop]}`);
    i = stop + 1;
  }
  if (singles.length > 0) parts.push(`ROW_NUMBER() IN (${singles.join(", ")})`);
  const text = `WHERE ${parts.join(" OR ")}`;
  return text.length > LONGEST ? null : text;
}
