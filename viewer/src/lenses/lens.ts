/** How one kind of tensor is shown; one file per kind, registered in `index.ts`. */
import type { Bounds, Extent, Point } from "../canvas/geometry";
import type { CellValue, Row, Summary, TensorInfo } from "../api/client";
import type { ClassTable } from "../classes/class-table";
import type { Component } from "svelte";
import type { Vector } from "../players/scene/orbit";
import type { Player, PlayerProps } from "../players/player";

/** The drawing of one object, in pixels of the full-size sample. */
export type Path =
  | { kind: "box" }
  | { kind: "outline"; points: readonly Point[] }
  /** The edges of a box in space. */
  | { kind: "wires"; lines: readonly (readonly [Point, Point])[] }
  /** `isShown` marks labelled joints; each bone connects two of them. */
  | { kind: "skeleton"; joints: readonly { at: Point; isShown: boolean; isSeen: boolean }[]; bones: readonly Point[] };

/** One object over an image, with the bounds of its drawing. */
export interface Shape extends Bounds {
  path: Path;
  /** A class of the dataset (classes/class-table.ts), which chooses the colour; null for none. */
  code: number | null;
  /** The class name; "" for none. */
  label: string;
  /** The confidence of a prediction. */
  score: number | null;
  /** Predictions are drawn dashed, ground truth solid. */
  isPredicted: boolean;
  /** What is wrong with its numbers; "" or absent for nothing. */
  damage?: string;
  /** Its label describes a change and is placed before other labels. */
  isNoted?: boolean;
  /** Unchanged where others changed: drawn faintly, without a label. */
  isFaint?: boolean;
}

/** One object in space, before a camera makes a shape of it. */
export interface Solid extends Pick<Shape, "code" | "label" | "score" | "isPredicted"> {
  /** The lower four around, then the upper four; null where the numbers give no place. */
  corners: readonly Vector[] | null;
}

export interface Pixel {
  /** A class of the dataset; null for none. */
  code: number | null;
  /** Index of the object in the row, from 0; selects the colour if there is no class. */
  object: number;
}

export type Value = CellValue | Summary;

/** What a hand does to the objects of a value; points are in pixels of the sample. */
export type Gesture =
  /** Two opposite corners of a box, the vertices of an outline, or where joints are. */
  | { kind: "add"; points: readonly Point[] }
  | { kind: "remove"; object: number }
  | { kind: "move"; object: number; by: Point }
  /** One of the shape's handles (handles.ts) goes to a point. */
  | { kind: "drag"; object: number; handle: number; to: Point }
  /** A vertex more, after another; one vertex less. */
  | { kind: "split"; object: number; handle: number; to: Point }
  | { kind: "cut"; object: number; handle: number }
  /** A joint gets the next visibility. */
  | { kind: "mark"; object: number; handle: number }
  /** A damaged box gets edges in their order, inside of the image. */
  | { kind: "mend"; object: number };

export interface DrawContext {
  row: Row;
  tensors: TensorInfo[];
  image: Extent;
  classes: ClassTable;
}

export interface Lens {
  /** Loads the player of samples that are more than an image: it stands where images are shown in full. */
  view?: () => Promise<{ default: Component<PlayerProps, Player> }>;
  /** A short description beside the tensor's name: "jpeg h×w×3". */
  brief(tensor: TensorInfo): string;
  /** The value in one line, for the table of a row. */
  describe(value: Value, tensor: TensorInfo): string;
  /** A caption under an image, or null for none. */
  caption?(value: Value, tensor: TensorInfo): string | null;
  /** Shapes drawn over the image that the tensor belongs to. */
  shapes?(value: Value, tensor: TensorInfo, context: DrawContext): Shape[];
  /** Boxes in the space of the points or the mesh that the tensor belongs to. */
  solids?(value: Value, tensor: TensorInfo, context: Omit<DrawContext, "image">): Solid[];
  /** The value after a gesture, in the tensor's own format; undefined where it has no meaning. Other objects keep their numbers. */
  edit?(value: Value, gesture: Gesture, tensor: TensorInfo, image: Extent): CellValue | undefined;
  /** For masks: the meaning of a pixel's code (the server's masks.py); null for background. */
  pixels?(tensor: TensorInfo, context: Omit<DrawContext, "image">): (code: number) => Pixel | null;
}
