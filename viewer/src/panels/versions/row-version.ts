/** One row of one version, with its images and their masks. */
import type { Api, DatasetInfo, Row, TensorInfo } from "../../api/client";
import { decodeImage } from "../../fetch/reader";
import { collectShapes, layerOf, maskTensors, type OverlayStyle } from "../../overlays/layers";
import { drawShapes } from "../../overlays/draw";
import type { Extent, Fit } from "../../canvas/geometry";
import { drawMask, releaseBitmap } from "../../overlays/masks";
import { firstFrame, isFrames, isWithoutFrames, type Shape } from "../../lenses";
import { compareShapes } from "./shape-changes";
import { chooseImageTensors } from "../../state/defaults";

const MASK_SIDE = 1024;

export interface RowVersion {
  info: DatasetInfo;
  row: Row;
  /** By tensor, in the order of the schema. */
  images: ReadonlyMap<string, RowImage>;
}

export interface RowImage {
  info: DatasetInfo;
  row: Row;
  tensor: TensorInfo;
  /** Null for NULL. */
  image: ImageBitmap | null;
  masks: ReadonlyMap<string, ImageBitmap>;
}

/** Reads a row, its images and their masks; null if the row does not exist. */
export async function readRowVersion(
  api: Api,
  info: DatasetInfo,
  position: number | null,
  style: OverlayStyle,
  signal: AbortSignal,
): Promise<RowVersion | null> {
  if (position === null) return null;
  const page = await api.rows(info.name, { version: info.version, view: null }, { offset: position, limit: 1 }, signal);
  const row = page.rows[0];
  if (row === undefined) return null;
  const fetched = async (tensor: TensorInfo, options: Record<string, number>) => {
    if (row[tensor.name] == null || isWithoutFrames(tensor, row[tensor.name])) return null;
    const version = { version: info.version, digest: info.digest.slice(0, 12) };
    const answer = await api.sample(api.sampleUrl(info.name, tensor.name, position, { ...version, ...options }), signal);
    return decodeImage(await answer.blob());
  };
  const read = async (tensor: TensorInfo): Promise<[string, RowImage]> => {
    const masks = new Map<string, ImageBitmap>();
    const reading = maskTensors(info.tensors, tensor, style).map(async (one) => {
      const mask = await fetched(one, { size: MASK_SIDE });
      if (mask !== null) masks.set(one.name, mask);
    });
    const [image] = await Promise.all([fetched(tensor, isFrames(tensor) ? { frame: firstFrame(tensor, row[tensor.name]) } : {}), ...reading]);
    return [tensor.name, { info, row, tensor, image, masks }];
  };
  const images = await Promise.all(chooseImageTensors(info.tensors, style.hiddenTensors).map(read));
  return { info, row, images: new Map(images) };
}

/** Frees the images: they are large, and garbage collection may be late. */
export function closeRowVersion(side: RowVersion | null | undefined): void {
  for (const { image, masks } of side?.images.values() ?? []) {
    image?.close();
    for (const mask of masks.values()) releaseBitmap(mask);
  }
}

/** Both versions of each image of a row, with their shapes; images that neither version has are left out. */
export function pairImages(before: RowVersion | null, after: RowVersion | null, style: OverlayStyle) {
  const names = new Set([...(after?.images.keys() ?? []), ...(before?.images.keys() ?? [])]);
  return [...names].flatMap((name) => {
    const [old, now] = [before?.images.get(name), after?.images.get(name)];
    if (old?.image == null && now?.image == null) return [];
    return [{ name, before: old ?? null, after: now ?? null, shapes: compareShapes(shapesOf(old, style), shapesOf(now, style)) }];
  });
}

function shapesOf(side: RowImage | undefined, style: OverlayStyle): Shape[] {
  if (side?.image == null) return [];
  const { width, height } = side.image;
  return collectShapes(side.row, side.info.tensors, { tensor: side.tensor, extent: { width, height } }, style);
}

/** Draws one image of one version with the given shapes, which may be labelled with changes. */
export function drawRowImage(
  context: CanvasRenderingContext2D,
  side: RowImage,
  shapes: readonly Shape[],
  view: { fit: Fit; within: Extent },
  style: OverlayStyle,
): void {
  if (side.image === null) return;
  const extent = { width: side.image.width, height: side.image.height };
  const { fit } = view;
  context.imageSmoothingEnabled = fit.scale < 3;
  context.drawImage(side.image, fit.x, fit.y, extent.width * fit.scale, extent.height * fit.scale);
  for (const [name, mask] of side.masks) {
    const tensor = side.info.tensors.find((one) => one.name === name);
    if (tensor === undefined || style.hiddenTensors.has(name)) continue;
    drawMask(context, mask, layerOf(tensor, side.row, side.info.tensors, style), { extent, fit }, style);
  }
  drawShapes(context, shapes, fit, style, { area: view.within, hasLabels: true });
}
