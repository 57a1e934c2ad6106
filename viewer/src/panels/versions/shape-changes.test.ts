import { expect, test } from "vitest";
import type { Shape } from "../../lenses";
import { compareShapes, sayCounts, sayFates } from "./shape-changes";

const box = (x: number, label: string): Shape => ({
  x,
  y: 0,
  width: 10,
  height: 10,
  path: { kind: "box" },
  code: label === "cat" ? 0 : 1,
  label,
  score: null,
  isPredicted: false,
});

test("each box says what became of it", () => {
  const before = [box(0, "cat"), box(100, "cat"), box(200, "cat"), box(300, "cat")];
  const after = [box(0, "cat"), box(103, "cat"), box(200, "dog"), box(400, "cat")];

  const fates = compareShapes(before, after);

  expect(fates.before.map(({ fate, word }) => [fate, word])).toEqual([
    ["same", ""],
    ["moved", "moves"],
    ["renamed", "becomes dog"],
    ["gone", "gone"],
  ]);
  expect(fates.after.map(({ fate, word }) => [fate, word])).toEqual([
    ["same", ""],
    ["moved", "moved"],
    ["renamed", "was cat"],
    ["new", "new"],
  ]);
});

test("a box that stayed is not taken for one that moved onto it", () => {
  const fates = compareShapes([box(0, "cat"), box(2, "cat")], [box(2, "cat")]);

  expect(fates.before.map(({ fate }) => fate)).toEqual(["gone", "same"]);
});

test("what became of the shapes is counted in words", () => {
  const fates = compareShapes([box(0, "cat"), box(100, "cat"), box(300, "cat")], [box(0, "cat"), box(103, "cat"), box(400, "cat")]);

  expect(sayCounts(fates.before, fates.after)).toBe("1 moved · 1 new · 1 gone");
  expect(sayCounts([], [])).toBe("");
});

test("what did not change is faint beside what did, and whole where nothing did", () => {
  const { after } = compareShapes([box(0, "cat")], [box(0, "cat"), box(50, "dog")]);
  const { after: alike } = compareShapes([box(0, "cat")], [box(0, "cat")]);

  expect(sayFates(after, false).map((shape) => shape.isFaint ?? false)).toEqual([true, false]);
  expect(sayFates(alike, false).map((shape) => shape.isFaint ?? false)).toEqual([false]);
});

test("what did not change can be left out, and the rest says its word", () => {
  const { after } = compareShapes([box(0, "cat")], [box(0, "cat"), box(50, "dog")]);

  expect(sayFates(after, true).map((shape) => shape.label)).toEqual(["dog · new"]);
  expect(sayFates(after, false).map((shape) => shape.label)).toEqual(["cat", "dog · new"]);
});
