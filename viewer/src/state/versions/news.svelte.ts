/**
 * New commits of the branch that the page follows: looked for every ten seconds while the page is in sight.
 *
 * A stream of events would hold one of the browser's six connections to the server for each open page, so that the
 * seventh page would not load; a look at the same route without `wait` takes milliseconds.
 */
import { ApiError, isConnectionLost, type Commit } from "../../api/client";

const PAUSE_MS = 10_000;

export class News {
  commits = $state.raw<Commit[]>([]);
  #isLooking = false;

  /** `following` returns the call that asks; null where the page shows a fixed version. */
  constructor(readonly following: () => (() => Promise<Commit[]>) | null) {
    setInterval(() => document.visibilityState === "visible" && void this.look(), PAUSE_MS);
  }

  clear(): void {
    this.commits = [];
  }

  async look(): Promise<void> {
    const ask = this.following();
    if (ask === null || this.#isLooking) return;
    this.#isLooking = true;
    try {
      const commits = await ask();
      const isFixed = this.following() === null;
      if (!isFixed && commits.length !== this.commits.length) this.commits = commits;
    } catch (error) {
      if (isConnectionLost(error)) return;
      if (!(error instanceof ApiError)) throw error;
      this.clear(); // the branch, or the version that is shown, is gone: its own routes tell
    } finally {
      this.#isLooking = false;
    }
  }
}
