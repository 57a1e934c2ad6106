/**
 * Shapes batched by colour and line style, computed once for many frames.
 *
 *     boxes   x, y, width, height of the first · of the second · …      in pixels of the image
 *
 * While an image is panned it is redrawn sixty times a second and its shapes do not change: five thousand
 * shapes are grouped and converted to numbers once, and each frame only reads the numbers.
 */
import type { Shape } from "../lenses";
import type { Pattern } from "../classes/palette";
import type { OverlayStyle } from "./layers";
import type { Extent, Fit } from "../canvas/geometry";

/** Opacity of the lines of a faint shape. */
export const FAINT = 0.5;

export interface Batch {
  color: string;
  /** Of fills. */
  pattern: Pattern;
  /** For predictions. */
  isDashed: boolean;
  isFaint: boolean;
  boxes: Float64Array;
  /** Outlines and skeletons. */
  others: readonly Shape[];
}

const known = new WeakMap<readonly Shape[], { palette: OverlayStyle["palette"]; batches: readonly Batch[] }>();

/** The batches of shapes, in order of first appearance; cached while both arguments are identical. */
export function batchesOf(shapes: readonly Shape[], palette: OverlayStyle["palette"]): readonly Batch[] {
  const before = known.get(shapes);
  if (before?.palette === palette) return before.batches;
  const batches = [...groupByStyle(shapes, palette).values()].map(toBatch);
  known.set(shapes, { palette, batches });
  return batches;
}

interface Group extends Pick<Batch, "color" | "pattern" | "isDashed" | "isFaint"> {
  shapes: Shape[];
}

function groupByStyle(shapes: readonly Shape[], palette: OverlayStyle["palette"]): Map<string, Group> {
  const groups = new Map<string, Group>();
  for (const shape of shapes) {
    const [color, pattern] = [palette.color(shape.code), palette.pattern(shape.code)];
    const { isPredicted: isDashed, isFaint = false } = shape;
    const key = `${color} ${pattern} ${isDashed} ${isFaint}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { color, pattern, isDashed, isFaint, shapes: [shape] });
    else group.shapes.push(shape);
  }
  return groups;
}

function toBatch({ shapes, ...look }: Group): Batch {
  const boxes = shapes.filter(({ path }) => path.kind === "box");
  const numbers = new Float64Array(4 * boxes.length);
  boxes.forEach(({ x, y, width, height }, i) => numbers.set([x, y, width, height], 4 * i));
  return { ...look, boxes: numbers, others: shapes.filter(({ path }) => path.kind !== "box") };
}

/** Calls `draw` with the place of each box that reaches into an area from the origin on. */
export function eachBoxInSight(
  boxes: Float64Array,
  fit: Fit,
  area: Extent,
  draw: (x: number, y: number, width: number, height: number) => void,
): void {
  const { width: right, height: bottom } = area; // read once: an area may be a signal
  for (let i = 0; i < boxes.length; i += 4) {
    const x = fit.x + fit.scale * (boxes[i] ?? 0);
    const y = fit.y + fit.scale * (boxes[i + 1] ?? 0);
    const width = fit.scale * (boxes[i + 2] ?? 0);
    const height = fit.scale * (boxes[i + 3] ?? 0);
    if (x > right || y > bottom || x + width < 0 || y + height < 0) continue;
    draw(x, y, width, height);
  }
}
