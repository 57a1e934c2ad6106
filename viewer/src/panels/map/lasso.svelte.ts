/** The outline that is drawn around points, in pixels of the map: x, y, x, y, … */

const CLICK = 4; // pixels that a click may move
const STEP = 2; // pixels between the corners of the outline

export class Lasso {
  outline = $state.raw<number[]>([]);
  /** As the data of an SVG path; "" until there is something to see. */
  path = $derived(this.outline.length > 4 ? `${this.outline.reduce((text, at, i) => `${text}${i % 2 === 0 ? (i === 0 ? "M" : "L") : " "}${at.toFixed(1)}`, "")}Z` : "");

  start(x: number, y: number): void {
    this.outline = [x, y];
  }

  extend(x: number, y: number): void {
    const [lastX = 0, lastY = 0] = this.outline.slice(-2);
    if (Math.hypot(x - lastX, y - lastY) > STEP) this.outline = [...this.outline, x, y];
  }

  /** Ends it, and returns the outline; null for a click. */
  end(x: number, y: number): number[] | null {
    const outline = this.outline;
    this.outline = [];
    return outline.length <= 4 && Math.hypot(x - (outline[0] ?? x), y - (outline[1] ?? y)) < CLICK ? null : outline;
  }
}
