/** Reads the points of a map, and which rows the query includes. */
import { ApiError, isConnectionLost, type Problem } from "../../api/client";
import { RowSet } from "../../state/rows/row-set";
import type { Viewer } from "../../state/viewer.svelte";
import { readPoints, type Points } from "./points";

export class MapData {
  points = $state.raw<Points | null>(null);
  problem = $state.raw<Problem | null>(null);
  isLoading = $state(false);
  /** The rows of the query's result, and their order in it; null where all rows are shown. */
  included = $state.raw<{ rows: RowSet; order: ArrayLike<number> } | null>(null);
  attempt = $state(0);

  constructor(readonly viewer: Viewer) {}

  /** Reads the points of a tensor; what is shown stays until they are there. */
  async read(tensor: string, color: string | null, signal: AbortSignal): Promise<void> {
    const { api, place, info } = this.viewer;
    this.isLoading = true;
    this.problem = null;
    await this.#attempt(signal, async () => {
      const buffer = await api.projection(place.dataset ?? "", tensor, info?.version ?? "", color, signal);
      if (!signal.aborted) this.points = readPoints(buffer);
    });
    if (!signal.aborted) this.isLoading = false;
  }

  async readIncluded(signal: AbortSignal): Promise<void> {
    const { result, results, place } = this.viewer;
    if (result === null || result.is_computed) {
      this.included = null;
      return;
    }
    await this.#attempt(signal, async () => {
      const order = await results.numbersOf(place.dataset ?? "", result.view);
      if (!signal.aborted) this.included = { rows: new RowSet(Array.from(order)), order };
    });
  }

  /** Where the query's result has a row; null where it has not. */
  positionOf(row: number): number | null {
    if (this.included === null) return row;
    const position = Array.prototype.indexOf.call(this.included.order, row);
    return position < 0 ? null : position;
  }

  async #attempt(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (signal.aborted || isConnectionLost(error)) return; // read again once the server responds
      if (!(error instanceof ApiError)) throw error;
      this.problem = error.problem;
    }
  }
}
