import { expect, test } from "vitest";
import { isRangeOf } from "./conditions";
import { addFilters, filtersOf, orderOf, removeFilters, setOrder } from "./filters";

test("a query is narrowed by a condition more", () => {
  expect(addFilters("", ["a = 1"])).toBe("WHERE a = 1");
  expect(addFilters("WHERE a = 1", ["b >= 2", "b < 3"])).toBe("WHERE a = 1 AND b >= 2 AND b < 3");
  expect(addFilters("WHERE a = 1 ORDER BY b DESC", ["c = 2"])).toBe("WHERE a = 1 AND c = 2 ORDER BY b DESC");
  expect(addFilters("ORDER BY b", ["c = 2"])).toBe("WHERE c = 2 ORDER BY b");
  expect(addFilters("select * where a = 1", ["c = 2"])).toBe("WHERE a = 1 AND c = 2");
  expect(addFilters("WHERE a = 1 OR b = 2", ["c = 2"])).toBe("WHERE (a = 1 OR b = 2) AND c = 2");
  expect(addFilters("WHERE (a = 1 OR b = 2) AND c = 2", ["d"])).toBe("WHERE (a = 1 OR b = 2) AND c = 2 AND d");
});

test("another range of the same takes the place of the first", () => {
  const drop = (part: string) => isRangeOf("score", part);

  expect(addFilters("WHERE score >= 0 AND score < 1 AND x = 2", ["score >= 0.5", "score < 0.6"], drop)).toBe(
    "WHERE x = 2 AND score >= 0.5 AND score < 0.6",
  );
});

test("a query that is more than conditions is asked as a whole", () => {
  expect(addFilters("WHERE a ORDER BY b LIMIT 3", ["c"])).toBe("SELECT * FROM (WHERE a ORDER BY b LIMIT 3) WHERE c");
  expect(addFilters("SELECT l, COUNT(*) AS n GROUP BY l", ["n = 2"])).toBe("SELECT * FROM (SELECT l, COUNT(*) AS n GROUP BY l) WHERE n = 2");
  expect(addFilters("SELECT a WHERE b", ["c"])).toBe("SELECT * FROM (SELECT a WHERE b) WHERE c");
  expect(addFilters("WHERE a -- why", ["c"])).toBe("SELECT * FROM (WHERE a -- why\n) WHERE c");
  expect(addFilters("SELECT * FROM (WHERE a LIMIT 3) WHERE c", ["d"])).toBe("SELECT * FROM (WHERE a LIMIT 3) WHERE c AND d");
});

test("what was added is taken away again, and nothing else", () => {
  for (const text of ["", "WHERE a = 1", "WHERE a OR b", "WHERE a LIMIT 3", "ORDER BY b", "WHERE x BETWEEN 1 AND 2 AND CASE WHEN a AND b THEN c END"]) {
    expect(removeFilters(addFilters(text, ["label = 'a AND b'", "n < 3"]), ["label = 'a AND b'", "n < 3"])).toBe(text);
  }
});

test("parts are found in brackets, texts and ranges", () => {
  expect(filtersOf("WHERE x BETWEEN 1 AND 2 AND (a OR b) AND f(c AND d) AND t = 'it''s AND' AND \"an AND\" = 1 ORDER BY z")).toEqual([
    "x BETWEEN 1 AND 2",
    "a OR b",
    "f(c AND d)",
    "t = 'it''s AND'",
    `"an AND" = 1`,
  ]);
  expect(filtersOf("WHERE (a) OR (b)")).toEqual(["(a) OR (b)"]);
  expect(filtersOf("WHERE (a) AND (b)")).toEqual(["a", "b"]);
  expect(filtersOf("WHERE pose.score > 1 AND b = $x")).toEqual(["pose.score > 1", "b = $x"]);
});

test("a query is sorted by one column, and the rest of it stays", () => {
  expect(setOrder("", "score DESC")).toBe("ORDER BY score DESC");
  expect(setOrder("WHERE x > 1 ORDER BY x", '"a b" ASC')).toBe('WHERE x > 1 ORDER BY "a b" ASC');
  expect(setOrder("WHERE x > 1 LIMIT 5", "x ASC")).toBe("SELECT * FROM (WHERE x > 1 LIMIT 5) ORDER BY x ASC");
  expect(setOrder("WHERE x > 1 ORDER BY x", null)).toBe("WHERE x > 1");
  expect(setOrder("SELECT * FROM (WHERE x > 1 LIMIT 5) ORDER BY x", null)).toBe("WHERE x > 1 LIMIT 5");
});

test("the column that a query sorts by is found", () => {
  expect(orderOf("WHERE x > 1 ORDER BY score DESC")).toEqual({ name: "score", isDescending: true });
  expect(orderOf('ORDER BY "a b"')).toEqual({ name: "a b", isDescending: false });
  expect(orderOf("ORDER BY x, y")).toBeNull();
  expect(orderOf("WHERE x > 1")).toBeNull();
});
