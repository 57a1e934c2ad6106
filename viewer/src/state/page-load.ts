/** Moments of loading that other work waits for. */
const LONGEST_MS = 1500; // a page that is always busy is used all the same

/** A moment that others wait for: the first rows are seen. */
export class FirstPaint {
  #settle: () => void = () => {};
  readonly first = new Promise<void>((resolve) => (this.#settle = resolve));

  note(): void {
    this.#settle();
  }
}

/** Waits until the page has nothing more urgent to do. */
export function whenIdle(): Promise<void> {
  return new Promise((resolve) => {
    if ("requestIdleCallback" in window) requestIdleCallback(() => resolve(), { timeout: LONGEST_MS });
    else setTimeout(resolve, 200); // Safari
  });
}
