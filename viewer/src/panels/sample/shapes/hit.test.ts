import { expect, test } from "vitest";
import type { Shape } from "../../../lenses";
import { handleAt, shapeAt, sideAt } from "./hit";

const look = { code: null, label: "", score: null, isPredicted: false };
const box = (x: number, y: number, width: number, height: number): Shape => ({ x, y, width, height, path: { kind: "box" }, ...look });
const corner: Shape = { ...box(0, 0, 40, 40), path: { kind: "outline", points: [[0, 0], [40, 0], [0, 40]] } };

test("the smallest object at a point is taken, so that a large one hides none", () => {
  const shapes = [box(0, 0, 100, 100), box(10, 10, 20, 20), box(12, 12, 50, 50)];

  expect([[5, 5], [15, 15], [50, 50], [200, 5]].map(([x = 0, y = 0]) => shapeAt(shapes, [x, y], 2))).toEqual([0, 1, 2, null]);
});

test("a polygon is taken inside and at its sides, not in the rest of its bounds", () => {
  expect(shapeAt([corner], [10, 10], 1)).toBe(0);
  expect(shapeAt([corner], [20.5, 20.5], 1)).toBe(0);
  expect(shapeAt([corner], [35, 35], 1)).toBeNull();
  expect(sideAt([[0, 0], [40, 0], [0, 40]], [20, 20], 1)).toBe(1);
});

test("the nearest handle within reach is taken", () => {
  expect(handleAt(box(10, 10, 20, 20), [29, 31], 3)).toBe(4);
  expect(handleAt(box(10, 10, 20, 20), [20, 20], 3)).toBeNull();
});
