import { expect, test } from "vitest";
import type { TensorInfo } from "../api/client";
import { cardHeight, cellShape, chooseCaption, chooseColumns, chooseImageTensor } from "./defaults";
import { chooseLabels } from "../classes/class-table";
import { ClassPalette, COLORS } from "../classes/palette";

const tensor = (name: string, kind: string, more: Partial<TensorInfo> = {}): TensorInfo => ({
  name,
  kind,
  type: kind,
  dtype: "float32",
  shape: [],
  nullable: false,
  media_type: null,
  picture: kind === "image",
  ...more,
});
const image = tensor("image", "image");
const depth = tensor("depth", "image");
const clip = tensor("clip", "embedding", { shape: [768] });
const species = tensor("species", "class_label", { names: ["cat", "dog"] });
const labels = tensor("labels", "class_label", { per: "boxes", shape: [null] });
const boxes = tensor("boxes", "bbox", { shape: [null, 4] });
const caption = tensor("caption", "text", { dtype: null, shape: null });

test("hiding the image shows the next one", () => {
  expect(chooseImageTensor([image, depth], new Set())?.name).toBe("image");
  expect(chooseImageTensor([image, depth], new Set(["image"]))?.name).toBe("depth");
  expect(chooseImageTensor([caption], new Set())).toBeNull();
});

test("the labels of the boxes are counted first", () => {
  expect(chooseLabels([species, labels])?.name).toBe("labels");
});

test("the grid never asks for images or embeddings as JSON", () => {
  expect(chooseColumns([image, boxes, labels, clip, caption], image)).toEqual(["boxes", "labels", "caption"]);
});

test("under an image stands its count of boxes, else its class", () => {
  const row = { _row: 0, _row_id: null, species: 1, boxes: [[0, 0, 1, 1]] };

  expect(chooseCaption(row, [image, species, boxes], new Set())).toBe("1 box");
  expect(chooseCaption(row, [image, species, boxes], new Set(["boxes"]))).toBe("dog");
  expect(chooseCaption({ ...row, loss: 0.5 }, [image, species, { ...species, name: "loss", kind: "scalar", names: null }], new Set(), ["loss"])).toBe("loss 0.5 · dog");
  expect(chooseCaption({ ...row, speed: 1.5 }, [image, tensor("speed", "scalar")], new Set())).toBe("speed 1.5");
});

test("cells have the shape of the images, and audio that of its waveform", () => {
  expect(cellShape(tensor("image", "image", { shape: [480, 640, 3] }))).toBe(0.75);
  expect(cellShape(tensor("tall", "image", { shape: [1800, 600, 3] }))).toBe(1.25);
  expect(cellShape(tensor("sound", "audio", { shape: [null, null] }))).toBe(0.25);
});

test("a card of text is higher than a card of numbers", () => {
  const number = tensor("x", "scalar");

  expect(cardHeight([caption], ["caption"], new Set())).toBeGreaterThan(cardHeight([number], ["x"], new Set()));
});

test("frequent classes have different colours, and keep them while one filters", () => {
  const counts = Array.from({ length: 80 }, (_, code) => ({ code, name: `${code}`, count: code, rows: code }));
  const palette = new ClassPalette(counts);
  const frequent = [79, 78, 77, 76, 75].map((code) => palette.color(code));

  expect(new Set(frequent).size).toBe(5);
  expect(palette.color(79)).toBe(COLORS[0]);
});

test("a class that was never counted still has a colour", () => {
  expect(COLORS).toContain(new ClassPalette([]).color(-3));
});
