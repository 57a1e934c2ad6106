/** What lies under the pointer: a handle of the selected object, else the smallest object. */
import type { Bounds, Point } from "../../../canvas/geometry";
import { handlesOf, type Shape } from "../../../lenses";

/** The nearest handle within a distance, of some in one place the first, which is a corner; null for none. */
export function handleAt(shape: Shape, [x, y]: Point, within: number): number | null {
  let [nearest, best] = [-1, within];
  handlesOf(shape).forEach(([left, top], i) => {
    const distance = Math.max(Math.abs(left - x), Math.abs(top - y));
    if (distance < best) [nearest, best] = [i, distance];
  });
  return nearest < 0 ? null : nearest;
}

/** The index of the smallest shape at a point, so that none is out of reach; null for none. */
export function shapeAt(shapes: readonly Shape[], point: Point, within: number): number | null {
  let [found, smallest] = [-1, Infinity];
  shapes.forEach((shape, i) => {
    const area = shape.width * shape.height;
    if (area < smallest && isAt(shape, point, within)) [found, smallest] = [i, area];
  });
  return found < 0 ? null : found;
}

/** The side of an outline at a point, by the vertex that it begins with. */
export function sideAt(points: readonly Point[], point: Point, within: number): number | null {
  const found = points.findIndex((from, i) => distanceTo(from, points[(i + 1) % points.length] ?? from, point) <= within);
  return found < 0 ? null : found;
}

function isAt(shape: Shape, point: Point, within: number): boolean {
  if (!isInside(shape, point, within)) return false;
  if (shape.path.kind !== "outline") return true;
  return isEnclosed(shape.path.points, point) || sideAt(shape.path.points, point, within) !== null;
}

function isInside({ x, y, width, height }: Bounds, [left, top]: Point, within: number): boolean {
  return left >= x - within && left <= x + width + within && top >= y - within && top <= y + height + within;
}

/** By the number of sides that a ray to the right crosses. */
function isEnclosed(points: readonly Point[], [x, y]: Point): boolean {
  let isIn = false;
  points.forEach(([ax, ay], i) => {
    const [bx, by] = points[(i + 1) % points.length] ?? [ax, ay];
    if (ay > y !== by > y && x < ax + ((y - ay) / (by - ay)) * (bx - ax)) isIn = !isIn;
  });
  return isIn;
}

function distanceTo([ax, ay]: Point, [bx, by]: Point, [x, y]: Point): number {
  const [dx, dy] = [bx - ax, by - ay];
  const along = dx === 0 && dy === 0 ? 0 : Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy)));
  return Math.hypot(x - ax - along * dx, y - ay - along * dy);
}
