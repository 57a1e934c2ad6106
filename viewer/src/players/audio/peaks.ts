/** Draws the outline of a sound: of each stretch the least and the greatest value, as the server gives them. */
import type { Extent } from "../../canvas/geometry";
import type { PeaksInfo } from "../../api/client";

const FULL_SCALE = 127;

export function drawPeaks(context: Pick<CanvasRenderingContext2D, "fillRect">, { low, high }: Pick<PeaksInfo, "low" | "high">, { width, height }: Extent): void {
  const count = low.length;
  if (count === 0) return;
  const middle = height / 2;
  for (let x = 0; x < width; x += 1) {
    const start = Math.floor((x * count) / width);
    const stop = Math.max(start + 1, Math.floor(((x + 1) * count) / width));
    const top = middle - (Math.max(...high.slice(start, stop)) / FULL_SCALE) * middle;
    const bottom = middle - (Math.min(...low.slice(start, stop)) / FULL_SCALE) * middle;
    context.fillRect(x, top, 1, Math.max(1, bottom - top));
  }
}
