import { expect, test } from "vitest";
import { RowSet } from "../../state/rows/row-set";
import { BLOCK, boundBlocks, findInside, fitSquare, nearest, SIDE, type Points } from "./points";

function pointsOf(xy: Float32Array): Points {
  return { count: xy.length / 2, xy, rows: Array.from({ length: xy.length / 2 }, (_, i) => i), values: null, blocks: boundBlocks(xy), projected: 0 };
}

function pointsInside(points: Points, outline: number[], included: RowSet | null = null): number[] {
  const found = new RowSet();
  const parts = findInside(points, outline, included, found);
  while (parts.next().done !== true);
  return [...found];
}

/** A square lattice, line by line. */
function lattice(side: number): Points {
  return pointsOf(Float32Array.from({ length: 2 * side * side }, (_, i) => (i % 2 === 0 ? (i / 2) % side : Math.floor((i - 1) / 2 / side))));
}

test("coordinates fill the square with one scale, y upwards", () => {
  expect(Array.from(fitSquare([0, 0, 4, 2]), Math.round)).toEqual([20, 740, 980, 260]);
  expect(Array.from(fitSquare([7, 7]))).toEqual([SIDE / 2, SIDE / 2]);
  expect(fitSquare([]).length).toBe(0);
});

test("a lasso finds the points inside of it, in every block", () => {
  const points = lattice(100);
  expect(points.blocks.length).toBe(4 * Math.ceil(10_000 / BLOCK));

  const inSquare = pointsInside(points, [9.5, 9.5, 29.5, 9.5, 29.5, 89.5, 9.5, 89.5]);
  expect(inSquare.length).toBe(20 * 80);
  const inNotch = pointsInside(points, [9.5, 9.5, 29.5, 9.5, 19.5, 50.2, 29.5, 89.5, 9.5, 89.5]); // concave
  expect(inNotch).toContain(20 * 100 + 12);
  expect(inNotch).not.toContain(50 * 100 + 25);
  expect(pointsInside(points, [200, 200, 300, 200, 250, 300])).toEqual([]);
  expect(pointsInside(points, [9.5, 9.5, 29.5, 9.5, 29.5, 89.5, 9.5, 89.5], new RowSet([0, 1010, 1011]))).toEqual([1010, 1011]);
});

test("the lasso agrees with a test of every point alone", () => {
  const xy = Float32Array.from({ length: 4000 }, (_, i) => (Math.sin(i * 12.9898) * 43758.5453) % 500);
  const points = pointsOf(xy);
  const outline = Array.from({ length: 60 }, (_, i) => (i % 2 === 0 ? Math.cos(i / 8) : Math.sin((i - 1) / 8)) * (100 + 37 * (i % 5)));
  const crossings = (x: number, y: number) =>
    outline.reduce((sum, _, i) => {
      if (i % 2 === 1) return sum;
      const [ax = 0, ay = 0] = [outline[i], outline[i + 1]];
      const [bx = 0, by = 0] = [outline[(i + 2) % 60], outline[(i + 3) % 60]];
      return sum + Number(ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax);
    }, 0);

  const expected = Array.from({ length: points.count }, (_, i) => i).filter((i) => crossings(xy[2 * i] ?? 0, xy[2 * i + 1] ?? 0) % 2 === 1);
  expect(pointsInside(points, outline)).toEqual(expected);
  expect(expected.length).toBeGreaterThan(20);
});

test("the closest point within reach is found", () => {
  const points = lattice(100);

  expect(nearest(points, 41.2, 7.1, 1)).toBe(7 * 100 + 41);
  expect(nearest(points, 41.5, 7.5, 0.2)).toBeNull();
});
