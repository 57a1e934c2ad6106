import { expect, test } from "vitest";
import { findOpenQuote, openQuoteProblem } from "./quotes";

test("a quote that does not end is found, whatever lies in texts and comments before it", () => {
  expect(["x = 'cat'", "x = 'it''s' -- don't", `"a""b" = 1 /* ' */`, ""].map(findOpenQuote)).toEqual([null, null, null, null]);
  expect(["x = 'cat", "x = 'it''s", `"a = 1`, "x = '' AND y = '"].map(findOpenQuote)).toEqual([4, 4, 0, 15]);
});

test("an unclosed quote is told as the server tells it", () => {
  const problem = openQuoteProblem("WHERE label = 'do");

  expect(problem).toMatchObject({ start: 14, stop: 15, line: 1, column: 15, code: "query-syntax" });
  expect(problem?.detail).toBe(
    `[query-syntax] at line 1, column 15: unexpected "'"\n    WHERE label = 'do\n                  ^ this text has no closing '`,
  );
  expect(openQuoteProblem("SELECT *\nWHERE x = 'a")).toMatchObject({ start: 19, line: 2, column: 11 });
  const comment = openQuoteProblem("WHERE x = 1 /* 'y");
  expect(comment).toMatchObject({ start: 12, stop: 14, line: 1, column: 13 });
  expect(comment?.detail).toBe(`[query-syntax] at line 1, column 13: unexpected '/*'
    WHERE x = 1 /* 'y
                ^^ this comment has no closing */`);
  expect([openQuoteProblem("x /* ' */ = 1"), findOpenQuote("x /* y")]).toEqual([null, null]);
});
