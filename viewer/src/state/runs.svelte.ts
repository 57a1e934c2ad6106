/** Training runs that were recorded beside the dataset: their list, and the step whose batch is shown. */
import { ApiError, isConnectionLost, type Api, type Problem, type QueryResult, type RunInfo, type RunStep } from "../api/client";
import type { Place } from "./url";

type Go = (change: Partial<Place>, how: "push" | "replace") => Promise<void>;

/** Another text for each batch that a place shows; "" for none. */
export function batchOf({ runs, step, rank }: Pick<Place, "runs" | "step" | "rank">): string {
  return step === null ? "" : `${step} ${rank ?? ""} ${runs[0] ?? ""}`;
}

/** The newest first; those that cannot be read, or have no step, last. */
export function newestFirst(runs: readonly RunInfo[]): RunInfo[] {
  return [...runs].sort((a, b) => (b.started ?? "").localeCompare(a.started ?? "") || a.name.localeCompare(b.name));
}

export class Runs {
  /** Null until it was read. */
  list = $state.raw<readonly RunInfo[] | null>(null);
  problem = $state.raw<Problem | null>(null);
  /** The batch that is shown. */
  step = $state.raw<RunStep | null>(null);
  readonly #go: Go;
  readonly #place: () => Place;

  constructor(
    readonly api: Api,
    place: () => Place,
    go: Go,
  ) {
    this.#place = place;
    this.#go = go;
  }

  /** The runs whose curves are shown: the chosen ones, else the newest. */
  get shown(): readonly string[] {
    const { runs } = this.#place();
    const first = this.list?.find(({ steps }) => (steps ?? 0) > 0)?.name;
    return runs.length > 0 || first === undefined ? runs : [first];
  }

  /** Columns of the rows that are shown which are not of the dataset: values that were logged at the step. */
  get columns(): readonly string[] {
    return this.#place().step === null ? NONE : (this.step?.columns ?? NONE);
  }

  clear(): void {
    [this.list, this.problem, this.step] = [null, null, null];
  }

  /** Reads the list; an earlier one stays until the new one is there. */
  async load(signal: AbortSignal): Promise<void> {
    try {
      const found = await this.api.runs(this.#place().dataset ?? "", signal);
      if (!signal.aborted) [this.list, this.problem] = [newestFirst(found), null];
    } catch (error) {
      if (signal.aborted || isConnectionLost(error)) return; // asked again once the server responds
      if (!(error instanceof ApiError)) throw error;
      this.problem = error.problem;
    }
  }

  /** The rows of the step of the place, as a result. */
  async ask(dataset: string, version: string, signal: AbortSignal): Promise<QueryResult> {
    const { runs, step, rank } = this.#place();
    const found = await this.api.step(dataset, { run: runs[0] ?? "", step: step ?? 0, rank }, version, signal);
    const result = await this.api.result(dataset, found.view, signal);
    if (!signal.aborted) this.step = found;
    return result;
  }

  /** Shows the batch of a step, or with null the runs again. */
  async openStep(step: number | null, run = this.shown[0] ?? ""): Promise<void> {
    const others = this.#place().runs.filter((name) => name !== run);
    const isStep = step !== null && this.#place().step !== null; // from one to the next
    const rows = { tql: "", saved: null, selected: null, row: null, first: null, look: false };
    const layout = step === null ? "runs" : isStep ? this.#place().layout : null;
    const rank = isStep ? this.#place().rank : null;
    await this.#go({ ...rows, runs: [run, ...others], step, rank, layout }, isStep ? "replace" : "push");
  }

  /** Shows one rank's part of the batch, or with null all of it. */
  async openRank(rank: number | null): Promise<void> {
    await this.#go({ rank, row: null, first: null, look: false }, "replace");
  }

  /** Shows the curves of some steps, or with null of all. */
  zoom(span: Place["span"]): void {
    void this.#go({ span }, "replace");
  }

  /** Shows the curves of a run, or no longer. */
  toggle(run: string): void {
    const { shown } = this;
    const runs = shown.includes(run) ? shown.filter((name) => name !== run) : [...shown, run];
    void this.#go({ runs }, "replace");
  }

  /** Makes a run the first; the batch that is shown stays, and its run. */
  choose(run: string): void {
    const { runs, step } = this.#place();
    const others = runs.filter((name) => name !== run);
    void this.#go({ runs: [run, ...others], ...(step === null ? {} : { step: null, rank: null, layout: "runs" as const }) }, "push");
  }

  toggleMetric(metric: string, shown: readonly string[]): void {
    const metrics = shown.includes(metric) ? shown.filter((name) => name !== metric) : [...shown, metric];
    void this.#go({ metrics }, "replace");
  }
}

const NONE: readonly string[] = [];
