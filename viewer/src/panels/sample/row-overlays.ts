/** Overlays of the selected row's image: masks, then shapes. */
import type { TensorInfo } from "../../api/client";
import type { Shown, Viewer } from "../../state/viewer.svelte";
import { decodeImage } from "../../fetch/reader";
import type { Shape } from "../../lenses";
import { collectShapes, layerOf, maskTensors } from "../../overlays/layers";
import { drawShapes } from "../../overlays/draw";
import type { Extent, Fit } from "../../canvas/geometry";
import { drawMask } from "../../overlays/masks";
import { matchShapes, labelMatches } from "../../overlays/matching";
import { sampleUrlOf } from "./urls";

const MASK_SIDE = 1024; // the server's limit

interface Over {
  viewer: Viewer;
  shown: Shown;
  imageTensor: TensorInfo;
  extent: Extent;
  fit: Fit;
  within: Extent;
  /** The result of `shapesOver`, where it is drawn repeatedly. */
  shapes?: Shape[];
  /** Draws ground truth or predictions only; both if omitted. */
  side?: "truth" | "predicted" | undefined;
}

export function drawOverlays(context: CanvasRenderingContext2D, over: Over): void {
  const { viewer, shown, imageTensor, extent, fit, within, side } = over;
  if (!viewer.overlays) return;
  for (const tensor of maskTensors(viewer.tensors, imageTensor, viewer.style)) {
    const bitmap = viewer.shownMasks.get(tensor.name);
    if (bitmap === undefined) continue;
    drawMask(context, bitmap, layerOf(tensor, shown.row, viewer.tensors, viewer.style), { extent, fit }, viewer.style);
  }
  const all = over.shapes ?? shapesOver(viewer, shown, imageTensor, extent);
  const shapes = side === undefined ? all : all.filter((shape) => shape.isPredicted === (side === "predicted"));
  drawShapes(context, shapes, fit, viewer.style, { area: within, hasLabels: true });
}

/** The shapes of a row, labelled with their matches if there are both predictions and ground truth. */
export function shapesOver(viewer: Viewer, { row }: Shown, imageTensor: TensorInfo, extent: Extent): Shape[] {
  const shapes = collectShapes(row, viewer.tensors, { tensor: imageTensor, extent }, viewer.style);
  const isCompared = shapes.some((shape) => shape.isPredicted) && shapes.some((shape) => !shape.isPredicted);
  return isCompared ? labelMatches(shapes, matchShapes(shapes)) : shapes;
}

/** The masks of a row, without NULLs. */
export async function readMasks(viewer: Viewer, shown: Shown, signal: AbortSignal): Promise<Map<string, ImageBitmap>> {
  const found = new Map<string, ImageBitmap>();
  const read = async (tensor: TensorInfo) => {
    if (shown.row[tensor.name] == null) return;
    const imageTensor = await viewer.api.sample(sampleUrlOf(viewer, tensor, shown, { size: MASK_SIDE }), signal);
    found.set(tensor.name, await decodeImage(await imageTensor.blob()));
  };
  await Promise.all(viewer.masks.map(read));
  return found;
}
