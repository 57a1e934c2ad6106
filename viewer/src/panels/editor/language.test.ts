import { StringStream } from "@codemirror/language";
import { expect, test } from "vitest";
import { clampMark } from "./codemirror";
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

test("an error at the end of the text still has a mark", () => {
  expect(clampMark(5, 5, 5)).toEqual({ from: 4, to: 5 });
  expect(clampMark(6, 11, 17)).toEqual({ from: 6, to: 11 });
  expect(clampMark(0, 0, 0)).toBeNull();
});
