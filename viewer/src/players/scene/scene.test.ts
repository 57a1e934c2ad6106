import { expect, test } from "vitest";
import { axesOf, boundsOf, coreOf, moved, turned, wholeOf, zoomed, type Camera } from "./orbit";
import { rampColors, rangeOf } from "./ramp";
import { Raster } from "./raster";

const SIZE = { width: 9, height: 9 };
/** From above: x to the right, y up. */
const ABOVE: Camera = { azimuth: -Math.PI / 2, elevation: Math.PI / 2, target: [0, 0, 0], reach: 1 };
const red = 0xff0000ff;
const blue = 0xffff0000;
const text = (pixels: Uint32Array, width: number) =>
  Array.from({ length: pixels.length / width }, (_, y) => Array.from(pixels.slice(y * width, (y + 1) * width), (one) => (one === 0 ? "." : (one >>> 0) === red ? "r" : (one >>> 0) === blue ? "b" : "x")).join(""));

test("a camera sees a whole scene, turns, zooms and moves along the screen", () => {
  const bounds = boundsOf([0, 0, 0, 4, 2, 4]);
  const whole = wholeOf(bounds);
  expect(whole.target).toEqual([2, 1, 2]);
  expect(whole.reach).toBe(3);
  expect(zoomed(whole, 1).reach).toBeCloseTo(2.4);
  expect(turned(whole, 0, 9).elevation).toBe(Math.PI / 2);
  const { right, up, near } = axesOf(turned(whole, 0.7, 0.2));
  const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0);
  for (const [a, b] of [[right, up], [right, near], [up, near]] as const) expect(dot(a, b)).toBeCloseTo(0);
  for (const one of [right, up, near]) expect(dot(one, one)).toBeCloseTo(1);
  expect(moved(ABOVE, 1, 0.5).target.map((value) => Math.round(value * 10) / 10)).toEqual([1, 0.5, 0]);
  expect(wholeOf(boundsOf([])).reach).toBe(1);
});

test("neither an outlier nor NaN decides what is seen", () => {
  const xyz = Array.from({ length: 3000 }, (_, i) => i % 10);
  expect(boundsOf([...xyz, Number.NaN, -Infinity, Infinity])).toEqual({ low: [0, 0, 0], high: [9, 9, 9] });
  expect(wholeOf(coreOf([...xyz, 1e6, 1e6, 1e6])).reach).toBeLessThan(9);
  expect(boundsOf([Number.NaN, Number.NaN, Number.NaN])).toEqual({ low: [0, 0, 0], high: [0, 0, 0] });
});

test("the nearer of two points is seen, and points outside or NaN are not", () => {
  const scene = { xyz: [0, 0, -1, 0, 0, 1, 5, 0, 0, Number.NaN, 0, 0], faces: null, rgb: [255, 0, 0, 0, 0, 255, 255, 0, 0, 255, 0, 0] };

  expect(text(new Raster().draw(scene, ABOVE, SIZE, { side: 3 }), 9).filter((line) => line !== ".........")).toEqual(["...bbb...", "...bbb...", "...bbb..."]);
});

test("triangles are filled from either side, and hide what is behind them", () => {
  const square = [-0.5, -0.5, 0, 0.5, -0.5, 0, 0.5, 0.5, 0, -0.5, 0.5, 0];
  const behind = [-1, -1, -1, 1, -1, -1, 1, 1, -1];
  const scene = { xyz: [...square, ...behind], faces: [0, 2, 1, 0, 2, 3, 4, 5, 6], rgb: [...Array<number>(12).fill(200), ...Array<number>(9).fill(40)] };

  const pixels = new Raster().draw(scene, ABOVE, SIZE);

  expect(pixels[4 * 9 + 4]).toBe(pixels[3 * 9 + 3]); // both halves of the square
  expect(pixels[8 * 9 + 8]).not.toBe(0);
  expect(pixels[8 * 9 + 8]).not.toBe(pixels[4 * 9 + 4]);
  expect(pixels[0]).toBe(0);
});

test("a range leaves outliers out, and equal or missing values have a colour", () => {
  const values = [...Array.from({ length: 200 }, (_, i) => i), 1e9];
  const range = rangeOf(values.length, (i) => values[i] ?? 0);
  expect(range.high).toBeLessThan(200);
  expect([...rampColors(2, () => 7, { low: 7, high: 7 })]).toEqual([40, 60, 140, 40, 60, 140]);
  expect([...rampColors(1, () => Number.NaN, { low: 0, high: 1 })]).toEqual([40, 60, 140]);
  expect([...rampColors(1, () => 1, { low: 0, high: 1 })]).toEqual([230, 215, 80]);
});
