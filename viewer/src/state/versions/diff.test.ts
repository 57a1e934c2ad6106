import { expect, test } from "vitest";
import type { Diff } from "../../api/client";
import { compare, countChanges, listChanges } from "./diff";

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
  expect(compare("v1", diff).changes).toEqual(["no differences"]);
});

const edits: Diff = {
  a: "main@1",
  b: "main@3",
  limit: 100,
  schema_changes: [],
  added: 1,
  added_rows: [9],
  removed: 1,
  removed_rows: [4],
  updated: [
    { tensor: "boxes", count: 2, rows_before: [7, 2], rows: [6, 2] },
    { tensor: "labels", count: 1, rows_before: [7], rows: [6] },
  ],
};

test("a row that changed in two tensors is one change, where it is in both versions", () => {
  expect(listChanges(edits)).toEqual([
    { kind: "changed", before: 2, after: 2, tensors: ["boxes"] },
    { kind: "changed", before: 7, after: 6, tensors: ["boxes", "labels"] },
    { kind: "added", before: null, after: 9, tensors: [] },
    { kind: "removed", before: 4, after: null, tensors: [] },
  ]);
});

test("a list that is not whole says so", () => {
  expect(countChanges(edits, listChanges(edits))).toEqual({ added: 1, removed: 1, changed: 2, isWhole: true });
  expect(countChanges({ ...edits, added: 101 }, listChanges(edits)).isWhole).toBe(false);
});
