const LONGEST_MS = 1500; // a page that is always busy is used all the same

/** Waits until the page has nothing more urgent to do. */
export function whenIdle(): Promise<void> {
  return new Promise((resolve) => {
    if ("requestIdleCallback" in window) requestIdleCallback(() => resolve(), { timeout: LONGEST_MS });
    else setTimeout(resolve, 200); // Safari
  });
}
