import { expect, test } from "vitest";
import { moveEnd, readWindow, scaleOf } from "./window";

const own = { low: 5, high: 995, minimum: 0, maximum: 1000 };

test("black stays below white, by a step at least", () => {
  expect(moveEnd([10, 20], 0, 15, 1)).toEqual([15, 20]);
  expect(moveEnd([10, 20], 0, 500, 1)).toEqual([19, 20]);
  expect(moveEnd([10, 20], 1, -500, 1)).toEqual([10, 11]);
});

test("the scale has the image's values, and a window beyond them", () => {
  expect(scaleOf(own, [5, 995], "uint16")).toEqual({ least: 0, most: 1000, step: 1 });
  expect(scaleOf(own, [-200, 3000], "int16")).toEqual({ least: -200, most: 3000, step: 1 });
  expect(scaleOf({ low: 0, high: 1, minimum: 0, maximum: 1 }, [0, 1], "float32").step).toBe(0.001);
});

test("a window is read from its text", () => {
  expect(readWindow("-160,240.5")).toEqual([-160, 240.5]);
  expect(readWindow(null)).toBeNull();
});
