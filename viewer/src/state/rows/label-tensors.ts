/** Which tensors are labelled by keys: those with one class for each row. */
import type { TensorInfo } from "../../api/client";

export const KEYS = 9; // 1 to 9

export function labelTensors(tensors: readonly TensorInfo[]): TensorInfo[] {
  return tensors.filter(({ kind, shape, names, per }) => kind === "class_label" && (shape ?? []).length === 0 && per == null && (names?.length ?? 0) > 0);
}
