/**
 * Painting one cell of the grid, at the screen's own resolution.
 *
 * A line of cells shares one canvas: browsers compose every canvas in every frame, which took half of the frame
 * time with one canvas per cell (benchmarks/viewer).
 */
import { scaleCanvas } from "../../canvas/context";
import type { Row, TensorInfo } from "../../api/client";
import { collectShapes, layerOf, type OverlayStyle } from "../../overlays/layers";
import { drawShapes } from "../../overlays/draw";
import { containFit, coverFit, type Extent } from "../../canvas/geometry";
import { drawMask } from "../../overlays/masks";
import type { Thumbnail } from "../../fetch/reader";

/** Samples up to this size (digits, icons) are fitted, with sharp pixels. */
const SMALL = 96;
const LETTERBOX = "#000";
/** From this width on, a cell has room for labels. */
const LABELS_FROM = 300;

export interface Mask {
  tensor: TensorInfo;
  thumbnail: Thumbnail | undefined;
}

/** The position of a cell on the canvas of its line. */
export interface Spot {
  line: HTMLCanvasElement;
  /** The width of the whole line. */
  width: number;
  x: number;
  size: Extent;
}

export interface CellPaint {
  thumbnail: Thumbnail;
  masks: readonly Mask[];
  /** The values to draw over the image; undefined draws none. */
  row: Row | undefined;
  imageTensor: TensorInfo;
  tensors: TensorInfo[];
  style: OverlayStyle;
}

export function paintCell(spot: Spot, paint: CellPaint): void {
  const { x, size } = spot;
  const context = scaleCanvas(spot.line, { width: spot.width, height: size.height });
  if (context === null || paint.thumbnail.bitmap === null) return;
  context.save();
  context.beginPath();
  context.rect(x, 0, size.width, size.height);
  context.clip();
  context.translate(x, 0);
  drawCell(context, size, paint.thumbnail.bitmap, paint);
  context.restore();
}

/** Clears the area of a removed cell. */
export function clearCell({ line, x, size }: Spot): void {
  line.getContext("2d")?.clearRect(x, 0, size.width, size.height);
}

function drawCell(context: CanvasRenderingContext2D, size: Extent, bitmap: ImageBitmap, paint: CellPaint): void {
  const { thumbnail, row, style } = paint;
  const extent = { width: thumbnail.width, height: thumbnail.height };
  const isSmall = Math.max(extent.width, extent.height) <= SMALL;
  const fit = (isSmall ? containFit : coverFit)(extent, size);
  context.fillStyle = LETTERBOX; // also under transparent pixels, to cover the previous image
  context.fillRect(0, 0, size.width, size.height);
  context.imageSmoothingEnabled = !isSmall;
  context.imageSmoothingQuality = fit.scale * extent.width < bitmap.width / 2 ? "high" : "low"; // equal there, and faster
  context.drawImage(bitmap, fit.x, fit.y, extent.width * fit.scale, extent.height * fit.scale);
  if (row === undefined) return;
  for (const { tensor, thumbnail: mask } of paint.masks) {
    if (!mask?.bitmap) continue;
    drawMask(context, mask.bitmap, layerOf(tensor, row, paint.tensors, style), { extent, fit }, style);
  }
  const shapes = collectShapes(row, paint.tensors, { tensor: paint.imageTensor, extent }, style);
  drawShapes(context, shapes, fit, style, { area: size, hasLabels: size.width >= LABELS_FROM });
}
