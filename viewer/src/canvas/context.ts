/** The drawing context of a canvas, at the screen's own resolution. */
import type { Extent } from "./geometry";

/** Scales a canvas so that one unit is one CSS pixel, and clears it. */
export function prepareCanvas(canvas: HTMLCanvasElement, size: Extent): CanvasRenderingContext2D | null {
  const context = scaleCanvas(canvas, size);
  context?.clearRect(0, 0, size.width, size.height);
  return context;
}

/** Scales a canvas without clearing it. */
export function scaleCanvas(canvas: HTMLCanvasElement, size: Extent): CanvasRenderingContext2D | null {
  const ratio = devicePixelRatio;
  const width = Math.max(1, Math.round(size.width * ratio));
  const height = Math.max(1, Math.round(size.height * ratio));
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext("2d");
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
