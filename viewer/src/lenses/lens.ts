/** How one kind of tensor is shown; one file a kind, chosen in `index.ts`. */
import type { Bounds, Extent, Point } from "../canvas/geometry";
import type { CellValue, Row, Summary, TensorInfo } from "../api/client";
import type { ClassTable } from "../classes/class-table";

/** What is drawn of one object: all numbers are pixels of the whole sample. */
export type Path =
  | { kind: "box" }
  | { kind: "outline"; points: readonly Point[] }
  /** `shown` says which joints are known; `bones` join two of them. */
  | { kind: "skeleton"; joints: readonly { at: Point; isShown: boolean; isSeen: boolean }[]; bones: readonly Point[] };

/** One object over an image; its bounds are those of what is drawn. */
export interface Shape extends Bounds {
  path: Path;
  /** A class of the dataset (classes/class-table.ts), which chooses the colour; null for none. */
  code: number | null;
  /** The class in words; "" for none. */
  label: string;
  /** How sure a model was. */
  score: number | null;
  /** Drawn dashed: what a model says, beside what is true. */
  isPredicted: boolean;
  /** Its word says what became of it: it is said before the words of others. */
  isNoted?: boolean;
  /** Nothing became of it where something became of others: drawn faintly, without a word. */
  isFaint?: boolean;
}

export interface Pixel {
  /** A class of the dataset; null for none. */
  code: number | null;
  /** Which of the row's objects, from 0 on: it chooses the colour where there is no class. */
  object: number;
}

export type Value = CellValue | Summary;

export interface DrawContext {
  row: Row;
  tensors: TensorInfo[];
  image: Extent;
  classes: ClassTable;
}

export interface Lens {
  /** The tensor in two words, beside its name: "jpeg h×w×3". */
  brief(tensor: TensorInfo): string;
  /** The value in one line, for the table of a row. */
  describe(value: Value, tensor: TensorInfo): string;
  /** A few words under an image, or null for none. */
  caption?(value: Value, tensor: TensorInfo): string | null;
  /** What is drawn over the image that the tensor belongs to. */
  shapes?(value: Value, tensor: TensorInfo, context: DrawContext): Shape[];
  /** For masks: what a pixel's code means (server/tensorlake_server/masks.py); null is no object. */
  pixels?(tensor: TensorInfo, context: Omit<DrawContext, "image">): (code: number) => Pixel | null;
}
