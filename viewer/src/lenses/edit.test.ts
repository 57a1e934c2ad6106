import { expect, test } from "vitest";
import type { TensorInfo } from "../api/client";
import type { Gesture } from "./lens";
import { lensOf } from "./index";

const image = { width: 160, height: 120 };

function tensor(kind: string, format?: string): TensorInfo {
  return { name: kind, kind, type: kind, dtype: kind === "polygon" ? null : "float32", shape: [null, 4], nullable: true, media_type: "", picture: false, names: null, of: "image", per: null, format: format ?? null, skeleton: null };
}

function edit(kind: string, value: unknown, gesture: Gesture, format?: string): unknown {
  const one = tensor(kind, format);
  return lensOf(one).edit?.(value as never, gesture, one, image);
}

const STORED = { xyxy: [20, 30, 80, 70], xywh: [20, 30, 60, 40], cxcywh: [50, 50, 60, 40], cxcywhn: [50 / 160, 50 / 120, 60 / 160, 40 / 120] };

test.each(Object.entries(STORED))("a box is drawn, moved and resized in the numbers of %s", (format, box) => {
  const other = [1.5, 2.25, 3.125, 4.0625];
  const close = (edges: number[]) => expect.arrayContaining(edges.map((edge) => expect.closeTo(edge, 9) as number)) as unknown;
  const after = (gesture: Gesture) => edit("bbox", [other, box], gesture, format) as number[][];
  const stored = (x: number, y: number, width: number, height: number) => (edit("bbox", [], { kind: "add", points: [[x + width, y], [x, y + height]] }, format) as number[][])[0] ?? [];

  expect(stored(20, 30, 60, 40)).toEqual(close(box));
  expect(after({ kind: "move", object: 1, by: [10, -5] })).toEqual([other, close(stored(30, 25, 60, 40))]);
  expect(after({ kind: "drag", object: 1, handle: 4, to: [100, 100] })).toEqual([other, close(stored(20, 30, 80, 70))]);
  expect(after({ kind: "drag", object: 1, handle: 0, to: [10, 10] })).toEqual([other, close(stored(10, 10, 70, 60))]);
  expect(after({ kind: "drag", object: 1, handle: 3, to: [10, 999] })).toEqual([other, close(stored(10, 30, 10, 40))]); // its sides change places
  expect(after({ kind: "remove", object: 0 })).toEqual([box]);
});

test("a box stays inside the image, and one that was outside may come back", () => {
  expect(edit("bbox", [[20, 30, 60, 40]], { kind: "move", object: 0, by: [500, 500] }, "xywh")).toEqual([[100, 80, 60, 40]]);
  expect(edit("bbox", [[-20, 30, 60, 40]], { kind: "move", object: 0, by: [30, 0] }, "xywh")).toEqual([[10, 30, 60, 40]]);
  expect(edit("bbox", null, { kind: "add", points: [[-5, -5], [999, 999]] }, "xyxy")).toEqual([[0, 0, 160, 120]]);
});

test("damaged boxes go, move and are mended; the others keep their numbers", () => {
  const value = [[100, 90, 20, 10], ["NaN", 0, 10, "-Infinity"], [0, 0, 0, 0]];
  const mended = (object: number) => edit("bbox", value, { kind: "mend", object }, "xyxy") as number[][];

  expect(edit("bbox", value, { kind: "remove", object: 0 }, "xyxy")).toEqual(value.slice(1));
  expect(mended(0)).toEqual([[20, 10, 100, 90], ...value.slice(1)]);
  expect(mended(1)[1]).toEqual([0, 0, 10, 1]);
  expect(mended(2)[2]).toEqual([0, 0, 1, 1]);
  expect((edit("bbox", value, { kind: "move", object: 0, by: [1, 2] }, "xyxy") as number[][])[0]).toEqual([21, 12, 101, 92]);
  expect((edit("bbox", value, { kind: "drag", object: 2, handle: 4, to: [5, 0] }, "xyxy") as number[][])[2]).toEqual([0, 0, 5, 0]);
  expect(edit("bbox", [[0, 0, 5, 5]], { kind: "drag", object: 0, handle: 4, to: [5, 0] }, "xyxy")).toBeUndefined();
  for (const format of ["xywh", "cxcywh", "cxcywhn"]) {
    expect((edit("bbox", [["NaN", "NaN", "NaN", "NaN"]], { kind: "mend", object: 0 }, format) as number[][]).flat()).toEqual((edit("bbox", [], { kind: "add", points: [[0, 0], [160, 120]] }, format) as number[][]).flat());
  }
});

test("a value that is no list of boxes, or only a summary, is not edited", () => {
  expect(edit("bbox", [[null, 0, 1, 1], [0, 0, 1, 1]], { kind: "remove", object: 1 })).toBeUndefined();
  for (const kind of ["polygon", "keypoints"]) expect(edit(kind, { $summary: "bytes", nbytes: 9 }, { kind: "remove", object: 0 })).toBeUndefined();
});

test("vertices of a polygon come, move and go, but three stay", () => {
  const square = [[0, 0], [40, 0], [40, 40], [0, 40]];
  const triangle = square.slice(0, 3);

  expect(edit("polygon", [square], { kind: "split", object: 0, handle: 0, to: [20, 5] })).toEqual([[[0, 0], [20, 5], [40, 0], [40, 40], [0, 40]]]);
  expect(edit("polygon", [square], { kind: "cut", object: 0, handle: 3 })).toEqual([triangle]);
  expect(edit("polygon", [triangle], { kind: "cut", object: 0, handle: 1 })).toBeUndefined();
  expect(edit("polygon", [triangle, square], { kind: "move", object: 1, by: [10, 200] })).toEqual([triangle, [[10, 80], [50, 80], [50, 120], [10, 120]]]);
  expect(edit("polygon", [triangle], { kind: "add", points: square.slice(0, 2) as never })).toBeUndefined();
});

test("joints move, are hidden and are not labelled; those without a place stay where they are", () => {
  const object = [[40, 60, 2], [80, 60, 1], [0, 0, 0]];

  expect(edit("keypoints", [object], { kind: "move", object: 0, by: [5, 5] })).toEqual([[[45, 65, 2], [85, 65, 1], [0, 0, 0]]]);
  expect(edit("keypoints", [object], { kind: "drag", object: 0, handle: 2, to: [9, 9] })).toEqual([[[40, 60, 2], [80, 60, 1], [9, 9, 2]]]);
  const marked = [0, 1, 2].map((handle) => (edit("keypoints", [object], { kind: "mark", object: 0, handle }) as number[][][])[0]?.[handle]?.[2]);
  expect(marked).toEqual([1, 0, 2]);
});
