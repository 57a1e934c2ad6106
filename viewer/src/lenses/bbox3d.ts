/** Boxes in space: wireframes over the points or the mesh that they annotate, in the colour of their class. */
import { isSummary } from "../api/client";
import { formatPlural } from "../format";
import type { Vector } from "../players/scene/orbit";
import { findLabels, findScores, isPredicted } from "./belonging";
import { shortDtype, shortShape } from "./dtype";
import type { Lens, Value } from "./lens";

/** The lower four corners around, then the upper four: halves of the sides, from the centre. */
const CORNERS = [[-1, -1, -1], [1, -1, -1], [1, 1, -1], [-1, 1, -1], [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]] as const;
const NUMBERS: Record<string, number> = { xyzlwhr: 7, xyzlwhq: 10 };

export const bbox3dLens: Lens = {
  brief: (tensor) => `${shortDtype(tensor.dtype)} ${shortShape(tensor.shape)}`,
  describe: (value, tensor) => `${formatPlural(countOf(value), "box")}, ${tensor.format ?? ""}`,
  caption: (value) => formatPlural(countOf(value), "box"),
  solids(value, tensor, context) {
    const boxes = Array.isArray(value) ? value : [];
    const labels = findLabels(tensor, boxes.length, context);
    const scores = findScores(tensor, boxes.length, context.row, context.tensors);
    return boxes.map((box, i) => ({
      corners: cornersOf(box, tensor.format ?? "xyzlwhr"),
      code: labels?.code(i) ?? null,
      label: labels?.name(i) ?? "",
      score: scores?.[i] ?? null,
      isPredicted: isPredicted(tensor),
    }));
  },
};

function countOf(value: Value): number {
  return isSummary(value) ? (value.shape?.[0] ?? 0) : Array.isArray(value) ? value.length : 0;
}

/** The eight corners of a stored box; null where a number is missing, or is none. */
export function cornersOf(box: unknown, format: string): readonly Vector[] | null {
  if (!Array.isArray(box)) return null;
  const numbers = box.flat().map((one) => (typeof one === "number" ? one : NaN));
  if (!numbers.every(Number.isFinite)) return null;
  const at = (i: number) => numbers[i] ?? 0;
  if (format === "corners") return numbers.length !== 24 ? null : CORNERS.map((_, i) => [at(3 * i), at(3 * i + 1), at(3 * i + 2)]);
  if (numbers.length !== NUMBERS[format]) return null;
  const turn = format === "xyzlwhq" ? rotationOf([at(6), at(7), at(8), at(9)]) : rotationOf([Math.cos(at(6) / 2), 0, 0, Math.sin(at(6) / 2)]);
  return CORNERS.map((halves) => {
    const [x, y, z] = turn([(halves[0] * at(3)) / 2, (halves[1] * at(4)) / 2, (halves[2] * at(5)) / 2]);
    return [at(0) + x, at(1) + y, at(2) + z];
  });
}

/** Turns vectors by a quaternion w, x, y, z of any length. */
function rotationOf([w, ...axis]: readonly [number, number, number, number]): (vector: Vector) => Vector {
  const scale = 2 / (w * w + axis.reduce((sum, one) => sum + one * one, 0) || 1);
  return (vector) => {
    const once = cross(axis, vector);
    const twice = cross(axis, once);
    const turned = (i: 0 | 1 | 2) => vector[i] + scale * (w * once[i] + twice[i]);
    return [turned(0), turned(1), turned(2)];
  };
}

function cross([a, b, c]: Vector, [x, y, z]: Vector): Vector {
  return [b * z - c * y, c * x - a * z, a * y - b * x];
}
