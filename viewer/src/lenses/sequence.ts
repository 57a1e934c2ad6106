/** Sequences: lists of plain values, and images that play as frames: of a volume its planes along the first axis. */
import { isSummary, type CellValue, type Summary, type TensorInfo } from "../api/client";
import { formatBytes, formatPlural } from "../format";
import { readText } from "./text";
import type { Lens } from "./lens";

/** Whether a tensor holds sequences of images, or volumes. */
export function isFrames(tensor: TensorInfo): boolean {
  return (tensor.kind === "sequence" || tensor.kind === "volume") && tensor.picture;
}

/** The number of items of a sequence that is not shown whole, or of planes of a volume. */
export function frameCount(value: CellValue | Summary | undefined): number {
  if (!isSummary(value)) return 0;
  return value.items ?? ((value.shape?.length ?? 0) > 2 ? (value.shape?.[0] ?? 0) : 0);
}

/** Whether a sequence of images has none, so that there is nothing to request. */
export function isWithoutFrames(tensor: TensorInfo, value: CellValue | Summary | undefined): boolean {
  return tensor.kind === "sequence" && isFrames(tensor) && isSummary(value) && value.items === 0;
}

/** The frame that stands for the whole: the first of a sequence, the middle plane of a volume. */
export function firstFrame(tensor: TensorInfo, value: CellValue | Summary | undefined): number {
  return tensor.kind === "volume" ? Math.floor(frameCount(value) / 2) : 0;
}

export const sequenceLens: Lens = {
  brief: (tensor) => (isFrames(tensor) ? `frames ${tensor.media_type?.replace("image/", "").replace("*", "any") ?? ""}`.trim() : tensor.type.replace(/^Sequence/, "list ")),
  describe(value, tensor) {
    if (!isSummary(value)) return Array.isArray(value) ? value.map(readText).join(", ") || "none" : readText(value);
    const count = typeof value.items === "number" ? [formatPlural(value.items, isFrames(tensor) ? "frame" : "item")] : [];
    return [...count, formatBytes(value.nbytes ?? 0)].join(", ");
  },
};

export const volumeLens: Lens = {
  brief: (tensor) => tensor.type,
  describe: (value) => (isSummary(value) ? [(value.shape ?? []).join(" × "), formatBytes(value.nbytes ?? 0)].join(", ") : readText(value)),
  view: () => import("../players/volume/VolumePlayer.svelte"),
};
