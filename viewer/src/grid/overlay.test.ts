import { expect, test } from "vitest";
import type { Row, TensorInfo } from "../api";
import type { Shape } from "../lenses";
import { collectShapes, containFit, coverFit, placeLabels, placeShape } from "./overlay";

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
const row: Row = { _row: 0, _row_id: null, boxes: [[10, 20, 30, 40], [0, 0, 5, 5]], labels: [1, 0] };
const tensors = [image, boxes, labels];
const picture = { tensor: image, extent: { width: 100, height: 100 } };
const nothing = { tensors: new Set<string>(), codes: new Set<number>() };

test("boxes take their class from the labels that are per box", () => {
  const shapes = collectShapes(row, tensors, picture, nothing);

  expect(shapes.map((shape) => [shape.label, shape.x, shape.y, shape.width, shape.height])).toEqual([
    ["dog", 10, 20, 30, 40],
    ["cat", 0, 0, 5, 5],
  ]);
});

test("a hidden class has no boxes, a hidden tensor none at all", () => {
  expect(collectShapes(row, tensors, picture, { ...nothing, codes: new Set([1]) }).map((shape) => shape.label)).toEqual(["cat"]);
  expect(collectShapes(row, tensors, picture, { ...nothing, tensors: new Set(["boxes"]) })).toEqual([]);
});

test("boxes of another picture are not drawn here", () => {
  const other = { ...picture, tensor: tensor("depth", "image", { picture: true }) };

  expect(collectShapes(row, tensors, other, nothing)).toEqual([]);
});

test("a covering picture is cut evenly and its boxes with it", () => {
  const fit = coverFit({ width: 480, height: 640 }, { width: 200, height: 150 });
  const place = placeShape({ x: 0, y: 0, width: 480, height: 640, code: null, label: "" }, fit);

  expect(place.x).toBeCloseTo(0);
  expect(place.width).toBeCloseTo(200);
  expect(place.y).toBeCloseTo(-(place.height - 150) / 2);
});

test("a small picture is shown whole", () => {
  const fit = containFit({ width: 28, height: 28 }, { width: 200, height: 150 });

  expect(28 * fit.scale).toBe(150);
  expect(fit.x).toBe(25);
});

test("labels never cover each other, and stay inside the picture", () => {
  const box = (x: number, size: number, label: string): Shape => ({ x, y: 50, width: size, height: size, code: 0, label });
  const shapes = [box(10, 5, "small"), box(12, 40, "large"), box(95, 20, "edge")];
  const placed = placeLabels(shapes, { scale: 1, x: 0, y: 0 }, 100, (label) => label.length * 6);

  expect(placed.map(({ shape }) => shape.label)).toEqual(["large", "edge"]);
  expect(placed.every(({ place }) => place.x + place.width <= 100)).toBe(true);
});
