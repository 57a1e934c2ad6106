/** Bounding boxes: drawn over their picture in the colour of their class. */
import { isSummary, type Row, type TensorInfo } from "../api";
import { formatPlural } from "../app/format";
import { shortDtype, shortShape } from "./dtype";
import type { Extent, Lens, Shape, Value } from "./lens";

export const bboxLens: Lens = {
  brief: (tensor) => `${shortDtype(tensor.dtype)} ${shortShape(tensor.shape)}`,
  describe(value, tensor) {
    const boxes = readBoxes(value);
    return `${boxes.length} × 4, ${tensor.format ?? "xyxy"}`;
  },
  caption: (value) => formatPlural(readBoxes(value).length, "box"),
  shapes(value, tensor, row, tensors, picture) {
    const labels = findLabels(tensor, row, tensors);
    return readBoxes(value).map((box, i) => {
      const code = labels?.codes[i] ?? null;
      const label = code === null ? "" : (labels?.names[code] ?? String(code));
      return { ...placeBox(box, tensor.format ?? "xyxy", picture), code, label };
    });
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
export function placeBox(box: Box, format: string, picture: Extent): Omit<Shape, "code" | "label"> {
  const isRelative = format.endsWith("n") || format.startsWith("n") || format.includes("norm");
  const scaleX = isRelative ? picture.width : 1;
  const scaleY = isRelative ? picture.height : 1;
  const [a, b, c, d] = [box[0] * scaleX, box[1] * scaleY, box[2] * scaleX, box[3] * scaleY];
  if (format.includes("cxcywh")) return { x: a - c / 2, y: b - d / 2, width: c, height: d };
  if (format.includes("xywh") || format.includes("ltwh")) return { x: a, y: b, width: c, height: d };
  return { x: a, y: b, width: c - a, height: d - b };
}

/** The labels of these boxes: the tensor that says `per` them, else one list of the same length. */
function findLabels(
  boxes: TensorInfo,
  row: Row,
  tensors: TensorInfo[],
): { codes: number[]; names: string[] } | null {
  const candidates = tensors.filter((tensor) => tensor.kind === "class_label");
  const count = readBoxes(row[boxes.name] ?? null).length;
  const named = candidates.filter((tensor) => tensor.per === boxes.name);
  for (const tensor of named.length > 0 ? named : candidates) {
    const codes = row[tensor.name];
    if (Array.isArray(codes) && codes.length === count) {
      return { codes: codes as number[], names: tensor.names ?? [] };
    }
  }
  return null;
}
