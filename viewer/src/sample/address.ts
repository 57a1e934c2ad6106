/** Where the picture of a row is fetched from. */
import type { Row, TensorInfo } from "../api";
import type { Viewer } from "../app/viewer.svelte";

export interface Shown {
  row: Row;
  /** Its position in what is shown. */
  position: number;
}

/** Stored pictures by their row of the version: one address in every query. Computed ones by position. */
export function pictureAddress(viewer: Viewer, picture: TensorInfo, { row, position }: Shown): string {
  const info = viewer.info;
  const isStored = row._row !== null && (info?.tensors ?? []).some(({ name }) => name === picture.name);
  const version = { version: info?.version ?? "", digest: info?.digest.slice(0, 12) ?? "" };
  const name = viewer.place.dataset ?? "";
  if (isStored) return viewer.api.sampleUrl(name, picture.name, row._row ?? 0, version);
  return viewer.api.sampleUrl(name, picture.name, position, { view: viewer.result?.view ?? "" });
}
