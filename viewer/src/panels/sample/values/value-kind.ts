/** Which values can be expanded, and how they are shown. */
import type { CellValue, Summary, TensorInfo } from "../../../api/client";
import { isSummary } from "../../../api/client";
import { isOverlay } from "../../../lenses";

export type FullValueKind = "text" | "json" | "array";

const LONG = 160;

/** How a tensor's expanded samples are shown; null for short or drawn ones. */
export function fullValueKind(tensor: TensorInfo): FullValueKind | null {
  if (tensor.kind === "text") return "text";
  if (tensor.kind === "json" || tensor.kind === "tags") return "json";
  if (isOverlay(tensor) || tensor.kind === "image" || tensor.kind === "class_label") return null;
  return tensor.dtype !== null && (tensor.shape?.length ?? 0) > 0 && tensor.kind !== "timestamp" ? "array" : null;
}

/** Whether a value has more than its line shows. */
export function isExpandable(value: CellValue | Summary | undefined, tensor: TensorInfo, line: string): boolean {
  const kind = fullValueKind(tensor);
  if (value == null || kind === null || (isSummary(value) && value.$summary === "error")) return false;
  if (kind === "text") return isSummary(value) || line.length > LONG || line.includes("\n");
  if (kind === "json") return isSummary(value) || (typeof value === "object" && Object.keys(value).length > 0);
  return true;
}
