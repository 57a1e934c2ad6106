import { expect, test } from "vitest";
import type { TensorInfo } from "../api/client";
import { classCondition, emptyValues, exampleQuery, isRangeOf, nullValues, nonFiniteValues, rangeConditions } from "./conditions";
import { histogram, whole } from "./histogram.fixture";

const tensor = (name: string, kind: string, shape: (number | null)[] | null = []) => ({ name, kind, shape }) as unknown as TensorInfo;
const label = tensor("label", "class_label");

test("a bar is a range, and the last one holds its end", () => {
  expect(rangeConditions(histogram({}), 0, 0)).toEqual(["score >= 0", "score < 0.5"]);
  expect(rangeConditions(histogram({}), 1, 1)).toEqual(["score >= 0.5", "score <= 1"]);
  expect(rangeConditions(histogram({}), 0, 1)).toEqual(["score >= 0", "score <= 1"]);
});

test("a bar of one number asks for it, but not where its end is one too", () => {
  expect(rangeConditions(whole(["3", "4", "5"], "4"), 0, 0)).toEqual(["LENGTH(boxes) = 3"]);
  expect(rangeConditions(whole(["3", "4", "5"], "4"), 1, 1)).toEqual(["LENGTH(boxes) = 4"]);
  const largest = whole(["9223372036854775806", "9223372036854775807"], "9223372036854775807");
  expect(rangeConditions(largest, 0, 0)).toEqual(["LENGTH(boxes) >= 9223372036854775806", "LENGTH(boxes) <= 9223372036854775807"]);
  expect(rangeConditions(histogram({ bounds: ["7", "7"] }), 0, 0)).toEqual(["score = 7"]);
});

test("of arrays one element is asked for", () => {
  const areas = histogram({ expression: "AREA(boxes)", per: "element" });

  expect(rangeConditions(areas, 0, 0)).toEqual(["ANY(LOGICAL_AND(AREA(boxes) >= 0, AREA(boxes) < 0.5))"]);
  expect(isRangeOf("AREA(boxes)", "ANY(LOGICAL_AND(AREA(boxes) >= 0, AREA(boxes) < 0.5))")).toBe(true);
  expect(isRangeOf("AREA(boxes)", "LENGTH(boxes) = 3")).toBe(false);
  expect(isRangeOf("score", "score2 = 3")).toBe(false);
});

test("a class is asked for as its kind is, and quotes what needs quotes", () => {
  expect(classCondition(label, { code: 0, name: "cat's" })).toBe("label = 'cat''s'");
  expect(classCondition(tensor("camera/left", "class_label", [null]), { code: 1, name: "dog" })).toBe(`CONTAINS("camera/left", 'dog')`);
  expect(classCondition(tensor("ground", "segment_mask", [null, null]), { code: 1, name: "dog" })).toBe("ANY(ground = 1)");
  expect(classCondition(tensor("words", "tags", null), { code: 0, name: "rain" })).toBe("CONTAINS(words, 'rain')");
  expect(classCondition(tensor("order", "text", null), { code: 0, name: "a" })).toBe(`"order" = 'a'`);
  expect(classCondition(tensor("ok", "bool"), { code: 1, name: "true" })).toBe("ok = true");
  expect(classCondition(tensor("flags", "array", [2]), { code: 0, name: "false" })).toBe("ANY(flags = false)");
});

test("what lies in no bar has a condition too", () => {
  expect(nullValues(label, 2).condition).toBe("label IS NULL");
  expect(emptyValues(tensor("boxes", "bbox", [null, 4]), 2).condition).toBe("SIZE(boxes) = 0");
  expect(emptyValues(tensor("caption", "text", null), 2).condition).toBe("LENGTH(caption) = 0");
  expect(nonFiniteValues(histogram({ nans: 1, infinities: 2 })).map((one) => one.condition)).toEqual([
    "score != score",
    "ABS(score) = CAST('inf' AS float64)",
  ]);
  expect(nonFiniteValues(histogram({ per: "element", nans: 1 }))[0]?.condition).toBe("ANY(score != score)");
});

test("the example is of this dataset", () => {
  const score = { name: "score", kind: "scalar", shape: [] } as unknown as TensorInfo;

  expect(exampleQuery([score, { ...label, shape: [], names: ["cat"] }])).toBe("WHERE label = 'cat' ORDER BY score DESC");
});

test("the example is a query that the server accepts: joints are no classes", () => {
  const joints = { ...tensor("joints", "keypoints", [null, 3, 3]), names: ["nose", "eye"] };

  expect(exampleQuery([joints])).toBe("WHERE ROW_NUMBER() < 100");
  expect(exampleQuery([joints, { ...label, names: ["cat"] }])).toBe("WHERE label = 'cat'");
});
