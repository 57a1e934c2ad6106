/** Polygons: outlines of objects in the colour of their class. */
import type { Bounds, Extent, Point } from "../canvas/geometry";
import { isSummary } from "../api/client";
import { formatPlural } from "../format";
import { findLabels, findScores, isPredicted } from "./belonging";
import { clampMove, clampPoint, roundPoint } from "./handles";
import type { Gesture, Lens, Value } from "./lens";

const FEWEST = 3; // vertices of an outline

export const polygonLens: Lens = {
  brief: () => "polygons",
  describe(value) {
    const outlines = readOutlines(value);
    const points = outlines.reduce((sum, outline) => sum + outline.length, 0);
    return `${formatPlural(outlines.length, "polygon")}, ${formatPlural(points, "point")}`;
  },
  caption: (value) => formatPlural(readOutlines(value).length, "polygon"),
  shapes(value, tensor, context) {
    const outlines = readOutlines(value);
    const labels = findLabels(tensor, outlines.length, context);
    const scores = findScores(tensor, outlines.length, context.row, context.tensors);
    return outlines.map((points, i) => ({
      ...boundsOf(points),
      path: { kind: "outline", points },
      code: labels?.code(i) ?? null,
      label: labels?.name(i) ?? "",
      score: scores?.[i] ?? null,
      isPredicted: isPredicted(tensor),
    }));
  },
  edit(value, gesture, _tensor, image) {
    if (isSummary(value)) return undefined; // too many points to be here
    const outlines = readOutlines(value);
    if (gesture.kind === "remove") return plain(outlines.toSpliced(gesture.object, 1));
    const at = (point: Point) => roundPoint(clampPoint(point, image));
    if (gesture.kind === "add") return gesture.points.length < FEWEST ? undefined : plain([...outlines, gesture.points.map(at)]);
    const changed = changeOutline(outlines[gesture.object] ?? [], gesture, image);
    return changed === undefined || changed.length < FEWEST ? undefined : plain(outlines.with(gesture.object, changed));
  },
};

function changeOutline(points: Point[], gesture: Gesture, image: Extent): Point[] | undefined {
  const at = (point: Point) => roundPoint(clampPoint(point, image));
  if (gesture.kind === "move") {
    const [x, y] = roundPoint(clampMove(gesture.by, boundsOf(points), image));
    return points.map(([left, top]) => [left + x, top + y]);
  }
  if (gesture.kind === "drag") return points.with(gesture.handle, at(gesture.to));
  if (gesture.kind === "split") return points.toSpliced(gesture.handle + 1, 0, at(gesture.to));
  return gesture.kind === "cut" ? points.toSpliced(gesture.handle, 1) : undefined;
}

function plain(outlines: readonly (readonly Point[])[]): number[][][] {
  return outlines.map((points) => points.map(([x, y]) => [x, y]));
}

function readOutlines(value: Value): Point[][] {
  if (isSummary(value) || !Array.isArray(value)) return [];
  return value.map((outline) => (Array.isArray(outline) ? outline.filter(isPoint) : []));
}

function isPoint(value: unknown): value is Point & number[] {
  return Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === "number");
}

/** The bounding rectangle of all points; empty without points. */
export function boundsOf(points: readonly Point[]): Bounds {
  if (points.length === 0) return { x: 0, y: 0, width: 0, height: 0 };
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y] of points) {
    left = Math.min(left, x);
    top = Math.min(top, y);
    right = Math.max(right, x);
    bottom = Math.max(bottom, y);
  }
  return { x: left, y: top, width: right - left, height: bottom - top };
}
