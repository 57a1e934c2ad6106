/** Polygons: outlines of objects in the colour of their class. */
import type { Bounds, Point } from "../canvas/geometry";
import { isSummary } from "../api/client";
import { formatPlural } from "../format";
import { findLabels, findScores, isPredicted } from "./belonging";
import type { Lens, Value } from "./lens";

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
};

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
