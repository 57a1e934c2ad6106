/** Bounding boxes: drawn over their image in the colour of their class. */
import type { Bounds, Extent } from "../canvas/geometry";
import { isSummary } from "../api/client";
import { formatPlural } from "../format";
import { findLabels, findScores, isPredicted } from "./belonging";
import { shortDtype, shortShape } from "./dtype";
import type { Lens, Value } from "./lens";

export const bboxLens: Lens = {
  brief: (tensor) => `${shortDtype(tensor.dtype)} ${shortShape(tensor.shape)}`,
  describe(value, tensor) {
    if (isSummary(value)) return `${value.shape?.[0] ?? "?"} × 4, ${tensor.format ?? "xyxy"}`;
    return `${readBoxes(value).length} × 4, ${tensor.format ?? "xyxy"}`;
  },
  caption: (value) => formatPlural(isSummary(value) ? (value.shape?.[0] ?? 0) : readBoxes(value).length, "box"),
  shapes(value, tensor, context) {
    const boxes = readBoxes(value);
    const labels = findLabels(tensor, boxes.length, context);
    const scores = findScores(tensor, boxes.length, context.row, context.tensors);
    return boxes.map((box, i) => ({
      ...placeBox(box, tensor.format ?? "xyxy", context.image),
      path: { kind: "box" },
      code: labels?.code(i) ?? null,
      label: labels?.name(i) ?? "",
      score: scores?.[i] ?? null,
      isPredicted: isPredicted(tensor),
    }));
  },
};

type Box = [number, number, number, number];

/** A tensor holds one box (4,) or many (n, 4). */
function readBoxes(value: Value): Box[] {
  if (isSummary(value)) return [];
  if (!Array.isArray(value)) return [];
  const isOne = value.length === 4 && typeof value[0] === "number";
  return (isOne ? [value] : value).filter(isBox);
}

function isBox(value: unknown): value is Box {
  return Array.isArray(value) && value.length === 4 && value.every((edge) => typeof edge === "number");
}

/** From the stored order of numbers to a rectangle in pixels of the sample. */
export function placeBox(box: Box, format: string, image: Extent): Bounds {
  const isRelative = format.endsWith("n") || format.startsWith("n") || format.includes("norm");
  const scaleX = isRelative ? image.width : 1;
  const scaleY = isRelative ? image.height : 1;
  const [a, b, c, d] = [box[0] * scaleX, box[1] * scaleY, box[2] * scaleX, box[3] * scaleY];
  if (format.includes("cxcywh")) return { x: a - c / 2, y: b - d / 2, width: c, height: d };
  if (format.includes("xywh") || format.includes("ltwh")) return { x: a, y: b, width: c, height: d };
  return { x: a, y: b, width: c - a, height: d - b };
}
