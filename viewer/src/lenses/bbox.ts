/** Bounding boxes: drawn over their image in the colour of their class. */
import type { Bounds, Extent, Point } from "../canvas/geometry";
import { isSummary, type CellValue } from "../api/client";
import { formatPlural } from "../format";
import { findLabels, findScores, isPredicted } from "./belonging";
import { shortDtype, shortShape } from "./dtype";
import { clampMove, clampPoint, roundPoint, SIDES } from "./handles";
import type { Gesture, Lens, Value } from "./lens";

const LEAST = 1; // pixels of a side that had none

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
      ...mendBox(box, tensor.format ?? "xyxy", context.image),
      damage: damageOf(box, tensor.format ?? "xyxy", context.image),
      path: { kind: "box" },
      code: labels?.code(i) ?? null,
      label: labels?.name(i) ?? "",
      score: scores?.[i] ?? null,
      isPredicted: isPredicted(tensor),
    }));
  },
  edit(value, gesture, tensor, image) {
    const boxes = readBoxes(value);
    if (Array.isArray(value) && boxes.length !== value.length) return undefined; // some are no boxes at all
    if (gesture.kind === "remove") return plain(boxes.toSpliced(gesture.object, 1));
    const format = tensor.format ?? "xyxy";
    if (gesture.kind === "add") {
      const [from, to] = gesture.points.map((point) => roundPoint(clampPoint(point, image)));
      return from === undefined || to === undefined ? undefined : plain([...boxes, storeBox(spanOf(from, to), format, image)]);
    }
    const box = boxes[gesture.object];
    const changed = box === undefined ? undefined : changeBox(box, gesture, format, image);
    return changed === undefined ? undefined : plain(boxes.with(gesture.object, changed));
  },
};

/** As JSON has them: it lacks NaN and infinity, for which the API has texts. */
function plain(boxes: readonly Box[]): CellValue {
  return boxes.map((box) => box.map((edge) => (Number.isFinite(edge) ? edge : String(edge))));
}

type Box = [number, number, number, number];

/** A tensor holds one box (4,) or many (n, 4). */
function readBoxes(value: Value): Box[] {
  if (isSummary(value)) return [];
  if (!Array.isArray(value)) return [];
  const isOne = value.length === 4 && !Array.isArray(value[0]);
  return (isOne ? [value] : value).map(readBox).filter((box) => box !== null);
}

function readBox(value: unknown): Box | null {
  if (!Array.isArray(value) || value.length !== 4) return null;
  const edges = value.map((edge) => (typeof edge === "number" || NOT_JSON.has(edge as string) ? Number(edge) : null));
  return edges.includes(null) ? null : (edges as Box);
}

const NOT_JSON: ReadonlySet<string> = new Set(["NaN", "Infinity", "-Infinity"]);

/** What is wrong with a box; "" for nothing. */
function damageOf(box: Box, format: string, image: Extent): string {
  const { width, height } = placeBox(box, format, image);
  if (!box.every(Number.isFinite)) return `not all numbers: ${box.join(", ")}`;
  return width < 0 || height < 0 ? "reversed" : width === 0 || height === 0 ? "no area" : "";
}

/** Where a damaged box is held: its edges in their order, and the image's for those that are no numbers. */
function mendBox(box: Box, format: string, image: Extent): Bounds {
  const { x, y, width, height } = placeBox(box, format, image);
  if ([x, y, width, height].every(Number.isFinite) && width >= 0 && height >= 0) return { x, y, width, height };
  const far = format === "xyxy" ? [box[2], box[3]] : [x + width, y + height];
  const edge = (at = NaN, room: number, otherwise: number) => (Number.isNaN(at) ? otherwise : Number.isFinite(at) ? at : at < 0 ? 0 : room);
  return spanOf([edge(x, image.width, 0), edge(y, image.height, 0)], [edge(far[0], image.width, image.width), edge(far[1], image.height, image.height)]);
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

/** The numbers of a rectangle in the stored order. */
function storeBox({ x, y, width, height }: Bounds, format: string, image: Extent): Box {
  const isRelative = format.endsWith("n") || format.startsWith("n") || format.includes("norm");
  const [scaleX, scaleY] = isRelative ? [image.width, image.height] : [1, 1];
  const [left, top, across, down] = [x / scaleX, y / scaleY, width / scaleX, height / scaleY];
  if (format.includes("cxcywh")) return [left + across / 2, top + down / 2, across, down];
  if (format.includes("xywh") || format.includes("ltwh")) return [left, top, across, down];
  return [left, top, (x + width) / scaleX, (y + height) / scaleY];
}

function changeBox(box: Box, gesture: Gesture, format: string, image: Extent): Box | undefined {
  const stored = placeBox(box, format, image);
  const placed = mendBox(box, format, image);
  const isDamaged = !Object.is(stored.width, placed.width) || !Object.is(stored.height, placed.height);
  if (gesture.kind === "mend") {
    const [width, height] = [Math.max(LEAST, placed.width), Math.max(LEAST, placed.height)];
    return storeBox({ x: Math.min(placed.x, Math.max(0, image.width - width)), y: Math.min(placed.y, Math.max(0, image.height - height)), width, height }, format, image);
  }
  if (gesture.kind === "move") {
    const [x, y] = roundPoint(clampMove(gesture.by, placed, image));
    const moved = storeBox({ ...placed, x: placed.x + x, y: placed.y + y }, format, image);
    return format === "xyxy" || isDamaged ? moved : [moved[0], moved[1], box[2], box[3]]; // its size stays to the last bit
  }
  if (gesture.kind !== "drag") return undefined;
  const [across, down] = SIDES[gesture.handle] ?? [0, 0];
  const [x, y] = roundPoint(clampPoint(gesture.to, image));
  const opposite = ([side, start, length]: [number, number, number]) => (side < 0 ? start + length : start);
  const [fixedX, fixedY] = [opposite([across, placed.x, placed.width]), opposite([down, placed.y, placed.height])];
  const span = spanOf([fixedX, fixedY], [across === 0 ? placed.x + placed.width : x, down === 0 ? placed.y + placed.height : y]);
  const isFlatter = (span.width === 0 && placed.width > 0) || (span.height === 0 && placed.height > 0);
  return isFlatter ? undefined : storeBox(span, format, image); // one without an area may get a side first
}

function spanOf([a, b]: Point, [c, d]: Point): Bounds {
  return { x: Math.min(a, c), y: Math.min(b, d), width: Math.abs(c - a), height: Math.abs(d - b) };
}
