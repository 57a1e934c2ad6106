/** Labels of shapes: their text, and positions without overlaps. */
import type { Shape } from "../lenses";
import { type Bounds, type Extent, type Fit, isInSight, placeBounds } from "../canvas/geometry";

export const LABEL_HEIGHT = 15;
const PADDING = 8;
const MOST = 200; // more are unreadable, and each is compared with all before it
const TRIED = 600; // in dense images most overlap: only the largest are tried

export interface PlacedLabel {
  place: Bounds;
  shape: Shape;
  text: string;
}

/** "dog 0.93"; a score alone where there is no class. */
export function labelText(shape: Shape): string {
  return [shape.label, shape.score === null ? "" : shape.score.toFixed(2)].filter((word) => word !== "").join(" ");
}

/**
 * Places labels above their shape where there is room, else inside it. A label that would overlap that of
 * a larger shape is omitted.
 */
export function placeLabels(
  shapes: readonly Shape[],
  fit: Fit,
  area: Extent,
  measure: (text: string) => number,
): PlacedLabel[] {
  const placed: PlacedLabel[] = [];
  let tried = 0;
  for (const shape of largestFirst(shapes)) {
    if (shape.isFaint === true || !isInSight(shape, fit, area)) continue;
    tried += 1;
    if (tried > TRIED || placed.length === MOST) break;
    const text = labelText(shape);
    if (text === "") continue;
    const box = placeBounds(shape, fit);
    const width = measure(text) + PADDING;
    const place = {
      x: Math.max(0, Math.min(box.x - 1, area.width - width)),
      y: box.y >= LABEL_HEIGHT ? box.y - LABEL_HEIGHT : Math.max(0, box.y),
      width,
      height: LABEL_HEIGHT,
    };
    if (!placed.some((other) => overlaps(other.place, place))) placed.push({ place, shape, text });
  }
  return placed;
}

const sorted = new WeakMap<readonly Shape[], Shape[]>();

/** Sorts changed shapes first, then by size; cached, because every move redraws the same shapes. */
function largestFirst(shapes: readonly Shape[]): Shape[] {
  const size = (shape: Shape) => (shape.isNoted === true ? Infinity : shape.width * shape.height);
  const known = sorted.get(shapes) ?? [...shapes].sort((a, b) => (size(a) === size(b) ? 0 : size(b) - size(a)));
  sorted.set(shapes, known);
  return known;
}

function overlaps(a: Bounds, b: Bounds): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}
