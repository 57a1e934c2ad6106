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
import { type Bounds, containFit, type Extent } from "../../canvas/geometry";
import { drawMask } from "../../overlays/masks";
import type { Thumbnail } from "../../fetch/reader";

/** Samples up to this size (digits, icons) have sharp pixels. */
const SMALL = 96;
const BACKDROP = "#000"; // of transparent pixels
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

/** One image of a row, and what lies over it. */
export interface CellImage {
  tensor: TensorInfo;
  thumbnail: Thumbnail | undefined;
  masks: readonly Mask[];
}

export interface CellPaint {
  images: readonly CellImage[];
  /** Their places in the cell. */
  tiles: readonly Bounds[];
  /** The values to draw over the images; undefined draws none. */
  row: Row | undefined;
  tensors: TensorInfo[];
  style: OverlayStyle;
}

export function paintCell(spot: Spot, paint: CellPaint): void {
  const { x, size } = spot;
  const context = scaleCanvas(spot.line, { width: spot.width, height: size.height });
  if (context === null) return;
  context.clearRect(x, 0, size.width, size.height); // of the image that was here before
  paint.images.forEach((image, i) => {
    const tile = paint.tiles[i];
    if (tile === undefined || !image.thumbnail?.bitmap) return;
    context.save();
    context.beginPath();
    context.rect(x + tile.x, tile.y, tile.width, tile.height);
    context.clip();
    context.translate(x + tile.x, tile.y);
    drawImage(context, { image, thumbnail: image.thumbnail, bitmap: image.thumbnail.bitmap }, tile, paint);
    context.restore();
  });
}

/** Clears the area of a removed cell. */
export function clearCell({ line, x, size }: Spot): void {
  line.getContext("2d")?.clearRect(x, 0, size.width, size.height);
}

interface Drawn {
  image: CellImage;
  thumbnail: Thumbnail;
  bitmap: ImageBitmap;
}

/** Draws one image whole: cut off, it would hide boxes that are in the data. */
function drawImage(context: CanvasRenderingContext2D, { image, thumbnail, bitmap }: Drawn, size: Extent, { row, tensors, style }: CellPaint): void {
  const extent = { width: thumbnail.width, height: thumbnail.height };
  const isSmall = Math.max(extent.width, extent.height) <= SMALL;
  const fit = containFit(extent, size);
  const [width, height] = [Math.max(1, extent.width * fit.scale), Math.max(1, extent.height * fit.scale)];
  context.fillStyle = BACKDROP;
  context.fillRect(fit.x, fit.y, width, height);
  context.imageSmoothingEnabled = !isSmall;
  context.imageSmoothingQuality = width < bitmap.width / 2 ? "high" : "low"; // equal there, and faster
  context.drawImage(bitmap, fit.x, fit.y, width, height);
  if (row === undefined) return;
  for (const { tensor, thumbnail: mask } of image.masks) {
    if (!mask?.bitmap) continue;
    drawMask(context, mask.bitmap, layerOf(tensor, row, tensors, style), { extent, fit }, style);
  }
  const shapes = collectShapes(row, tensors, { tensor: image.tensor, extent }, style);
  drawShapes(context, shapes, fit, style, { area: size, hasLabels: size.width >= LABELS_FROM });
}
