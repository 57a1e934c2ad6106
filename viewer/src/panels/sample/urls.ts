/** Where the samples of a row are fetched from. */
import type { Extent } from "../../canvas/geometry";
import { isSummary, type Row, type TensorInfo } from "../../api/client";
import type { Shown, Viewer } from "../../state/viewer.svelte";
import { isLarge, PREVIEW_SIDE } from "./image-tile";

/** The picture to show first: of a large one a smaller one that the server makes. */
export function pictureAddress(viewer: Viewer, picture: TensorInfo, shown: Shown): string {
  const extent = storedExtent(shown.row, picture);
  const isSmaller = extent !== null && isLarge(extent);
  return sampleAddress(viewer, picture, shown, isSmaller ? { size: PREVIEW_SIDE } : {});
}

/** The size of a picture as its row tells it, before any of it is decoded; null where it does not. */
export function storedExtent(row: Row, picture: TensorInfo): Extent | null {
  const value = row[picture.name];
  const [height, width] = isSummary(value) ? (value.shape ?? []) : [];
  return height === undefined || width === undefined ? null : { width, height };
}

/** Stored samples by their row of the version: one address in every query. Computed ones by position. */
export function sampleAddress(
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
