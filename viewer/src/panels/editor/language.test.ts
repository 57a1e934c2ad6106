import { StringStream } from "@codemirror/language";
import { expect, test } from "vitest";
import type { TensorInfo } from "../../api/client";
import { exampleQuery } from "../../query/example";
import { clampMark } from "./codemirror";
import { findOpenQuote, openQuoteProblem } from "../../query/quotes";
import { nextToken } from "./language";

function tokens(text: string): [string, string | null][] {
  const stream = new StringStream(text, 2, 2);
  const found: [string, string | null][] = [];
  while (!stream.eol()) {
    stream.start = stream.pos;
    const kind = nextToken(stream);
    if (stream.current().trim() !== "") found.push([stream.current(), kind]);
  }
  return found;
}

const label = { name: "label", kind: "class_label", shape: [], names: ["cat's", "dog"] } as unknown as TensorInfo;

test("words are coloured by what they are", () => {
  expect(tokens("SELECT * WHERE CONTAINS(labels, 'it''s') AND x[:, 2] > 1.5e3 -- why")).toEqual([
    ["SELECT", "keyword"],
    ["*", null],
    ["WHERE", "keyword"],
    ["CONTAINS", "variableName.function"],
    ["(", null],
    ["labels", "variableName"],
    [",", null],
    ["'it''s'", "string"],
    [")", null],
    ["AND", "keyword"],
    ["x", "variableName"],
    ["[", null],
    [":", null],
    [",", null],
    ["2", "number"],
    ["]", null],
    [">", null],
    ["1.5e3", "number"],
    ["-- why", "comment"],
  ]);
});

test("keywords are known in any case, and stay keywords before a bracket", () => {
  expect(tokens("where x in (1) is null")).toEqual([
    ["where", "keyword"],
    ["x", "variableName"],
    ["in", "keyword"],
    ["(", null],
    ["1", "number"],
    [")", null],
    ["is", "keyword"],
    ["null", "atom"],
  ]);
});

test("an unfinished text or name does not hang the editor", () => {
  expect(tokens("x = 'cat").at(-1)).toEqual(["'cat", "string"]);
  expect(tokens('"a').at(-1)).toEqual(['"a', "variableName"]);
});

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

test("the example is of this dataset", () => {
  const score = { name: "score", kind: "scalar", shape: [] } as unknown as TensorInfo;

  expect(exampleQuery([score, { ...label, names: ["cat"] }])).toBe("WHERE label = 'cat' ORDER BY score DESC");
});

test("an error at the end of the text still has a mark", () => {
  expect(clampMark(5, 5, 5)).toEqual({ from: 4, to: 5 });
  expect(clampMark(6, 11, 17)).toEqual({ from: 6, to: 11 });
  expect(clampMark(0, 0, 0)).toBeNull();
});
