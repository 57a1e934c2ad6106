import { expect, test } from "vitest";
import { foldDecisions, LabelEdits, labelOperations } from "./labels.svelte";

function memory() {
  const kept = new Map<string, string>();
  return { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, text: string) => void kept.set(key, text), removeItem: (key: string) => void kept.delete(key) };
}

test("the last decision on a row counts, and none that gives it what it had", () => {
  const changes = foldDecisions([
    { code: 1, rows: [{ row: 3, before: null }, { row: 4, before: 1 }] },
    { code: 0, rows: [{ row: 3, before: 1 }] },
    { code: 2, rows: [{ row: 9 }] },
    { code: 5, rows: [{ row: 4, before: 1 }] },
    { code: 1, rows: [{ row: 4, before: 5 }] },
  ]);

  expect([...changes.values()]).toEqual([{ row: 3, before: null, code: 0 }, { row: 9, before: undefined, code: 2 }]);
});

test("undo takes decisions back one by one, redo repeats them, and a new one ends that", () => {
  const edits = new LabelEdits(memory());
  edits.open("pets", "main@1", "label");
  edits.decide(1, [{ row: 0, before: null }]);
  edits.decide(2, [{ row: 1, before: null }]);

  expect(edits.undo()?.code).toBe(2);
  expect(edits.apply({ _row: 1, _row_id: null, label: null })).toMatchObject({ label: null });
  expect(edits.redo()?.code).toBe(2);
  expect(edits.apply({ _row: 1, _row_id: null, label: null })).toMatchObject({ label: 2 });
  edits.undo();
  edits.decide(3, [{ row: 1, before: null }]);
  expect(edits.canRedo).toBe(false);
  while (edits.canUndo) edits.undo();
  expect(edits.changes.size).toBe(0);
});

test("decisions survive the page, each version's its own", () => {
  const storage = memory();
  const first = new LabelEdits(storage);
  first.open("pets", "main@1", "label");
  first.decide(1, [{ row: 0, before: null }]);
  const second = new LabelEdits(storage);

  second.open("pets", "main@2", "label");
  expect(second.changes.size).toBe(0);
  second.open("pets", "main@1", "label");
  expect(second.changes.get(0)?.code).toBe(1);
  second.clear();
  first.open("pets", "main@1", "label");
  expect(first.canUndo).toBe(false);
});

test("what is stored and was not written here is nothing", () => {
  const storage = memory();
  for (const text of ["{", "3", '[{"code": "cat"}, {"rows": []}, null]']) {
    storage.setItem("tensorlake-labels:pets@main@1:label", text);
    const edits = new LabelEdits(storage);
    edits.open("pets", "main@1", "label");
    expect(edits.canUndo).toBe(false);
  }
});

test("a transaction has one update for each class, by name", () => {
  const changes = [{ row: 8, before: null, code: 1 }, { row: 3, before: 0, code: 1 }, { row: 5, before: 0, code: null }];

  expect(labelOperations("label", ["cat", "dog"], changes)).toEqual([
    { op: "update", tensor: "label", rows: [3, 8], value: "dog" },
    { op: "update", tensor: "label", rows: [5], value: null },
  ]);
});
