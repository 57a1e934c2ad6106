import { expect, test } from "vitest";
import { histogram, whole } from "../../query/histogram.fixture";
import { formatBars, formatBound } from "./labels";

test("numbers and times are read as people write them", () => {
  expect(formatBound(whole(["-9223372036854775808", "9223372036854775807"], "1"), 0)).toBe("-9,223,372,036,854,775,808");
  expect(formatBound(histogram({ bounds: ["'2026-01-01T00:05:00Z'", "'2026-01-02'"] }), 0)).toBe("2026-01-01 00:05:00");
  expect(formatBars(whole(["3", "4", "5"], "4"), 0, 0)).toBe("3: 1 row");
  expect(formatBars(whole(["0", "20", "40"], "39"), 0, 1)).toBe("0 to 39: 2 rows");
  expect(formatBars(histogram({ per: "element" }), 1, 1)).toBe("0.5 to 1: 1");
});

test("years have no separators, in one bar and in a range", () => {
  const years = histogram({ expression: "year", is_whole: true, bounds: ["2008", "2010", "2012"], maximum: "2012" });

  expect(formatBound(years, 0)).toBe("2008");
  expect(formatBars(years, 0, 1)).toBe("2008 to 2012: 2 rows");
});
