/** The masks of each cell, as the same list while they are the same: a cell is painted when they change. */
import type { Mask } from "./painter";

const KEPT = 1000;

export class SteadyMasks {
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
