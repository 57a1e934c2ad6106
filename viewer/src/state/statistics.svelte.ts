/**
 * Statistics of the chosen tensors over the current rows: requested a few at a time, cached by tensor.
 *
 * Old statistics stay until new ones arrive, so that the layout does not jump while a query runs.
 */
import { ApiError, isConnectionLost, type Api, type Problem, type Statistics } from "../api/client";
import { ClassPalette } from "../classes/palette";

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

  /** Requests statistics of tensors; keeps the problem of each that the server refuses. */
  async read(names: readonly string[], ask: (name: string) => Promise<Statistics>, signal: AbortSignal): Promise<void> {
    for (const name of names) this.#put(name, { statistics: this.all.get(name)?.statistics ?? null, problem: null, isLoading: true });
    const waiting = [...names];
    const work = async () => {
      for (let name = waiting.shift(); name !== undefined && !signal.aborted; name = waiting.shift()) {
        await this.#readOne(name, ask, signal);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  }

  async #readOne(name: string, ask: (name: string) => Promise<Statistics>, signal: AbortSignal): Promise<void> {
    try {
      const statistics = await ask(name);
      if (!signal.aborted) this.#put(name, { statistics, problem: null, isLoading: false });
    } catch (error) {
      if (signal.aborted || isConnectionLost(error)) return;
      if (!(error instanceof ApiError)) throw error;
      this.#put(name, { statistics: null, problem: error.problem, isLoading: false });
    }
  }

  #put(name: string, counted: Counted): void {
    this.all = new Map([...this.all, [name, counted]]);
  }
}

/** Colours of the classes of a version, the most frequent first; null where the route fails, of which the panel of statistics tells. */
export async function readPalette(api: Api, dataset: string, version: string, labels: string): Promise<ClassPalette | null> {
  try {
    const whole = await api.statistics(dataset, labels, { version, view: null });
    return new ClassPalette(whole.classes?.entries ?? []);
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
}
