import { expect, test } from "vitest";
import { heatColor, heatMap, planeCount, planeOf, plotPath, rangeOf } from "./chart";

test("an array of many planes is looked at one by one", () => {
  const cube = { shape: [2, 3, 4], dtype: "f4", values: Array.from({ length: 24 }, (_, i) => i) };

  expect(planeCount(cube)).toBe(2);
  expect(planeOf(cube, 1)).toEqual({ width: 4, height: 3, values: [12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23] });
});

test("a heat map goes from dark to bright, and NaN is in no order", () => {
  const brightness = (part: number) => heatColor(part).reduce((sum, one, i) => sum + one * ([0.2, 0.7, 0.1][i] ?? 0), 0);
  const steps = Array.from({ length: 11 }, (_, i) => brightness(i / 10));
  const pixels = heatMap({ width: 3, height: 1, values: [5, Number.NaN, 9] });

  expect(steps).toEqual([...steps].sort((a, b) => a - b));
  expect(Array.from(pixels.slice(0, 3))).toEqual([...heatColor(0)]);
  expect(Array.from(pixels.slice(4, 7))).toEqual([...heatColor(Number.NaN)]);
  expect(Array.from(pixels.slice(8, 11))).toEqual([...heatColor(1)]);
});

test("a plot keeps the peaks of more numbers than it has columns", () => {
  const values = Array.from({ length: 10_000 }, (_, i) => (i === 7777 ? 100 : 0));

  expect(plotPath([0, 1, 0.5], 100, 10)).toBe("M0.0 10.0L50.0 0.0L100.0 5.0");
  expect(plotPath(values, 100, 10)).toContain(" 0.0");
  expect(rangeOf([Number.NaN, 3, -Infinity, 1])).toEqual({ low: 1, high: 3 });
});
