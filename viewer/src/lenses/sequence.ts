/** Sequences: lists of plain values, and images that play as frames. */
import { isSummary, type CellValue, type Summary, type TensorInfo } from "../api/client";
import { formatBytes, formatPlural } from "../format";
import { readText } from "./text";
import type { Lens } from "./lens";

/** Whether a tensor holds sequences of images. */
export function isFrames(tensor: TensorInfo): boolean {
  return tensor.kind === "sequence" && tensor.picture;
}

/** The number of items of a sequence that is not shown whole. */
export function frameCount(value: CellValue | Summary | undefined): number {
  return isSummary(value) ? (value.items ?? 0) : 0;
}

export const sequenceLens: Lens = {
  brief: (tensor) => (isFrames(tensor) ? `frames ${tensor.media_type?.replace("image/", "").replace("*", "any") ?? ""}`.trim() : tensor.type.replace(/^Sequence/, "list ")),
  describe(value, tensor) {
    if (!isSummary(value)) return Array.isArray(value) ? value.map(readText).join(", ") || "none" : readText(value);
    const count = typeof value.items === "number" ? [formatPlural(value.items, isFrames(tensor) ? "frame" : "item")] : [];
    return [...count, formatBytes(value.nbytes ?? 0)].join(", ");
  },
};
