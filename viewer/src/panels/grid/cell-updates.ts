/**
 * Which visible cells have new contents.
 *
 * Rows and thumbnails arrive by the dozen in every frame of a scroll, each for one cell. The contents of all visible
 * cells are compared once per frame, in plain code; only cells whose contents changed are updated.
 */
import type { CellImage } from "./painter";

export class CellUpdates {
  #shown = new Map<number, readonly unknown[]>();

  /** `contents` returns the contents of the cell at a position. */
  constructor(
    readonly contents: (position: number) => readonly unknown[],
    readonly onUpdate: (position: number) => void,
  ) {}

  /** Sets the visible cells, with their current contents. */
  watch(positions: readonly number[]): void {
    this.#shown = new Map(positions.map((position) => [position, this.contents(position)]));
  }

  /** Updates the cells whose contents changed since. */
  tell(): void {
    for (const [position, before] of this.#shown) {
      const now = this.contents(position);
      if (now.length === before.length && now.every((one, i) => one === before[i])) continue;
      this.#shown.set(position, now);
      this.onUpdate(position);
    }
  }
}

const KEPT = 1000;

/** Keeps the list of a cell's images identical while all thumbnails are: a new list repaints the cell. */
export class StableImages {
  #shown = new Map<number, CellImage[]>();

  /** `now`, or the previous list if it is equal. */
  at(position: number, now: CellImage[]): CellImage[] {
    const before = this.#shown.get(position);
    if (before?.length === now.length && now.every((image, i) => isSame(image, before[i]))) return before;
    if (this.#shown.size > KEPT) this.#shown.clear();
    this.#shown.set(position, now);
    return now;
  }
}

function isSame(a: CellImage, b: CellImage | undefined): boolean {
  if (a.tensor !== b?.tensor || a.thumbnail !== b.thumbnail || a.masks.length !== b.masks.length) return false;
  return a.masks.every(({ thumbnail }, i) => thumbnail === b.masks[i]?.thumbnail);
}
