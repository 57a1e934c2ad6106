import { expect, test } from "vitest";
import { compare } from "./diff";

const diff = { a: "main@1", b: "main@3", limit: 100, schema_changes: [], added: 0, added_rows: [], removed: 0, removed_rows: [], updated: [] };

test("a comparison says in few words what differs", () => {
  const changed = { ...diff, added: 1200, added_rows: [3, 4], removed: 1, updated: [{ tensor: "label", count: 214, rows_before: [], rows: [] }] };

  expect(compare("v1", changed)).toEqual({
    name: "v1",
    added: new Set([3, 4]),
    changes: ["+1,200 rows", "−1 row", "label 214 changed"],
  });
});

test("nothing that differs is said too", () => {
  expect(compare("v1", diff).changes).toEqual(["no difference"]);
});
