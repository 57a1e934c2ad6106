import { expect, test } from "vitest";
import { channelsOf, ClassPalette } from "../../classes/palette";
import { colorPoints, rangeOf } from "./colors";

const palette = new ClassPalette([{ code: 0, name: "cat", count: 5, rows: 5 }, { code: 1, name: "dog", count: 9, rows: 9 }]);
const all = { classOf: (code: number) => code, palette, included: null, selected: new Set<number>() };

test("points have the colours of their classes; NULLs and excluded rows are grey", () => {
  const colors = colorPoints([7, 8, 9], { ...all, values: [0, 1, -1], included: new Set([7, 9]) });

  expect(Array.from(colors.subarray(0, 4))).toEqual([...channelsOf(palette.color(0)), 255]);
  expect(Array.from(colors.subarray(4, 8))).toEqual([128, 136, 148, 90]);
  expect(Array.from(colors.subarray(8, 11))).toEqual([128, 136, 148]);
});

test("selected points stay, the others become faint", () => {
  const colors = colorPoints([7, 8], { ...all, values: null, selected: new Set([8]) });

  expect([colors[3], colors[7]]).toEqual([90, 255]);
});

test("numbers have a ramp over their finite values", () => {
  const colors = colorPoints([0, 1, 2], { ...all, classOf: null, values: [2, 6, NaN] });

  expect(rangeOf([2, 6, NaN, Infinity])).toEqual([2, 6]);
  expect(rangeOf([NaN])).toBeNull();
  expect(Array.from(colors)).toEqual([68, 84, 160, 255, 250, 216, 60, 255, 128, 136, 148, 255]);
});
