import { expect, test } from "vitest";
import type { Shape } from "../../lenses";
import { compareShapes, summarizeChanges, labelChanges } from "./shape-changes";

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

  const changed = compareShapes(before, after);

  expect(changed.before.map(({ status, word }) => [status, word])).toEqual([
    ["same", ""],
    ["moved", "moves"],
    ["relabelled", "becomes dog"],
    ["removed", "removed"],
  ]);
  expect(changed.after.map(({ status, word }) => [status, word])).toEqual([
    ["same", ""],
    ["moved", "moved"],
    ["relabelled", "was cat"],
    ["added", "added"],
  ]);
});

test("a box that stayed is not taken for one that moved onto it", () => {
  const changed = compareShapes([box(0, "cat"), box(2, "cat")], [box(2, "cat")]);

  expect(changed.before.map(({ status }) => status)).toEqual(["removed", "same"]);
});

test("what became of the shapes is counted in words", () => {
  const changed = compareShapes([box(0, "cat"), box(100, "cat"), box(300, "cat")], [box(0, "cat"), box(103, "cat"), box(400, "cat")]);

  expect(summarizeChanges(changed.before, changed.after)).toBe("1 moved · 1 added · 1 removed");
  expect(summarizeChanges([], [])).toBe("");
});

test("what did not change is faint beside what did, and whole where nothing did", () => {
  const { after } = compareShapes([box(0, "cat")], [box(0, "cat"), box(50, "dog")]);
  const { after: alike } = compareShapes([box(0, "cat")], [box(0, "cat")]);

  expect(labelChanges(after, false).map((shape) => shape.isFaint ?? false)).toEqual([true, false]);
  expect(labelChanges(alike, false).map((shape) => shape.isFaint ?? false)).toEqual([false]);
});

test("what did not change can be left out, and the rest says its word", () => {
  const { after } = compareShapes([box(0, "cat")], [box(0, "cat"), box(50, "dog")]);

  expect(labelChanges(after, true).map((shape) => shape.label)).toEqual(["dog · added"]);
  expect(labelChanges(after, false).map((shape) => shape.label)).toEqual(["cat", "dog · added"]);
});
