/** Where the samples of a row are fetched from. */
import type { Row, TensorInfo } from "../api";
import type { Viewer } from "../app/viewer.svelte";

export interface Shown {
  row: Row;
  /** Its position in what is shown. */
  position: number;
}

export function pictureAddress(viewer: Viewer, picture: TensorInfo, shown: Shown): string {
  return sampleAddress(viewer, picture, shown);
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
