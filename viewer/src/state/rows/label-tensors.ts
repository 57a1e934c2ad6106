/** Which tensors are labelled by keys: those with one class for each row. */
import type { TensorInfo } from "../../api/client";

export const KEYS = 9; // 1 to 9

export function labelTensors(tensors: readonly TensorInfo[]): TensorInfo[] {
  return tensors.filter(({ kind, shape, names, per }) => kind === "class_label" && (shape ?? []).length === 0 && per == null && (names?.length ?? 0) > 0);
}

/** The classes whose names contain the words, best matches first: those that begin with the text. */
export function findClasses(names: readonly string[], text: string): number[] {
  const sought = text.trim().toLowerCase();
  const found = names.flatMap((name, code) => (name.toLowerCase().includes(sought) ? [code] : []));
  return found.sort((a, b) => Number(names[b]?.toLowerCase().startsWith(sought)) - Number(names[a]?.toLowerCase().startsWith(sought)) || a - b);
}
