import { expect, test } from "vitest";
import type { Histogram, PairStatistics, TensorInfo } from "../../api/client";
import { cellConditions, formatCell, formatOutside, readPair, shade } from "./pairs";

const tensors = [
  { name: "label", kind: "class_label", shape: [], type: "ClassLabel" },
  { name: "score", kind: "scalar", shape: [], type: "Scalar" },
] as unknown as TensorInfo[];
const classes = { counted: 9, values: 9, distinct: 40, entries: [{ code: 1, name: "it's", count: 5, rows: 5 }, { code: 0, name: "", count: 2, rows: 2 }] };
const histogram: Histogram = { title: "score", expression: "score", per: "row", is_whole: false, is_rising: false, counted: 9, values: 9, nans: 0, infinities: 0, minimum: "0", maximum: "1.5", mean: 1, edges: [0, 1, 2], bounds: ["0", "1", "2"], counts: [4, 5] };
const byClass = { tensor: "label", classes, histogram: null };
const byNumber = { tensor: "score", classes: null, histogram };
const rows = { rows: 9, counted: 9 };

test("classes go down wherever they come from, and a cell has the conditions of both", () => {
  const pair: PairStatistics = { ...rows, placed: 7, x: byClass, y: byNumber, counts: [[3, 0], [2, 2]], medians: [0.5, null] };
  const table = readPair(pair, tensors);

  expect(table.counts).toEqual([[3, 2], [0, 2]]);
  expect(table.down.places.map(({ name, median }) => [name, median])).toEqual([["it's", 0.5], ["(empty string)", null]]);
  expect(cellConditions(table, 0, 1)).toEqual(["label = 'it''s'", "score >= 1", "score <= 2"]);
  expect(formatCell(table, 0, 1)).toBe("it's, score 1 to 2: 2 rows");
  expect(table.across.isReplaced("score < 7")).toBe(true);
  expect(table.across.isReplaced("label = 'dog'")).toBe(false);
  expect(formatOutside(pair, table)).toBe("2 rows in no cell: NULL, empty, not finite, or of 38 more classes of label");
  expect(readPair({ ...pair, x: byNumber, y: byClass, counts: [[3, 2], [0, 2]] }, tensors)).toMatchObject({ counts: table.counts, most: 3 });
});

test("numbers go up, the same tensor twice has its conditions once, and no values are no cells", () => {
  const table = readPair({ ...rows, placed: 9, x: byNumber, y: byNumber, counts: [[4, 0], [0, 5]], medians: null }, tensors);
  expect(table.counts).toEqual([[0, 5], [4, 0]]);
  expect(cellConditions(table, 1, 0)).toEqual(["score >= 0", "score < 1"]);

  const none = { ...byNumber, histogram: { ...histogram, counts: [], edges: [], bounds: [] } };
  expect(readPair({ ...rows, placed: 0, x: none, y: byClass, counts: [[], []], medians: null }, tensors).across).toMatchObject({ places: [], ends: null });
  expect(shade(0, 9)).toBe(0);
  expect(shade(1, 10_000)).toBeGreaterThan(0.15);
});
