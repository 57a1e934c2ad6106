/** One row of one version, with its image and masks. */
import type { Api, DatasetInfo, Row, TensorInfo } from "../../api/client";
import { decodeImage } from "../../fetch/reader";
import { collectShapes, layerOf, maskTensors, type OverlayStyle } from "../../overlays/layers";
import { drawShapes } from "../../overlays/draw";
import type { Extent, Fit } from "../../canvas/geometry";
import { drawMask, releaseBitmap } from "../../overlays/masks";
import type { Shape } from "../../lenses";
import { chooseImageTensor } from "../../state/defaults";

const MASK_SIDE = 1024;

export interface RowVersion {
  info: DatasetInfo;
  row: Row;
  imageTensor: TensorInfo | null;
  image: ImageBitmap | null;
  masks: ReadonlyMap<string, ImageBitmap>;
}

/** Reads a row, its image and its masks; null if the row does not exist. */
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
  const imageTensor = chooseImageTensor(info.tensors, style.hiddenTensors);
  const fetched = async (tensor: TensorInfo, options: Record<string, number>) => {
    if (row[tensor.name] == null) return null;
    const version = { version: info.version, digest: info.digest.slice(0, 12) };
    const answer = await api.sample(api.sampleUrl(info.name, tensor.name, position, { ...version, ...options }), signal);
    return decodeImage(await answer.blob());
  };
  const masks = new Map<string, ImageBitmap>();
  const reading = maskTensors(info.tensors, imageTensor, style).map(async (tensor) => {
    const mask = await fetched(tensor, { size: MASK_SIDE });
    if (mask !== null) masks.set(tensor.name, mask);
  });
  const [image] = await Promise.all([imageTensor === null ? null : fetched(imageTensor, {}), ...reading]);
  return { info, row, imageTensor, image, masks };
}

/** Frees the images: they are large, and garbage collection may be late. */
export function closeRowVersion(side: RowVersion | null | undefined): void {
  side?.image?.close();
  for (const mask of side?.masks.values() ?? []) releaseBitmap(mask);
}

export function shapesOf(side: RowVersion, style: OverlayStyle): Shape[] {
  if (side.imageTensor === null || side.image === null) return [];
  const { width, height } = side.image;
  return collectShapes(side.row, side.info.tensors, { tensor: side.imageTensor, extent: { width, height } }, style);
}

/** Draws one version with the given shapes, which may be labelled with changes. */
export function drawRowVersion(
  context: CanvasRenderingContext2D,
  side: RowVersion,
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
