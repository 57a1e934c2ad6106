/**
 * Whether the server answers.
 *
 * Every call tells its outcome. Once one found nobody, the server is asked for a sign of life, less
 * and less often, until it gives one; then `onReturn` asks again for what is missing.
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

  /** Says how a call went. One that is answered while others wait for a sign of life is none. */
  note(isReached: boolean): void {
    if (isReached || this.isOffline) return;
    this.isOffline = true;
    this.#pause = FIRST_PAUSE_MS;
    this.#schedule();
  }

  /** Asks for a sign of life now. */
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
