import { expect, test } from "vitest";
import type { Histogram, TensorInfo } from "../api/client";
import { classCondition, emptyAside, isRangeOf, nullAside, oddAsides, rangeConditions } from "./conditions";
import { narrow, partsOf, widen } from "./filters";
import { sayBars, sayBound } from "../panels/statistics/labels";

const tensor = (name: string, kind: string, shape: (number | null)[] | null = []) => ({ name, kind, shape }) as unknown as TensorInfo;
const label = tensor("label", "class_label");

function histogram(more: Partial<Histogram>): Histogram {
  const bounds = more.bounds ?? ["0", "0.5", "1"];
  return {
    title: "score",
    expression: "score",
    per: "row",
    is_whole: false,
    is_rising: false,
    counted: 3,
    values: 3,
    nans: 0,
    infinities: 0,
    minimum: "0",
    maximum: "1",
    mean: 0.5,
    edges: bounds.map(Number),
    bounds,
    counts: bounds.slice(1).map(() => 1),
    ...more,
  };
}

const whole = (bounds: string[], maximum: string) => histogram({ expression: "LENGTH(boxes)", is_whole: true, bounds, maximum });

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
  expect(nullAside(label, 2).condition).toBe("label IS NULL");
  expect(emptyAside(tensor("boxes", "bbox", [null, 4]), 2).condition).toBe("SIZE(boxes) = 0");
  expect(emptyAside(tensor("caption", "text", null), 2).condition).toBe("LENGTH(caption) = 0");
  expect(oddAsides(histogram({ nans: 1, infinities: 2 })).map((one) => one.condition)).toEqual([
    "score != score",
    "ABS(score) = CAST('inf' AS float64)",
  ]);
  expect(oddAsides(histogram({ per: "element", nans: 1 }))[0]?.condition).toBe("ANY(score != score)");
});

test("a query is narrowed by a condition more", () => {
  expect(narrow("", ["a = 1"])).toBe("WHERE a = 1");
  expect(narrow("WHERE a = 1", ["b >= 2", "b < 3"])).toBe("WHERE a = 1 AND b >= 2 AND b < 3");
  expect(narrow("WHERE a = 1 ORDER BY b DESC", ["c = 2"])).toBe("WHERE a = 1 AND c = 2 ORDER BY b DESC");
  expect(narrow("ORDER BY b", ["c = 2"])).toBe("WHERE c = 2 ORDER BY b");
  expect(narrow("select * where a = 1", ["c = 2"])).toBe("WHERE a = 1 AND c = 2");
  expect(narrow("WHERE a = 1 OR b = 2", ["c = 2"])).toBe("WHERE (a = 1 OR b = 2) AND c = 2");
  expect(narrow("WHERE (a = 1 OR b = 2) AND c = 2", ["d"])).toBe("WHERE (a = 1 OR b = 2) AND c = 2 AND d");
});

test("another range of the same takes the place of the first", () => {
  const drop = (part: string) => isRangeOf("score", part);

  expect(narrow("WHERE score >= 0 AND score < 1 AND x = 2", ["score >= 0.5", "score < 0.6"], drop)).toBe(
    "WHERE x = 2 AND score >= 0.5 AND score < 0.6",
  );
});

test("a query that is more than conditions is asked as a whole", () => {
  expect(narrow("WHERE a ORDER BY b LIMIT 3", ["c"])).toBe("SELECT * FROM (WHERE a ORDER BY b LIMIT 3) WHERE c");
  expect(narrow("SELECT l, COUNT(*) AS n GROUP BY l", ["n = 2"])).toBe("SELECT * FROM (SELECT l, COUNT(*) AS n GROUP BY l) WHERE n = 2");
  expect(narrow("SELECT a WHERE b", ["c"])).toBe("SELECT * FROM (SELECT a WHERE b) WHERE c");
  expect(narrow("WHERE a -- why", ["c"])).toBe("SELECT * FROM (WHERE a -- why\n) WHERE c");
  expect(narrow("SELECT * FROM (WHERE a LIMIT 3) WHERE c", ["d"])).toBe("SELECT * FROM (WHERE a LIMIT 3) WHERE c AND d");
});

test("what was added is taken away again, and nothing else", () => {
  for (const text of ["", "WHERE a = 1", "WHERE a OR b", "WHERE a LIMIT 3", "ORDER BY b", "WHERE x BETWEEN 1 AND 2 AND CASE WHEN a AND b THEN c END"]) {
    expect(widen(narrow(text, ["label = 'a AND b'", "n < 3"]), ["label = 'a AND b'", "n < 3"])).toBe(text);
  }
});

test("parts are found in brackets, texts and ranges", () => {
  expect(partsOf("WHERE x BETWEEN 1 AND 2 AND (a OR b) AND f(c AND d) AND t = 'it''s AND' AND \"an AND\" = 1 ORDER BY z")).toEqual([
    "x BETWEEN 1 AND 2",
    "a OR b",
    "f(c AND d)",
    "t = 'it''s AND'",
    `"an AND" = 1`,
  ]);
  expect(partsOf("WHERE (a) OR (b)")).toEqual(["(a) OR (b)"]);
  expect(partsOf("WHERE (a) AND (b)")).toEqual(["a", "b"]);
  expect(partsOf("WHERE pose.score > 1 AND b = $x")).toEqual(["pose.score > 1", "b = $x"]);
});

test("numbers and times are read as people write them", () => {
  expect(sayBound(whole(["-9223372036854775808", "9223372036854775807"], "1"), 0)).toBe("-9,223,372,036,854,775,808");
  expect(sayBound(histogram({ bounds: ["'2026-01-01T00:05:00Z'", "'2026-01-02'"] }), 0)).toBe("2026-01-01 00:05:00");
  expect(sayBars(whole(["3", "4", "5"], "4"), 0, 0)).toBe("3: 1 row");
  expect(sayBars(whole(["0", "20", "40"], "39"), 0, 1)).toBe("0 to 39: 2 rows");
  expect(sayBars(histogram({ per: "element" }), 1, 1)).toBe("0.5 to 1: 1");
});
