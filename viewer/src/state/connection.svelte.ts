/**
 * Whether the server is reachable.
 *
 * Every call reports its outcome. After a network failure the server is polled with exponential back-off until it
 * responds; then `onReturn` repeats the failed requests.
 */

const FIRST_PAUSE_MS = 1_000;
const LAST_PAUSE_MS = 15_000;

export class Connection {
  isOffline = $state(false);
  #pause = FIRST_PAUSE_MS;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    readonly isAlive: () => Promise<boolean>,
    readonly onReturn: () => void,
  ) {}

  /** Reports the outcome of a call. While offline, only the poll can change the state. */
  note(isReached: boolean): void {
    if (isReached || this.isOffline) return;
    this.isOffline = true;
    this.#pause = FIRST_PAUSE_MS;
    this.#schedule();
  }

  /** Polls now. */
  async tryNow(): Promise<void> {
    this.#stop();
    if (await this.isAlive()) {
      this.isOffline = false;
      this.onReturn();
    } else this.#schedule();
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
