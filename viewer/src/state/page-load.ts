/** Moments of loading that other work waits for. */
const LONGEST_MS = 1500; // for pages that are never idle

/** Resolves `first` when the first rows are visible. */
export class FirstPaint {
  #settle: () => void = () => {};
  readonly first = new Promise<void>((resolve) => (this.#settle = resolve));

  note(): void {
    this.#settle();
  }
}

/** Waits until the page is idle. */
export function whenIdle(): Promise<void> {
  return new Promise((resolve) => {
    if ("requestIdleCallback" in window) requestIdleCallback(() => resolve(), { timeout: LONGEST_MS });
    else setTimeout(resolve, 200); // Safari
  });
}
