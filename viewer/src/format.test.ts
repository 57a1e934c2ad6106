import { expect, test } from "vitest";
import { formatAge, formatBytes, formatNumber, formatPlural, formatSeconds, isNaming, joinWords } from "./format";

test("bytes have three digits and a decimal unit", () => {
  expect([0, 812, 148_213, 999_600, 2_710_000, 13_594_766].map(formatBytes)).toEqual([
    "0 B",
    "812 B",
    "148 kB",
    "1 MB",
    "2.71 MB",
    "13.6 MB",
  ]);
});

test("a noun ends as its count asks", () => {
  expect([formatPlural(1, "box"), formatPlural(12_480, "row"), formatPlural(2, "box"), formatPlural(3, "class")]).toEqual([
    "1 box",
    "12,480 rows",
    "2 boxes",
    "3 classes",
  ]);
});

test("a query never takes 0 ms", () => {
  expect([0, 0.0004, 0.038, 1.25, 90].map(formatSeconds)).toEqual(["1 ms", "1 ms", "38 ms", "1.3 s", "1.5 min"]);
});

test("numbers keep their six digits and lose their zeros", () => {
  expect([3, 0.5, 212.6, 1 / 3, 1e-7, 25_000].map(formatNumber)).toEqual(["3", "0.5", "212.6", "0.333333", "1.000e-7", "25,000"]);
});

test("an age is said in the largest unit that fits", () => {
  const now = Date.parse("2026-01-10T12:00:00Z");

  expect(formatAge("2026-01-10T10:00:00Z", now)).toBe("2 hours ago");
  expect(formatAge("2026-01-09T11:00:00Z", now)).toBe("yesterday");
  expect(formatAge("not a time", now)).toBe("not a time");
});

test("years and ids name something, counts and sizes do not", () => {
  expect(["year", "birth_year", "image_id", "imageId", "class code"].map(isNaming)).toEqual(Array(5).fill(true));
  expect(["width", "yearly_income", "valid", "score", "identity"].map(isNaming)).toEqual(Array(5).fill(false));
});

test("names of both directions of writing keep their order", () => {
  expect(joinWords(["cat", "dog × 2"])).toBe("cat, dog × 2");
  expect(joinWords(["כלב", "cat"])).toBe("\u2068כלב\u2069, cat");
});
