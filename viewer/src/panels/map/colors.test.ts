import { expect, test } from "vitest";
import { channelsOf, ClassPalette } from "../../classes/palette";
import { RowSet } from "../../state/rows/row-set";
import { colorPoints, fadeUnselected, rangeOf } from "./colors";

const palette = new ClassPalette([{ code: 0, name: "cat", count: 5, rows: 5 }, { code: 1, name: "dog", count: 9, rows: 9 }]);
const all = { classOf: (code: number) => code, palette, included: null };

test("points have the colours of their classes; NULLs and excluded rows are grey", () => {
  const colors = colorPoints([7, 8, 9], { ...all, values: [0, 1, -1], included: new RowSet([7, 9]) });

  expect(Array.from(colors.subarray(0, 4))).toEqual([...channelsOf(palette.color(0)), 255]);
  expect(Array.from(colors.subarray(4, 8))).toEqual([128, 136, 148, 90]);
  expect(Array.from(colors.subarray(8, 11))).toEqual([128, 136, 148]);
});

test("selected points stay, the others become faint, and all are as before once none is selected", () => {
  const rows = [7, 8, 9];
  const colors = colorPoints(rows, { ...all, values: null, included: new RowSet([7, 8]) });
  const faded = new Uint8Array(colors.length);

  fadeUnselected(colors, rows, new RowSet([8]), faded);
  expect([faded[3], faded[7], faded[11]]).toEqual([90, 255, 90]);
  expect(Array.from(faded.subarray(0, 3))).toEqual(Array.from(colors.subarray(0, 3)));
  fadeUnselected(colors, rows, new RowSet(), faded);
  expect(faded).toEqual(colors);
});

test("numbers have a ramp over their finite values", () => {
  const colors = colorPoints([0, 1, 2], { ...all, classOf: null, values: [2, 6, NaN] });

  expect(rangeOf([2, 6, NaN, Infinity])).toEqual([2, 6]);
  expect(rangeOf([NaN])).toBeNull();
  expect(Array.from(colors)).toEqual([68, 84, 160, 255, 250, 216, 60, 255, 128, 136, 148, 255]);
});
