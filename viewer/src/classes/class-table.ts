/**
 * Classes of a dataset: one number per class name, across tensors.
 *
 * Boxes, masks and labels may have separate lists of names; equal names are one class, with one colour and one
 * switch. The main labels keep their codes, other names follow in schema order.
 */
import type { TensorInfo } from "../api/client";

export class ClassTable {
  #codes = new Map<string, number>();
  #names: string[] = [];

  constructor(tensors: readonly TensorInfo[]) {
    const first = chooseLabels([...tensors]);
    const others = tensors.filter((tensor) => tensor !== first);
    for (const tensor of first === null ? others : [first, ...others]) {
      if (tensor.kind !== "class_label" && tensor.kind !== "segment_mask") continue;
      for (const name of tensor.names ?? []) {
        if (this.#codes.has(name) && tensor !== first) continue;
        this.#codes.set(name, this.#names.length);
        this.#names.push(name);
      }
    }
  }

  /** The class of a tensor's code; the code itself if it has no name. */
  codeOf(tensor: TensorInfo, code: number): number {
    const name = tensor.names?.[code];
    return name === undefined ? code : (this.#codes.get(name) ?? code);
  }

  nameOf(code: number): string {
    return this.#names[code] ?? String(code);
  }
}

/** The main labels of a dataset: those of boxes, else the first, else a segmentation's. */
export function chooseLabels(tensors: TensorInfo[]): TensorInfo | null {
  const labels = tensors.filter((tensor) => tensor.kind === "class_label");
  const segments = tensors.find((tensor) => tensor.kind === "segment_mask" && (tensor.names?.length ?? 0) > 0);
  return labels.find((tensor) => tensor.per != null) ?? labels[0] ?? segments ?? null;
}
