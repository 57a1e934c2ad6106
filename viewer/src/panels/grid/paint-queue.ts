/**
 * Cells to paint, a few in a frame: thumbnails arrive by the dozen, and a frame has 16 ms for all.
 *
 * A cell is painted once, as it was when its turn came. A long queue is painted faster: what one
 * waits for is shown within some frames, however large the screen. Cells of one line are painted
 * together: a canvas that was painted on is handed over whole, so that few should be in a frame.
 */
const LEAST = 4;
const SHARE = 5; // of what waits, one in so many

export class PaintQueue {
  #waiting = new Map<object, { paint: () => void; line: unknown }>();
  #isBusy = false;
  #hasMadeWay = false;
  #ask = oncePerFrame(() => this.#paint());

  /** Paints on a line when it is its turn; what the key asked for before is forgotten. */
  put(key: object, line: unknown, paint: () => void): void {
    this.#waiting.set(key, { paint, line });
    this.#ask();
  }

  drop(key: object): void {
    this.#waiting.delete(key);
  }

  /** Says that the next frame has other work: what waits is painted in the one after. */
  makeWay(): void {
    this.#isBusy = true;
  }

  #paint(): void {
    this.#hasMadeWay = this.#isBusy && !this.#hasMadeWay; // never twice: the fastest scroll has images too
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

/** Work that many events ask for, done once before the next frame. */
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
