/** Fill styles of a canvas for colours with a pattern; one small image for each, for all canvases. */
import { channelsOf, isOnFigure, type Pattern } from "../classes/palette";

const SIDE = 8; // the period of every pattern
const images = new Map<string, OffscreenCanvas>();

export function patternFill(context: CanvasRenderingContext2D, color: string, pattern: Pattern): string | CanvasPattern {
  if (pattern === "plain") return color;
  const key = `${color} ${pattern}`;
  const image = images.get(key) ?? drawFigure(color, pattern);
  images.set(key, image);
  return context.createPattern(image, "repeat") ?? color;
}

function drawFigure(color: string, pattern: Pattern): OffscreenCanvas {
  const image = new ImageData(SIDE, SIDE);
  for (let i = 0; i < SIDE * SIDE; i += 1) {
    if (isOnFigure(pattern, i % SIDE, Math.floor(i / SIDE))) image.data.set([...channelsOf(color), 255], 4 * i);
  }
  const canvas = new OffscreenCanvas(SIDE, SIDE);
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas;
}
