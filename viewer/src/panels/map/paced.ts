/** Work in parts, for a few milliseconds of each frame; of what is asked for meanwhile, only the last is done. */

const BUDGET_MS = 4; // of a frame, beside what the page itself does in it

export class Paced {
  #parts: Generator<void, void> | null = null;
  #next: (() => Generator<void, void>) | null = null;
  #request = 0;
  #spentMs = 0;

  /** `ondone` gets the milliseconds that the work took, without the pauses. */
  constructor(readonly ondone: (spentMs: number) => void = () => {}) {}

  start(work: () => Generator<void, void>): void {
    this.#next = work;
    if (this.#request === 0) this.#request = requestAnimationFrame(this.#frame);
  }

  stop(): void {
    cancelAnimationFrame(this.#request);
    [this.#request, this.#parts, this.#next] = [0, null, null];
  }

  readonly #frame = (): void => {
    const started = performance.now();
    if (this.#parts === null && this.#next !== null) [this.#parts, this.#next, this.#spentMs] = [this.#next(), null, 0];
    let isDone: boolean;
    do isDone = this.#parts?.next().done ?? true;
    while (!isDone && performance.now() - started < BUDGET_MS);
    this.#spentMs += performance.now() - started;
    this.#request = 0;
    if (isDone) {
      this.#parts = null;
      this.ondone(this.#spentMs);
    }
    if (!isDone || this.#next !== null) this.#request = requestAnimationFrame(this.#frame);
  };
}
