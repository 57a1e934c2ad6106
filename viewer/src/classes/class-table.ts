/**
 * Classes of a whole dataset: one number a class, whichever tensor names it.
 *
 * Boxes, masks and labels may each have names of their own; a class of the same name is the same
 * class, with one colour and one switch. The labels that are counted keep their codes, other names
 * follow in the schema's order.
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

  /** The class of a tensor's own code; a code without a name stands for itself. */
  codeOf(tensor: TensorInfo, code: number): number {
    const name = tensor.names?.[code];
    return name === undefined ? code : (this.#codes.get(name) ?? code);
  }

  nameOf(code: number): string {
    return this.#names[code] ?? String(code);
  }
}

/** The labels whose counts stand at the left: those of the boxes, else the first, else a segmentation's. */
export function chooseLabels(tensors: TensorInfo[]): TensorInfo | null {
  const labels = tensors.filter((tensor) => tensor.kind === "class_label");
  const segments = tensors.find((tensor) => tensor.kind === "segment_mask" && (tensor.names?.length ?? 0) > 0);
  return labels.find((tensor) => tensor.per != null) ?? labels[0] ?? segments ?? null;
}
