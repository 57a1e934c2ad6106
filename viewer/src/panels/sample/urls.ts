/** URLs of the samples of a row. */
import type { Extent } from "../../canvas/geometry";
import { isSummary, type Row, type TensorInfo } from "../../api/client";
import type { Shown, Viewer } from "../../state/viewer.svelte";
import { frameCount, isDeep, isFrames, isMedia } from "../../lenses";
import { isLarge, PREVIEW_SIDE } from "../../canvas/image-tile";

/** The image to show first: for a large one, a smaller version made by the server; for a deep one, through a window. */
export function previewUrl(viewer: Viewer, imageTensor: TensorInfo, shown: Shown, window = viewer.place.windows[imageTensor.name]): string {
  if (isFrames(imageTensor)) {
    const last = Math.max(0, frameCount(shown.row[imageTensor.name]) - 1);
    return sampleUrlOf(viewer, imageTensor, shown, { frame: Math.min(viewer.playback.frame, last) });
  }
  if (isMedia(imageTensor)) return sampleUrlOf(viewer, imageTensor, shown, { size: PREVIEW_SIDE });
  const extent = storedExtent(shown.row, imageTensor);
  const isSmaller = extent !== null && isLarge(extent);
  const size = isSmaller ? { size: PREVIEW_SIDE } : {};
  return sampleUrlOf(viewer, imageTensor, shown, isDeep(imageTensor) ? { ...size, window: window ?? "auto" } : size);
}

/** The size of an image according to its row, before decoding; null if unknown. */
export function storedExtent(row: Row, imageTensor: TensorInfo): Extent | null {
  const value = row[imageTensor.name];
  if (isFrames(imageTensor) || isMedia(imageTensor)) return null;
  const [height, width] = isSummary(value) ? (value.shape ?? []) : [];
  return height === undefined || width === undefined ? null : { width, height };
}

/** Stored samples are addressed by row of the version, the same in every query; computed ones by position. */
export function sampleUrlOf(
  viewer: Viewer,
  tensor: TensorInfo,
  { row, position }: Shown,
  options: Record<string, string | number> = {},
): string {
  const info = viewer.info;
  const isStored = row._row !== null && (info?.tensors ?? []).some(({ name }) => name === tensor.name);
  const version = { version: info?.version ?? "", digest: info?.digest.slice(0, 12) ?? "" };
  const name = viewer.place.dataset ?? "";
  if (isStored) return viewer.api.sampleUrl(name, tensor.name, row._row ?? 0, { ...version, ...options });
  return viewer.api.sampleUrl(name, tensor.name, position, { view: viewer.result?.view ?? "", ...options });
}
