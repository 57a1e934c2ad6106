/** Curves and descriptions of runs, as they arrive; earlier ones stay until new ones do. */
import { ApiError, isConnectionLost, type Api, type Curve, type Problem, type RunDetails } from "../../api/client";

const POINTS = 400;

export class RunData {
  details = $state.raw<ReadonlyMap<string, RunDetails>>(new Map());
  problems = $state.raw<ReadonlyMap<string, Problem>>(new Map());
  #curves = $state.raw<ReadonlyMap<string, Curve>>(new Map());

  constructor(readonly api: Api) {}

  curve(run: string, metric: string): Curve | undefined {
    return this.#curves.get(key(run, metric));
  }

  /** Reads what some runs are. */
  async readRuns(dataset: string, runs: readonly string[], signal: AbortSignal): Promise<void> {
    await Promise.all(
      runs.map((run) => this.#attempt(run, signal, async () => {
        const found = await this.api.run(dataset, run, signal);
        this.details = new Map([...this.details, [run, found]]);
      })),
    );
  }

  /** Reads metrics of runs, over some steps or all: of those that have them. */
  async readCurves(dataset: string, runs: readonly string[], metrics: readonly string[], span: readonly [number, number] | null, signal: AbortSignal): Promise<void> {
    const range = span === null ? { points: POINTS } : { start: span[0], stop: span[1], points: POINTS };
    const pairs = runs.flatMap((run) => metrics.filter((metric) => this.details.get(run)?.metrics.includes(metric)).map((metric) => [run, metric] as const));
    await Promise.all(
      pairs.map(([run, metric]) => this.#attempt(run, signal, async () => {
        const found = await this.api.curve(dataset, run, metric, range, signal);
        this.#curves = new Map([...this.#curves, [key(run, metric), found]]);
      })),
    );
  }

  async #attempt(run: string, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    try {
      await work();
      if (this.problems.has(run)) this.problems = new Map([...this.problems].filter(([name]) => name !== run));
    } catch (error) {
      if (signal.aborted || isConnectionLost(error)) return; // asked again once the server responds
      if (!(error instanceof ApiError)) throw error;
      this.problems = new Map([...this.problems, [run, error.problem]]);
    }
  }
}

function key(run: string, metric: string): string {
  return JSON.stringify([run, metric]);
}
