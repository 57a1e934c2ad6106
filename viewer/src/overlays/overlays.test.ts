import { expect, test, vi } from "vitest";
import type { Row, TensorInfo } from "../api/client";
import type { Pixel, Shape } from "../lenses";
import { ClassTable } from "../classes/class-table";
import { channelsOf, ClassPalette, COLORS } from "../classes/palette";
import { collectShapes, layerOf, maskTensors, type OverlayStyle } from "./layers";
import { setBoxes } from "./box-raster";
import { clockwise, drawShapes } from "./draw";
import { containFit, placeBounds } from "../canvas/geometry";
import { labelText, placeLabels } from "./labels";
import { batchesOf } from "./batches";
import { colorCodes, readCodes } from "./masks";

const tensor = (name: string, kind: string, more: Partial<TensorInfo> = {}): TensorInfo => ({
  name,
  kind,
  type: kind,
  dtype: null,
  shape: null,
  nullable: false,
  media_type: null,
  picture: false,
  ...more,
});
const image = tensor("image", "image", { picture: true });
const boxes = tensor("boxes", "bbox", { of: "image", format: "xywh" });
const labels = tensor("labels", "class_label", { per: "boxes", names: ["cat", "dog"], shape: [null] });
const guesses = tensor("pred_boxes", "bbox", { of: "image", format: "xyxy" });
const scores = tensor("pred_scores", "array", { shape: [null] });
const road = tensor("road", "segment_mask", { of: "image", names: ["background", "dog", "road"] });
const objects = tensor("objects", "instance_mask", { of: "image" });
const outlines = tensor("outlines", "polygon", { of: "image" });
const joints = tensor("joints", "keypoints", { of: "image", names: ["a", "b", "c"], skeleton: [[0, 1], [1, 2]] });
const tensors = [image, boxes, labels, guesses, scores, road, objects, outlines, joints];
const row: Row = {
  _row: 0,
  _row_id: null,
  boxes: [[10, 20, 30, 40], [0, 0, 5, 5]],
  labels: [1, 0],
  pred_boxes: [[10, 20, 40, 60]],
  pred_scores: [0.934],
  outlines: [[[1, 2], [5, 2], [5, 9]]],
  joints: [[[10, 10, 2], [20, 30, 1], [0, 0, 0]]],
};
const base = { tensor: image, extent: { width: 100, height: 100 } };
const style = (more: Partial<OverlayStyle> = {}): OverlayStyle => ({
  hiddenTensors: new Set(),
  hiddenCodes: new Set(),
  classes: new ClassTable(tensors),
  palette: { color: (code) => COLORS[code ?? 0] ?? COLORS[0], pattern: () => "plain" },
  opacity: 0.5,
  ...more,
});
const only = (one: TensorInfo, more: Partial<OverlayStyle> = {}) =>
  collectShapes(row, tensors, base, style({ hiddenTensors: new Set(tensors.filter((t) => t !== one).map((t) => t.name)), ...more }));

test("boxes take their class from the labels that are per box", () => {
  expect(only(boxes).map((shape) => [shape.label, shape.x, shape.y, shape.width, shape.height])).toEqual([
    ["dog", 10, 20, 30, 40],
    ["cat", 0, 0, 5, 5],
  ]);
});

test("a hidden class has no boxes, a hidden tensor none at all", () => {
  expect(only(boxes, { hiddenCodes: new Set([1]) }).map((shape) => shape.label)).toEqual(["cat"]);
  expect(only(image)).toEqual([]);
});

test("boxes of another image are not drawn here", () => {
  const other = { ...base, tensor: tensor("depth", "image", { picture: true }) };

  expect(collectShapes(row, tensors, other, style())).toEqual([]);
});

test("what a model says has its score, and is told from what is true", () => {
  const [guess] = only(guesses);

  expect([guess?.isPredicted, guess?.score, guess === undefined ? "" : labelText(guess)]).toEqual([true, 0.934, "0.93"]);
  expect(only(boxes).every((shape) => !shape.isPredicted && shape.score === null)).toBe(true);
});

test("an outline keeps its points and knows its bounds", () => {
  const [outline] = only(outlines);

  expect(outline?.path).toEqual({ kind: "outline", points: [[1, 2], [5, 2], [5, 9]] });
  expect([outline?.x, outline?.y, outline?.width, outline?.height]).toEqual([1, 2, 4, 7]);
});

test("outlines of either direction turn the same way", () => {
  const points = [[0, 0], [4, 0], [4, 3]] as const;

  expect(clockwise(points)).toEqual(points);
  expect(clockwise([...points].reverse())).toEqual(points);
});

test("joints that were not labelled are not drawn, hidden ones are hollow", () => {
  const [person] = only(joints);
  const path = person?.path;

  expect(path?.kind === "skeleton" && path.joints.map((joint) => [joint.isShown, joint.isSeen])).toEqual([
    [true, true],
    [true, false],
    [false, false],
  ]);
  expect([person?.x, person?.y, person?.width, person?.height]).toEqual([10, 10, 10, 20]); // without (0, 0)
});

test("a class has one number, whichever tensor names it", () => {
  const classes = new ClassTable(tensors);

  expect(classes.codeOf(labels, 1)).toBe(1); // dog
  expect(classes.codeOf(road, 1)).toBe(1); // dog too
  expect(classes.nameOf(classes.codeOf(road, 2))).toBe("road");
  expect(classes.codeOf(road, 77)).toBe(77);
});

test("masks lie over their image until they are hidden", () => {
  expect(maskTensors(tensors, image, style()).map((one) => one.name)).toEqual(["road", "objects"]);
  expect(maskTensors(tensors, image, style({ hiddenTensors: new Set(["road"]) })).map((one) => one.name)).toEqual(["objects"]);
  expect(maskTensors(tensors, null, style())).toEqual([]);
});

test("background and ignored pixels mean nothing, a hidden class neither", () => {
  const shown = layerOf(road, row, tensors, style());
  const without = layerOf(road, row, tensors, style({ hiddenCodes: new Set([1]) }));

  expect([0, 1, 2, 0xffff].map((code) => shown.pixel(code)?.code ?? null)).toEqual([null, 1, 3, null]);
  expect(without.pixel(1)).toBeNull();
});

test("objects without labels have a colour each, which no count of classes changes", () => {
  const { pixel } = layerOf(objects, row, tensors, style());
  const counts = [3, 2, 1, 0].map((code) => ({ code, name: `class ${code}`, count: 10 + code, rows: 1 }));
  const [before, after] = [new ClassPalette([]), new ClassPalette(counts)];
  const colored = (palette: ClassPalette) => [1, 2].map((code) => pixel(code)).map((one) => palette.color(one?.code ?? null, one?.object ?? 0));

  expect(pixel(0)).toBeNull();
  expect(new Set(colored(before)).size).toBe(2);
  expect(colored(after)).toEqual(colored(before));
});

test("what is per box has the labels of the boxes; what only has as many objects has none", () => {
  const both: Row = { ...row, objects: { $summary: "media", shape: [2, 9, 9] }, pred_boxes: [[0, 0, 1, 1], [2, 2, 3, 3]] };
  const { pixel } = layerOf({ ...objects, per: "boxes" }, both, tensors, style());
  const beside = layerOf(objects, both, tensors, style());
  const guessed = collectShapes(both, [boxes, labels, guesses], base, style({ hiddenTensors: new Set(["boxes"]) }));
  const free = collectShapes(both, [boxes, { ...labels, per: null }], base, style());

  expect([1, 2].map((code) => pixel(code)?.code)).toEqual([1, 0]); // dog, cat
  expect([1, 2].map((code) => beside.pixel(code)?.code)).toEqual([null, null]);
  expect([...guessed, ...free].map((shape) => shape.label)).toEqual(["", "", "", ""]);
});

/** The truth, drawn in the plainest way: pixel by pixel, each asked for its four neighbours. */
function drawn(mask: number[][], rgb: (code: number) => number[] | null, opacity: number): number[] {
  return mask.flatMap((line, y) =>
    line.flatMap((code, x) => {
      const color = rgb(code);
      if (color === null) return [0, 0, 0, 0];
      const around = [mask[y - 1]?.[x], mask[y + 1]?.[x], line[x - 1], line[x + 1]].filter((one) => one !== undefined);
      const isEdge = around.some((one) => one !== code);
      return [...color, Math.round(255 * (isEdge ? (1 + opacity) / 2 : opacity))];
    }),
  );
}

test("masks are coloured as a plain drawing of them is", () => {
  const width = 37;
  const mask = Array.from({ length: 23 }, (_, y) => Array.from({ length: width }, (_, x) => ((x * y) >> 5) % 5));
  const pixel = (code: number): Pixel | null => (code === 0 ? null : { code, object: 0 });
  const rgb = (code: number) => (code === 0 ? null : channelsOf(COLORS[code] ?? COLORS[0]));

  const colors = colorCodes(Uint16Array.from(mask.flat()), width, pixel, ({ code }) => ({ color: COLORS[code ?? 0] ?? COLORS[0], pattern: "plain" }), 0.4);

  expect([...colors]).toEqual(drawn(mask, rgb, 0.4));
});

test("between the figures of a pattern a mask is fainter, and its edge is whole", () => {
  const look = () => ({ color: COLORS[0], pattern: "hatched" as const });
  const alphas = [...colorCodes(new Uint16Array(64).fill(1), 8, (code) => ({ code, object: 0 }), look, 0.4)].filter((_, i) => i % 4 === 3);

  expect(alphas.slice(0, 8)).toEqual([102, 102, 102, 102, 31, 31, 31, 31]);
  expect(alphas.slice(8, 16)).toEqual([102, 102, 102, 31, 31, 31, 31, 102]);
});

test("a pixel's code is read from its red and green", () => {
  expect([...readCodes(Uint8ClampedArray.from([5, 0, 0, 255, 44, 1, 0, 255, 255, 255, 0, 255]))]).toEqual([5, 300, 65535]);
});

test("an image of any shape is shown whole, and each of its boxes with it", () => {
  for (const extent of [{ width: 480, height: 640 }, { width: 640, height: 64 }, { width: 3, height: 12_000 }, { width: 1, height: 1 }]) {
    const place = placeBounds({ x: 0, y: 0, ...extent }, containFit(extent, { width: 200, height: 150 }));

    expect(Math.min(place.x, place.y)).toBeGreaterThanOrEqual(-1e-9);
    expect(place.x + place.width).toBeLessThanOrEqual(200 + 1e-9);
    expect(place.y + place.height).toBeLessThanOrEqual(150 + 1e-9);
  }
});

test("a small image is shown whole", () => {
  const fit = containFit({ width: 28, height: 28 }, { width: 200, height: 150 });

  expect(28 * fit.scale).toBe(150);
  expect(fit.x).toBe(25);
});

test("labels never cover each other, and stay inside the image", () => {
  const box = (x: number, size: number, label: string): Shape => ({
    x,
    y: 50,
    width: size,
    height: size,
    path: { kind: "box" },
    code: 0,
    label,
    score: null,
    isPredicted: false,
  });
  const shapes = [box(10, 5, "small"), box(12, 40, "large"), box(95, 20, "edge")];
  const placed = placeLabels(shapes, { scale: 1, x: 0, y: 0 }, { width: 100, height: 100 }, (text) => text.length * 6);

  expect(placed.map(({ text }) => text)).toEqual(["large", "edge"]);
  expect(placed.every(({ place }) => place.x + place.width <= 100)).toBe(true);
});

/** What is asked of a canvas to draw these boxes of 10 × 10 pixels on 100 × 100. */
function asked(corners: [number, number][]): string[] {
  const calls: string[] = [];
  const record = (_: object, name: string | symbol) => (...given: unknown[]) => calls.push(`${String(name)} ${given.join(" ")}`);
  const context = new Proxy({}, { get: record, set: () => true }) as CanvasRenderingContext2D;
  vi.stubGlobal("Path2D", vi.fn());
  const shapes = corners.map(([x, y]): Shape => ({
    x, y, width: 10, height: 10, path: { kind: "box" }, code: 0, label: "", score: null, isPredicted: false,
  }));
  const view = { area: { width: 100, height: 100 }, hasLabels: false };
  drawShapes(context, shapes, { scale: 1, x: 0, y: 0 }, style(), view);
  return calls.filter((call) => call.includes("Rect"));
}

test("boxes out of sight are not drawn, those that reach into it are", () => {
  const calls = asked([[-11, 50], [-9, 50], [50, 101], [101, 50], [95, 95]]);

  expect(calls).toEqual(["fillRect -9 50 10 10", "fillRect 95 95 10 10", "strokeRect -9 50 10 10", "strokeRect 95 95 10 10"]);
});

/** The truth, in the plainest way: a pixel is of the last box that has it on its edge. */
function edges(boxes: [number, number, number, number][], side: number): number[] {
  return Array.from({ length: side * side }, (_, i) => {
    const [column, line] = [i % side, Math.floor(i / side)];
    return boxes.reduce((found, [x, y, width, height], box) => {
      const isWithin = column >= x && column <= x + width && line >= y && line <= y + height;
      const isEdge = column === x || column === x + width || line === y || line === y + height;
      return isWithin && isEdge ? box + 1 : found;
    }, 0);
  });
}

const NAMES = ["", "#010000", "#020000", "#030000", "#040000", "#050000"];

test("a crowd has the edges of its boxes and nothing else, cut where the area ends", () => {
  const boxes: [number, number, number, number][] = [[2, 3, 10, 5], [-4, 5, 9, 30], [0, 0, 29, 29], [20, 20, 40, 4], [8, 4, 0, 0]];
  const batches = boxes.map((box, i) => ({ color: NAMES[i + 1] ?? "", pattern: "plain" as const, isDashed: false, isFaint: false, boxes: Float64Array.from(box), others: [] }));
  const pixels = new Uint32Array(30 * 30);

  setBoxes(pixels, { width: 30, height: 30 }, batches, { scale: 1, x: 0, y: 0 }, 1);

  expect([...new Uint8Array(pixels.buffer)].filter((_, i) => i % 4 === 0)).toEqual(edges(boxes, 30));
});

test("what a model says is dashed in a crowd too", () => {
  const pixels = new Uint32Array(40 * 4);
  const look = { color: "#010000", pattern: "plain" as const, isDashed: true, isFaint: false, boxes: Float64Array.of(0, 1, 39, 0), others: [] };

  setBoxes(pixels, { width: 40, height: 4 }, [look], { scale: 1, x: 0, y: 0 }, 1);

  expect([...pixels.subarray(40, 60)].map((word) => (word === 0 ? " " : "-")).join("")).toBe("------    ------    ");
});

test("what is sorted by look is kept while shapes and colours are the same", () => {
  const shapes = collectShapes(row, tensors, base, style());
  const { palette } = style();
  const batches = batchesOf(shapes, palette);

  expect(batchesOf(shapes, palette)).toBe(batches);
  expect(batchesOf(shapes, { color: () => COLORS[3], pattern: () => "plain" })).toHaveLength(2); // true, and what a model says
  expect(batches.reduce((sum, look) => sum + look.boxes.length / 4 + look.others.length, 0)).toBe(shapes.length);
});
