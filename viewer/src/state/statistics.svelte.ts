/**
 * Statistics of the chosen tensors over the current rows: requested a few at a time, cached by tensor.
 *
 * Old statistics stay until new ones arrive, so that the layout does not jump while a query runs.
 */
import { ApiError, type Problem, type Statistics } from "../api/client";

export interface Counted {
  statistics: Statistics | null;
  problem: Problem | null;
  isLoading: boolean;
}

const AT_ONCE = 3; // the server allows eight queries per client

export class Counts {
  all = $state.raw<ReadonlyMap<string, Counted>>(new Map());

  clear(): void {
    this.all = new Map();
  }

  keep(names: readonly string[]): void {
    this.all = new Map([...this.all].filter(([name]) => names.includes(name)));
  }

  /** Requests statistics of tensors; throws the first error once all are done. */
  async read(names: readonly string[], ask: (name: string) => Promise<Statistics>, signal: AbortSignal): Promise<void> {
    for (const name of names) this.#put(name, { statistics: this.all.get(name)?.statistics ?? null, problem: null, isLoading: true });
    const waiting = [...names];
    const failures: unknown[] = [];
    const work = async () => {
      for (let name = waiting.shift(); name !== undefined && !signal.aborted; name = waiting.shift()) {
        await this.#readOne(name, ask, signal).catch((error: unknown) => failures.push(error));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if (failures.length > 0) throw failures[0];
  }

  async #readOne(name: string, ask: (name: string) => Promise<Statistics>, signal: AbortSignal): Promise<void> {
    try {
      const statistics = await ask(name);
      if (!signal.aborted) this.#put(name, { statistics, problem: null, isLoading: false });
    } catch (error) {
      if (!signal.aborted && error instanceof ApiError) this.#put(name, { statistics: null, problem: error.problem, isLoading: false });
      throw error;
    }
  }

  #put(name: string, counted: Counted): void {
    this.all = new Map([...this.all, [name, counted]]);
  }
}
