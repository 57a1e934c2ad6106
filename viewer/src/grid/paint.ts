/** Painting one cell of the grid on its canvas, at the screen's own resolution. */
import type { Row, TensorInfo } from "../api";
import type { Extent } from "../lenses";
import { collectShapes, layerOf, type OverlayStyle } from "../overlays/collect";
import { drawShapes } from "../overlays/draw";
import { containFit, coverFit } from "../overlays/fit";
import { drawMask } from "../overlays/masks";
import type { Thumbnail } from "./read";

/** Samples up to this size (digits, icons) are shown whole and with sharp pixels. */
const SMALL = 96;
const LETTERBOX = "#000";
/** From this width on a cell has room for the words on its boxes. */
const LABELS_FROM = 300;

export interface Mask {
  tensor: TensorInfo;
  thumbnail: Thumbnail | undefined;
}

export interface CellPaint {
  thumbnail: Thumbnail | undefined;
  masks: readonly Mask[];
  /** The values to draw over the picture; undefined draws none. */
  row: Row | undefined;
  picture: TensorInfo;
  tensors: TensorInfo[];
  style: OverlayStyle;
  size: Extent;
}

export function paintCell(canvas: HTMLCanvasElement, paint: CellPaint): void {
  const context = prepareCanvas(canvas, paint.size);
  const { thumbnail, row, style } = paint;
  if (context === null || thumbnail == null || thumbnail.bitmap === null) return;
  const extent = { width: thumbnail.width, height: thumbnail.height };
  const isSmall = Math.max(extent.width, extent.height) <= SMALL;
  const fit = (isSmall ? containFit : coverFit)(extent, paint.size);
  if (isSmall) {
    context.fillStyle = LETTERBOX;
    context.fillRect(0, 0, paint.size.width, paint.size.height);
  }
  context.imageSmoothingEnabled = !isSmall;
  context.imageSmoothingQuality = "high";
  context.drawImage(thumbnail.bitmap, fit.x, fit.y, extent.width * fit.scale, extent.height * fit.scale);
  if (row === undefined) return;
  for (const { tensor, thumbnail: mask } of paint.masks) {
    if (mask == null || mask.bitmap === null) continue;
    drawMask(context, mask.bitmap, layerOf(tensor, row, paint.tensors, style), { extent, fit }, style);
  }
  const shapes = collectShapes(row, paint.tensors, { tensor: paint.picture, extent }, style);
  drawShapes(context, shapes, fit, style, { labelsWithin: paint.size.width >= LABELS_FROM ? paint.size.width : null });
}

/** Clears the canvas and scales it so that one unit is one CSS pixel. */
export function prepareCanvas(canvas: HTMLCanvasElement, size: Extent): CanvasRenderingContext2D | null {
  const ratio = devicePixelRatio;
  const width = Math.max(1, Math.round(size.width * ratio));
  const height = Math.max(1, Math.round(size.height * ratio));
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext("2d");
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  context?.clearRect(0, 0, size.width, size.height);
  return context;
}
