/** Where a shape is held: the corners and edges of a box, the vertices of an outline, the joints of a skeleton. */
import type { Bounds, Point } from "../canvas/geometry";
import type { Shape } from "./lens";

/** By handle of a box, clockwise from its left upper corner: which side it moves, -1 the left or upper one. */
export const SIDES: readonly Point[] = [[-1, -1], [0, -1], [1, -1], [1, 0], [1, 1], [0, 1], [-1, 1], [-1, 0]];

export function handlesOf(shape: Shape): readonly Point[] {
  if (shape.path.kind === "outline") return shape.path.points;
  if (shape.path.kind === "skeleton") return shape.path.joints.map(({ at }) => at);
  const { x, y, width, height } = shape;
  return SIDES.map(([across, down]) => [x + (width * (across + 1)) / 2, y + (height * (down + 1)) / 2]);
}

/** A hundredth of a pixel is as near as a hand comes; more digits would be noise. */
export function roundPoint([x, y]: Point): Point {
  return [Math.round(x * 100) / 100, Math.round(y * 100) / 100];
}

export function clampPoint([x, y]: Point, image: { width: number; height: number }): Point {
  return [Math.min(Math.max(0, x), image.width), Math.min(Math.max(0, y), image.height)];
}

/** As far as bounds may move and stay inside of the image; what is outside already moves freely. */
export function clampMove([x, y]: Point, bounds: Bounds, image: { width: number; height: number }): Point {
  const along = (by: number, start: number, length: number, room: number) =>
    start < 0 || start + length > room ? by : Math.min(Math.max(by, -start), room - start - length);
  return [along(x, bounds.x, bounds.width, image.width), along(y, bounds.y, bounds.height, image.height)];
}
