/**
 * Masks over images: converts the server's image of codes to colours.
 *
 *     red + 256 · green of a pixel = its code       (the server's masks.py)
 *
 * The inside of a region has the given opacity and its edge a higher one, so that adjacent objects of one
 * class can be distinguished. Between the figures of a pattern it is fainter. Coloured masks are cached until the style changes.
 */
import type { Pixel } from "../lenses";
import { channelsOf, isOnFigure, type Pattern } from "../classes/palette";
import type { Layer, OverlayStyle } from "./layers";
import type { Extent, Fit } from "../canvas/geometry";

const BETWEEN = 0.3; // of the opacity, between the figures of a pattern
const EDGE = 0.5; // of the remaining opacity: an edge is visible at any setting

export function readCodes(pixels: Uint8ClampedArray): Uint16Array {
  const codes = new Uint16Array(pixels.length / 4);
  for (let i = 0; i < codes.length; i += 1) codes[i] = (pixels[4 * i] ?? 0) | ((pixels[4 * i + 1] ?? 0) << 8);
  return codes;
}

/** The colours of a mask, four bytes a pixel; a code that maps to null is transparent. */
export function colorCodes(
  codes: Uint16Array,
  width: number,
  pixel: (code: number) => Pixel | null,
  look: (pixel: Pixel) => { color: string; pattern: Pattern },
  opacity: number,
): Uint8ClampedArray<ArrayBuffer> {
  const looks = new Map<number, { rgb: [number, number, number]; pattern: Pattern }>();
  for (const code of new Set(codes)) {
    const meaning = pixel(code);
    if (meaning === null) continue;
    const { color, pattern } = look(meaning);
    looks.set(code, { rgb: channelsOf(color), pattern });
  }
  const out = new Uint8ClampedArray(4 * codes.length);
  const inside = Math.round(255 * opacity);
  const edge = Math.round(255 * (opacity + (1 - opacity) * EDGE));
  for (let i = 0; i < codes.length; i += 1) {
    const code = codes[i] ?? 0;
    const found = looks.get(code);
    if (found === undefined) continue;
    const { rgb, pattern } = found;
    const column = i % width;
    const isEdge =
      (column > 0 && codes[i - 1] !== code) ||
      (column < width - 1 && codes[i + 1] !== code) ||
      (i >= width && codes[i - width] !== code) ||
      (i + width < codes.length && codes[i + width] !== code);
    out[4 * i] = rgb[0];
    out[4 * i + 1] = rgb[1];
    out[4 * i + 2] = rgb[2];
    out[4 * i + 3] = isEdge ? edge : isOnFigure(pattern, column, (i - column) / width) ? inside : inside * BETWEEN;
  }
  return out;
}

interface Coloured {
  codes: Uint16Array;
  look: OverlayStyle | null;
  canvas: OffscreenCanvas;
}

const kept = new WeakMap<ImageBitmap, Coloured>();

/** Frees a bitmap that is no longer shown and its coloured copy: both are large, and garbage collection may be late. */
export function releaseBitmap(bitmap: ImageBitmap): void {
  const canvas = kept.get(bitmap)?.canvas;
  if (canvas !== undefined) canvas.width = canvas.height = 0;
  kept.delete(bitmap);
  bitmap.close();
}

export function drawMask(
  context: CanvasRenderingContext2D,
  bitmap: ImageBitmap,
  layer: Layer,
  image: { extent: Extent; fit: Fit },
  style: OverlayStyle,
): void {
  const { canvas } = coloured(bitmap, layer, style);
  const { extent, fit } = image;
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, fit.x, fit.y, extent.width * fit.scale, extent.height * fit.scale);
}

function coloured(bitmap: ImageBitmap, layer: Layer, style: OverlayStyle): Coloured {
  const known = kept.get(bitmap) ?? blank(bitmap);
  if (known.look === style) return known;
  const { width, height } = bitmap;
  const look = ({ code, object }: Pixel) => ({ color: style.palette.color(code, object), pattern: style.palette.pattern(code, object) });
  const pixels = colorCodes(known.codes, width, layer.pixel, look, style.opacity);
  context2d(known.canvas).putImageData(new ImageData(pixels, width, height), 0, 0);
  known.look = style;
  kept.set(bitmap, known);
  return known;
}

function blank(bitmap: ImageBitmap): Coloured {
  const { width, height } = bitmap;
  const canvas = new OffscreenCanvas(width, height);
  const context = context2d(canvas);
  context.drawImage(bitmap, 0, 0);
  return { codes: readCodes(context.getImageData(0, 0, width, height).data), look: null, canvas };
}

function context2d(canvas: OffscreenCanvas): OffscreenCanvasRenderingContext2D {
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (context === null) throw new Error("cannot create a 2D canvas to draw masks on");
  return context;
}
