/**
 * Row numbers as bits: a million rows are 125 kB, are added in milliseconds, and come in ascending order.
 */

const BITS = 32;

export class RowSet {
  #words = new Uint32Array(0);
  #size = 0;

  constructor(rows: Iterable<number> = []) {
    this.addAll(rows);
  }

  get size(): number {
    return this.#size;
  }

  has(row: number): boolean {
    return (((this.#words[row >>> 5] ?? 0) >>> (row & 31)) & 1) === 1;
  }

  add(row: number): void {
    const at = row >>> 5;
    if (at >= this.#words.length) this.#grow(at + 1);
    const [word, bit] = [this.#words[at] ?? 0, 1 << (row & 31)];
    if ((word & bit) !== 0) return;
    this.#words[at] = word | bit;
    this.#size += 1;
  }

  addAll(rows: Iterable<number>): void {
    for (const row of rows) this.add(row);
  }

  /** Whether it was there. */
  delete(row: number): boolean {
    if (!this.has(row)) return false;
    const at = row >>> 5;
    this.#words[at] = (this.#words[at] ?? 0) & ~(1 << (row & 31));
    this.#size -= 1;
    return true;
  }

  clear(): void {
    this.#words.fill(0);
    this.#size = 0;
  }

  copy(): RowSet {
    const rows = new RowSet();
    [rows.#words, rows.#size] = [this.#words.slice(), this.#size];
    return rows;
  }

  *[Symbol.iterator](): Generator<number> {
    for (let at = 0; at < this.#words.length; at += 1) {
      for (let word = this.#words[at] ?? 0; word !== 0; word &= word - 1) yield at * BITS + (BITS - 1 - Math.clz32(word & -word));
    }
  }

  /** Ascending, in one piece. */
  toArray(): Float64Array {
    const rows = new Float64Array(this.#size);
    let count = 0;
    for (const row of this) rows[count++] = row;
    return rows;
  }

  #grow(least: number): void {
    const words = new Uint32Array(Math.max(least, Math.ceil(1.5 * this.#words.length)));
    words.set(this.#words);
    this.#words = words;
  }
}
