import { expect, test } from "vitest";
import { placeOf, sidesOf, stepped, voxelAt, type Triple } from "./planes";

const SHAPE: Triple = [10, 40, 20];

test("a plane is whole, and its voxels are as long as they are", () => {
  expect(placeOf(0, SHAPE, [5, 1, 1], { width: 100, height: 40 })).toEqual({ x: 40, y: 0, width: 20, height: 40 });
  expect(placeOf(1, SHAPE, [5, 1, 1], { width: 100, height: 100 })).toEqual({ x: 30, y: 0, width: 40, height: 100 });
  expect(sidesOf(2)).toEqual([0, 1]);
});

test("a place in one plane chooses the other two, and no voxel is outside", () => {
  expect(voxelAt(0, [3, 0, 0], SHAPE, 0.5, 0.25)).toEqual([3, 10, 10]);
  expect(voxelAt(2, [3, 9, 7], SHAPE, 1, 1)).toEqual([9, 39, 7]);
  expect(voxelAt(1, [3, 9, 7], SHAPE, -1, 2)).toEqual([9, 9, 0]);
  expect(stepped(0, [9, 1, 1], SHAPE, 1)).toEqual([9, 1, 1]);
  expect(stepped(1, [9, 1, 1], SHAPE, -5)).toEqual([9, 0, 1]);
});
