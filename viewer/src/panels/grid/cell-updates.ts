/**
 * Which of the cells in sight something arrived for.
 *
 * Rows and thumbnails arrive by the dozen, in every frame of a scroll, each for one cell. What all
 * cells in sight show is compared once in a frame, in plain code: only those that have other
 * contents than before are told, and ask for what they show again.
 */
import type { Mask } from "./painter";

export class CellUpdates {
  #shown = new Map<number, readonly unknown[]>();

  /** `contents` is what is here for the cell at a position. */
  constructor(
    readonly contents: (position: number) => readonly unknown[],
    readonly onUpdate: (position: number) => void,
  ) {}

  /** Says which cells are in sight; they show what is here now. */
  watch(positions: readonly number[]): void {
    this.#shown = new Map(positions.map((position) => [position, this.contents(position)]));
  }

  /** Looks what has arrived since. */
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

/** The masks of each cell, as the same list while they are the same: a cell is painted when they change. */
export class StableMasks {
  #shown = new Map<number, Mask[]>();

  /** `now`, or the list that was given before where nothing differs. */
  at(position: number, now: Mask[]): Mask[] {
    const before = this.#shown.get(position);
    if (before?.length === now.length && now.every((mask, i) => mask.thumbnail === before[i]?.thumbnail)) return before;
    if (this.#shown.size > KEPT) this.#shown.clear();
    this.#shown.set(position, now);
    return now;
  }
}
