import { expect, test } from "vitest";
import type { Shape } from "../lenses";
import { iou, matchShapes, labelMatches } from "./matching";

const box = (x: number, isPredicted: boolean, more: Partial<Shape> = {}): Shape => ({
  x,
  y: 0,
  width: 10,
  height: 10,
  path: { kind: "box" },
  code: 0,
  label: "cat",
  score: isPredicted ? 0.5 : null,
  isPredicted,
  ...more,
});

test("the overlap of two boxes is that of their areas", () => {
  expect(iou(box(0, false), box(5, true))).toBeCloseTo(5 / 15);
  expect(iou(box(0, false), box(10, true))).toBe(0);
});

test("the surest prediction takes the box, the other one is extra", () => {
  const truth = box(0, false);
  const [sure, unsure] = [box(2, true, { score: 0.9 }), box(0, true, { score: 0.3 })];

  const matching = matchShapes([truth, unsure, sure]);

  expect(matching.matched.map(({ guess }) => guess)).toEqual([sure]);
  expect(matching.extra).toEqual([unsure]);
  expect(matching.missed).toEqual([]);
});

test("a box of another class is no match", () => {
  const truth = box(0, false);
  const matching = matchShapes([truth, box(0, true, { code: 1, label: "dog" })]);

  expect(matching.missed).toEqual([truth]);
  expect(matching.extra).toHaveLength(1);
});

test("every shape says what became of it", () => {
  const shapes = [box(0, false), box(50, false), box(0, true), box(90, true)];

  expect(labelMatches(shapes, matchShapes(shapes)).map((shape) => shape.label)).toEqual([
    "cat",
    "cat · missed",
    "cat · IoU 1.00",
    "cat · extra",
  ]);
});
