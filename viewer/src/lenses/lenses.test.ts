import { expect, test } from "vitest";
import type { TensorInfo } from "../api/client";
import { placeBox } from "./bbox";
import { describeValue, frameCount, isFrames, lensOf } from "./index";

const tensor = (kind: string, more: Partial<TensorInfo> = {}): TensorInfo => ({
  name: "t",
  kind,
  type: kind,
  dtype: null,
  shape: null,
  nullable: true,
  media_type: null,
  picture: false,
  ...more,
});

test("the tensor list says in two words what a tensor is", () => {
  const cases: [TensorInfo, string][] = [
    [tensor("image", { media_type: "image/jpeg", dtype: "uint8", shape: [null, null, 3] }), "jpeg h×w×3"],
    [tensor("image", { media_type: "image/*", dtype: "uint8", shape: [null, null, 3] }), "any h×w×3"],
    [tensor("bbox", { dtype: "float32", shape: [null, 4] }), "f32 n×4"],
    [tensor("class_label", { dtype: "int64", shape: [null] }), "class n"],
    [tensor("embedding", { dtype: "float32", shape: [512] }), "f32 512"],
    [tensor("scalar", { dtype: "bfloat16", shape: [] }), "bf16"],
    [tensor("text"), "text"],
  ];

  for (const [one, brief] of cases) expect(lensOf(one).brief(one)).toBe(brief);
});

test("an image is described without decoding it", () => {
  const value = { $summary: "media", media_type: "image/jpeg", nbytes: 148_213, shape: [426, 640, 3] } as const;

  expect(describeValue({ ...value, shape: [...value.shape] }, tensor("image"))).toBe("426 × 640 × 3, jpeg, 148 kB");
});

test("a volume plays its planes as frames", () => {
  const value = { $summary: "media", nbytes: 148_213, shape: [80, 100, 120] } as const;
  const volume = tensor("volume", { type: "Nifti(int16)", dtype: "int16", shape: [null, null, null], picture: true });

  expect(isFrames(volume)).toBe(true);
  expect(frameCount({ ...value, shape: [...value.shape] })).toBe(80);
  expect(describeValue({ ...value, shape: [...value.shape] }, volume)).toBe("80 × 100 × 120, 148 kB");
  expect(lensOf(volume).brief(volume)).toBe("Nifti(int16)");
});

test("labels are names, and say how many of each", () => {
  const labels = tensor("class_label", { names: ["cat", "dog"], shape: [null] });

  expect(describeValue([1, 0, 1], labels)).toBe("dog × 2, cat");
  expect(describeValue([], labels)).toBe("none");
});

test("NULL and damage are said, not hidden", () => {
  expect(describeValue(null, tensor("text"))).toBe("NULL");
  expect(describeValue("a\u202egnp.exe", tensor("text"))).toBe("a‹U+202E›gnp.exe");
  expect(describeValue("שלום é", tensor("text"))).toBe("שלום é");
  expect(describeValue({ $summary: "error", message: "chunk damaged" }, tensor("text"))).toBe("chunk damaged");
});

test("large arrays show their shape and first numbers", () => {
  const value = { $summary: "array" as const, shape: [512], preview: [0.5, 1, 2] };

  expect(describeValue(value, tensor("array", { dtype: "float32", shape: [512] }))).toBe("512 · 0.5, 1, 2, …");
});

test("the three box formats are the same rectangle", () => {
  const same = { x: 10, y: 20, width: 30, height: 40 };
  const extent = { width: 100, height: 100 };

  expect(placeBox([10, 20, 40, 60], "xyxy", extent)).toEqual(same);
  expect(placeBox([10, 20, 30, 40], "xywh", extent)).toEqual(same);
  expect(placeBox([25, 40, 30, 40], "cxcywh", extent)).toEqual(same);
});
