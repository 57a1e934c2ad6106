import { expect, test } from "vitest";
import { loadSnippet, rowQuery } from "./snippet";

const shown = { url: "s3://lake/pets", name: "pets", version: "main@12", tql: "", saved: null, position: 160, row: 160 };

test("a row of a version is loaded by its number", () => {
  expect(loadSnippet(shown)).toBe('ds = tl.open("s3://lake/pets",\n             version="main@12")\nrow = ds[160]');
});

test("a row of a query is loaded through the query, quotes and all", () => {
  const snippet = loadSnippet({ ...shown, tql: `WHERE "a b" = 'it''s'`, position: 3 });

  expect(snippet).toContain(String.raw`view = ds.query("WHERE \"a b\" = 'it''s'")`);
  expect(snippet.endsWith("row = view[3]")).toBe(true);
});

test("a row of a saved view is loaded by the view's name", () => {
  const snippet = loadSnippet({ ...shown, saved: "the best", position: 2 });

  expect(snippet).toContain('view = ds.views["the best"]\nrow = view[2]');
});

test("a row is a query too, and a computed one is the query that made it", () => {
  expect(rowQuery(shown)).toBe("SELECT * WHERE ROW_NUMBER() = 160");
  expect(rowQuery({ ...shown, row: null, tql: "SELECT label GROUP BY label " })).toBe("SELECT label GROUP BY label");
});
