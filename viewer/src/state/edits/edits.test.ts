import { expect, test } from "vitest";
import { Edits } from "./edits.svelte";
import type { KeptStep, StepStore } from "./kept-steps";
import { ownersFirst, updatesOf } from "./operations";
import { Changes, type Step } from "./steps";

/** The store without a browser. */
class Memory implements StepStore {
  readonly kept = new Map<string, KeptStep>();
  keyOf = (place: string) => `${place}\n${String(this.kept.size).padStart(4, "0")}${Math.random()}`;
  put = (one: KeptStep) => {
    this.kept.set(one.key, one);
    return Promise.resolve();
  };
  remove = (keys: readonly string[]) => {
    for (const key of keys) this.kept.delete(key);
    return Promise.resolve();
  };
  read = (place: string) => Promise.resolve([...this.kept.values()].filter(({ key }) => key.startsWith(`${place}\n`)).sort((a, b) => (a.key < b.key ? -1 : 1)));
  list = (dataset: string) => {
    const versions = [...this.kept.keys()].filter((key) => key.startsWith(`${dataset}\n`)).map((key) => key.split("\n")[1] ?? "");
    return Promise.resolve([...new Set(versions)].map((version) => ({ version, count: versions.filter((one) => one === version).length })));
  };
}

const label = (rows: number[], before: (number | null)[], value: number | null): Step => [{ tensor: "label", rows, before, value }];

test("the outcome of steps has what a cell had and has, and no cell that has again what it had", () => {
  const changes = new Changes();
  const steps = [label([3, 4], [null, 1], 1), label([3], [1], 0), label([9], [7], 2), label([4], [1], 5), label([4], [5], 1)];
  for (const step of steps) changes.apply(step);

  expect([...changes.of("label")]).toEqual([[3, { before: null, value: 0 }], [9, { before: 7, value: 2 }]]);
  for (const step of steps.reverse()) changes.revert(step);
  expect(changes.count).toBe(0);
});

test("undo and redo take whole steps, of several tensors; a new step ends redo", async () => {
  const edits = new Edits(new Memory());
  await edits.open("pets", "main@1", "a1");
  void edits.do([{ tensor: "boxes", rows: [2], before: [[[0, 0, 1, 1]]], value: [] }, { tensor: "labels", rows: [2], before: [[1]], value: [] }]);
  void edits.do(label([2], [null], 3));
  const row = { _row: 2, _row_id: null, boxes: [[0, 0, 1, 1]], labels: [1], label: null };

  expect(edits.apply(row)).toMatchObject({ boxes: [], labels: [], label: 3 });
  edits.undo();
  edits.undo();
  expect(edits.apply(row)).toEqual(row);
  edits.redo();
  expect(edits.apply(row)).toMatchObject({ boxes: [], labels: [], label: null });
  void edits.do(label([2], [null], 4));
  expect(edits.canRedo).toBe(false);
});

test("steps outlive the page, each version's its own, and others are named", async () => {
  const store = new Memory();
  const first = new Edits(store);
  await first.open("pets", "main@1", "a1");
  void first.do(label([0, 5], [null, 2], 1));
  void first.do(label([5], [1], 2));
  const second = new Edits(store);

  await second.open("pets", "main@2", "b2");
  expect([second.count, second.elsewhere]).toEqual([0, [{ version: "main@1", count: 2 }]]);
  await second.open("pets", "main@1", "a1");
  expect([...second.of("label")]).toEqual([[0, { before: null, value: 1 }]]);
  second.undo();
  expect(second.of("label").get(5)).toEqual({ before: 2, value: 1 });
  await second.clear();
  await first.open("pets", "main@1", "a1");
  expect(first.canUndo).toBe(false);
});

test("another dataset of the same name and version has none of the steps", async () => {
  const store = new Memory();
  const edits = new Edits(store);
  await edits.open("pets", "main@1", "first");
  void edits.do(label([0], [null], 1));

  await edits.open("pets", "main@1", "second");
  expect([edits.count, edits.elsewhere]).toEqual([0, []]);
  await edits.open("pets", "main@1", "first");
  expect(edits.count).toBe(1);
});

test("a tab forgets its own steps, not those of another", async () => {
  const store = new Memory();
  const [one, two] = [new Edits(store), new Edits(store)];
  await one.open("pets", "main@1", "a1");
  await two.open("pets", "main@1", "a1");
  void one.do(label([0], [null], 1));
  void two.do(label([1], [null], 1));
  await one.clear();

  await one.open("pets", "main@1", "a1");
  expect([...one.of("label").keys()]).toEqual([1]);
});

test("a browser that keeps nothing says so, and edits go on", async () => {
  const store = new Memory();
  store.put = () => Promise.reject(new Error("quota"));
  const edits = new Edits(store);
  await edits.open("pets", "main@1", "a1");
  await edits.do(label([0], [null], 1));

  expect(edits.problem).toContain("quota");
  expect(edits.count).toBe(1);
});

test("a transaction has one update for each class, by name, and a list where values are many", () => {
  const change = (value: number | null) => ({ before: null, value });
  const few = new Map([[8, change(1)], [3, change(1)], [5, change(null)]]);
  const many = new Map(Array.from({ length: 300 }, (_, row) => [row, change(row)]));

  expect(updatesOf({ name: "label", kind: "class_label", names: ["cat", "dog"] }, few)).toEqual([
    { op: "update", tensor: "label", rows: [3, 8], value: "dog" },
    { op: "update", tensor: "label", rows: [5], value: null },
  ]);
  expect(updatesOf({ name: "label", kind: "class_label", names: ["cat"] }, many)).toMatchObject([{ values: { 0: "cat", 1: 1, 299: 299, length: 300 } }]);
  const joints = { name: "joints", kind: "keypoints", names: ["nose", "eye"] };
  expect(updatesOf(joints, new Map([[2, { before: [], value: [[0, 1, 1]] }]]))).toEqual([{ op: "update", tensor: "joints", rows: [2], values: [[[0, 1, 1]]] }]);
});

test("what others are per is updated before them, in whatever order it was edited", () => {
  const edited = [{ name: "labels", per: "boxes" }, { name: "image", per: null }, { name: "weights", per: "boxes" }, { name: "boxes" }];

  expect(ownersFirst(edited).map(({ name }) => name)).toEqual(["image", "boxes", "labels", "weights"]);
});
