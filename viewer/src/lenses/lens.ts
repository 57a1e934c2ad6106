/** How one kind of tensor is shown; one file a kind, chosen in `index.ts`. */
import type { CellValue, Row, Summary, TensorInfo } from "../api";

export interface Shape {
  /** In pixels of the whole sample. */
  x: number;
  y: number;
  width: number;
  height: number;
  /** A class code, which chooses the colour; null for boxes without classes. */
  code: number | null;
  label: string;
}

export type Value = CellValue | Summary;

export interface Lens {
  /** The tensor in two words, beside its name: "jpeg h×w×3". */
  brief(tensor: TensorInfo): string;
  /** The value in one line, for the table of a row. */
  describe(value: Value, tensor: TensorInfo): string;
  /** A few words under a picture, or null for none. */
  caption?(value: Value, tensor: TensorInfo): string | null;
  /** What is drawn over the picture that the tensor belongs to. */
  shapes?(value: Value, tensor: TensorInfo, row: Row, tensors: TensorInfo[], picture: Extent): Shape[];
}

export interface Extent {
  width: number;
  height: number;
}
