/**
 * Thousands of boxes: thin lines set pixel by pixel, then drawn as one image.
 *
 *     pixels   one a word, red · green · blue · alpha as bytes; 0 is nothing
 *
 * A canvas asked for five thousand rectangles draws each by itself: 6 ms, and 20 ms where lines are
 * filled. Setting their pixels here takes one (benchmarks/viewer). Lines lie on whole pixels
 * of the screen; there are no fills: a thousand of them over each other are a fog.
 */
import { channelsOf } from "../classes/palette";
import type { Extent, Fit } from "../canvas/geometry";
import { eachBoxInSight, FAINT, type Batch } from "./batches";

const DASH = { on: 6, period: 10 };

/** Draws the boxes over an area from the origin of a context on, whose unit is `ratio` pixels of the screen. */
export function rasterizeBoxes(context: CanvasRenderingContext2D, batches: readonly Batch[], fit: Fit, area: Extent): void {
  const ratio = context.getTransform().a;
  const extent = { width: Math.max(1, Math.round(area.width * ratio)), height: Math.max(1, Math.round(area.height * ratio)) };
  const image = new ImageData(extent.width, extent.height);
  const onScreen = { scale: fit.scale * ratio, x: fit.x * ratio, y: fit.y * ratio };
  setBoxes(new Uint32Array(image.data.buffer), extent, batches, onScreen, Math.max(1, Math.round(ratio)));
  const sheet = sheetOf(extent);
  sheet.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(sheet.canvas, 0, 0, extent.width, extent.height, 0, 0, area.width, area.height);
}

/** Sets the pixels of all lines in sight, each `thick` pixels; the looks that come later lie above. */
export function setBoxes(pixels: Uint32Array, extent: Extent, batches: readonly Batch[], fit: Fit, thick: number): void {
  const sheet = { pixels, ...extent };
  for (const { color, isDashed, isFaint, boxes } of batches) {
    const pen = { word: wordOf(color, isFaint ? FAINT : 1), thick, isDashed };
    eachBoxInSight(boxes, fit, extent, (x, y, width, height) => {
      const [left, top] = [Math.round(x), Math.round(y)];
      const [right, bottom] = [left + Math.round(width), top + Math.round(height)];
      for (let i = 0; i < thick; i += 1) {
        setAcross(sheet, pen, top + i, left, right + thick);
        setAcross(sheet, pen, bottom + i, left, right + thick);
        setDown(sheet, pen, left + i, top, bottom + thick);
        setDown(sheet, pen, right + i, top, bottom + thick);
      }
    });
  }
}

interface Sheet extends Extent {
  pixels: Uint32Array;
}

interface Pen {
  word: number;
  thick: number;
  isDashed: boolean;
}

/** The pixels of a line, those outside left out; `start` is where its dashes begin. */
function setAcross({ pixels, width, height }: Sheet, { word, thick, isDashed }: Pen, y: number, start: number, stop: number): void {
  if (y < 0 || y >= height) return;
  const last = Math.min(width, stop);
  for (let x = Math.max(0, start); x < last; x += 1) {
    if (!isDashed || isOn(x - start, thick)) pixels[y * width + x] = word;
  }
}

function setDown({ pixels, width, height }: Sheet, { word, thick, isDashed }: Pen, x: number, start: number, stop: number): void {
  if (x < 0 || x >= width) return;
  const last = Math.min(height, stop);
  for (let y = Math.max(0, start); y < last; y += 1) {
    if (!isDashed || isOn(y - start, thick)) pixels[y * width + x] = word;
  }
}

function isOn(along: number, thick: number): boolean {
  return along % (DASH.period * thick) < DASH.on * thick;
}

function wordOf(color: string, opacity: number): number {
  return new Uint32Array(Uint8Array.of(...channelsOf(color), 255 * opacity).buffer)[0] ?? 0;
}

let kept: OffscreenCanvasRenderingContext2D | null = null;

/** One canvas for all crowds: a new one for each frame would be much memory to collect. */
function sheetOf({ width, height }: Extent): OffscreenCanvasRenderingContext2D {
  if (kept?.canvas.width !== width || kept.canvas.height !== height) {
    kept = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  }
  if (kept === null) throw new Error("cannot create a 2D canvas to draw boxes on");
  return kept;
}
