/**
 * Whether the server responds to this browser.
 *
 * Every call reports its outcome. After a network failure, or a response that requires another sign-in (a restarted
 * server has a new token), the server is polled with exponential back-off, and at once when the page is looked at
 * again; then `onReturn` repeats the failed requests.
 */
import { type Problem, type Reach, Unreachable } from "../api/client";

const FIRST_PAUSE_MS = 1_000;
const LAST_PAUSE_MS = 15_000;

export class Connection {
  state = $state<Reach>("reached");
  /** The server responds and does not have a part of this page: it serves another version of the viewer. */
  isReplaced = $state(false);
  #waiting: (() => void)[] = [];
  #pause = FIRST_PAUSE_MS;
  #polls = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;

  /** `isBack` polls for the end of a state. */
  constructor(
    readonly isBack: (from: Reach) => Promise<boolean>,
    readonly onReturn: () => void,
  ) {}

  get isLost(): boolean {
    return this.state !== "reached";
  }

  /** Reports the outcome of a call. Once lost, only the poll can change the state. */
  note(reach: Reach): void {
    if (reach === "reached" || this.isLost) return;
    this.state = reach;
    this.#pause = FIRST_PAUSE_MS;
    this.#schedule();
  }

  /** Polls now, where the connection is lost. */
  async tryNow(): Promise<void> {
    this.#stop();
    if (!this.isLost) return;
    this.#polls += 1;
    const isBack = await this.isBack(this.state).finally(() => (this.#polls -= 1));
    const wasFaster = this.state === "reached"; // another poll
    if (wasFaster) return;
    if (isBack) {
      this.state = "reached";
      for (const go of this.#waiting.splice(0)) go();
      this.onReturn();
    } else this.#schedule();
  }

  /** Polls now, unless a poll is under way: the page is looked at again, or the network is back. */
  nudge(): void {
    if (this.#polls === 0) void this.tryNow();
  }

  /** Imports a part of the page: at once, or when the server responds again; never, where the page must be reloaded. */
  async part<T>(load: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await load();
      } catch {
        if (!this.isLost && (await this.isBack("unreachable"))) {
          this.isReplaced = true;
          return new Promise<T>(() => undefined);
        }
        this.note("unreachable");
        await new Promise<void>((resolve) => this.#waiting.push(resolve));
      }
    }
  }

  #schedule(): void {
    this.#stop();
    this.#timer = setTimeout(() => void this.tryNow(), this.#pause);
    this.#pause = Math.min(2 * this.#pause, LAST_PAUSE_MS);
  }

  #stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** What a page without rows shows in their place. */
export function unreachable(error: unknown): Problem {
  if (!(error instanceof Unreachable)) return { title: "The page failed", status: 0, detail: String(error), code: "viewer" };
  return {
    title: "The server cannot be reached",
    status: 0,
    detail: "No connection. The page opens by itself when the server responds.",
    code: "unreachable",
  };
}
