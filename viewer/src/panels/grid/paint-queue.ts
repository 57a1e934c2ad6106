/**
 * Paints a few cells per frame: thumbnails arrive by the dozen, and a frame has 16 ms.
 *
 * Each cell is painted once, in its latest state. Long queues are painted faster, so that a full screen takes few
 * frames. Cells of one line are painted together: a changed canvas is uploaded whole, so few should change per frame.
 */
const LEAST = 4;
const SHARE = 5; // a fifth of the queue per frame

export class PaintQueue {
  #waiting = new Map<object, { paint: () => void; line: unknown }>();
  #isBusy = false;
  #hasMadeWay = false;
  #ask = oncePerFrame(() => this.#paint());

  /** Queues a paint on a line; replaces an earlier one of the same key. */
  put(key: object, line: unknown, paint: () => void): void {
    this.#waiting.set(key, { paint, line });
    this.#ask();
  }

  drop(key: object): void {
    this.#waiting.delete(key);
  }

  /** Skips the next frame, which has other work. */
  makeWay(): void {
    this.#isBusy = true;
  }

  #paint(): void {
    this.#hasMadeWay = this.#isBusy && !this.#hasMadeWay; // never twice in a row: fast scrolls show images too
    this.#isBusy = false;
    let left = this.#hasMadeWay ? 0 : Math.max(LEAST, Math.ceil(this.#waiting.size / SHARE));
    while (left > 0) {
      const [first] = this.#waiting.values();
      if (first === undefined) return;
      for (const [key, { paint, line }] of this.#waiting) {
        if (line !== first.line) continue;
        if (left === 0) break;
        left -= 1;
        this.#waiting.delete(key);
        paint();
      }
    }
    if (this.#waiting.size > 0) this.#ask();
  }
}

/** Coalesces calls into one before the next frame. */
export function oncePerFrame(act: () => void): () => void {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      act();
    });
  };
}
