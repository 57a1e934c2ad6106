/** Runs of flows and jobs of the client, as the server has them; and what may be done to each. */
import { ApiError, type Api, type FlowInfo, type JobSummary, type Problem, isConnectionLost } from "../../api/client";

export type FlowAction = "approve" | "refuse" | "retry" | "cancel";

/** What may be done to a run, by its state. */
export function actionsOf({ state, waits_for: question }: Pick<FlowInfo, "state" | "waits_for">): FlowAction[] {
  if (state === "done") return [];
  if (state === "failed" || state === "cancelled") return ["retry"];
  return question === null ? ["cancel"] : ["approve", "refuse", "cancel"];
}

export class LaterWork {
  /** Null until they were read. */
  flows = $state.raw<readonly FlowInfo[] | null>(null);
  jobs = $state.raw<readonly JobSummary[] | null>(null);
  /** The run that is shown with its steps. */
  chosen = $state.raw<FlowInfo | null>(null);
  /** Why there are no flows, or no jobs; of a server without a database of them, both. */
  flowsProblem = $state.raw<Problem | null>(null);
  jobsProblem = $state.raw<Problem | null>(null);
  /** What the server refused to do. */
  refused = $state.raw<Problem | null>(null);

  constructor(readonly api: Api) {}

  /** Reads the lists, and a run with its steps; "" for none. */
  async load(id: string, signal: AbortSignal): Promise<void> {
    await Promise.all([
      read(signal, () => this.api.flows(signal), (found) => (this.flows = found), (problem) => (this.flowsProblem = problem)),
      read(signal, () => this.api.jobs(signal), (found) => (this.jobs = found), (problem) => (this.jobsProblem = problem)),
      this.#choose(id, signal),
    ]);
  }

  async #choose(id: string, signal: AbortSignal): Promise<void> {
    if (this.chosen?.id !== id) this.chosen = null;
    if (id === "") return;
    await read(signal, () => this.api.flow(id, signal), (found) => (this.chosen = found), (problem) => (this.refused = problem ?? this.refused));
  }

  async act(id: string, action: FlowAction): Promise<void> {
    await this.#change(() => (action === "approve" || action === "refuse" ? this.api.approveFlow(id, action === "approve") : this.api.changeFlow(id, action)));
  }

  async cancelJob(id: string): Promise<void> {
    await this.#change(() => this.api.cancelJob(id));
  }

  async #change(call: () => Promise<void>): Promise<void> {
    this.refused = null;
    try {
      await call();
    } catch (error) {
      if (isConnectionLost(error)) return;
      if (!(error instanceof ApiError)) throw error;
      this.refused = error.problem;
    }
  }
}

async function read<T>(signal: AbortSignal, call: () => Promise<T>, put: (found: T) => void, fail: (problem: Problem | null) => void): Promise<void> {
  try {
    const found = await call();
    if (signal.aborted) return;
    put(found);
    fail(null);
  } catch (error) {
    if (signal.aborted || isConnectionLost(error)) return; // asked again once the server responds
    if (!(error instanceof ApiError)) throw error;
    fail(error.problem);
  }
}
