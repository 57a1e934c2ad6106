import { expect, test } from "vitest";
import type { CellValue, TensorInfo } from "../../api/client";
import { carrySteps, describeConflict, recoder } from "./carry";
import { Edits } from "./edits.svelte";
import type { KeptStep, StepStore, TabNews } from "./kept-steps";
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
    const places = [...this.kept.keys()].filter((key) => key.startsWith(`${dataset}\n`)).map((key) => key.split("\n").slice(1, 3).join("\n"));
    return Promise.resolve([...new Set(places)].map((place) => ({ version: place.split("\n")[0] ?? "", digest: place.split("\n")[1] ?? "", count: 1 })));
  };
  readonly tabs: ((news: TabNews) => void)[] = [];
  listen = (onnews: (news: TabNews) => void) => void this.tabs.push(onnews);
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
  expect([second.count, second.elsewhere]).toEqual([0, [{ version: "main@1", digest: "a1", count: 1 }]]);
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
  expect([edits.count, edits.elsewhere.map(({ digest }) => digest)]).toEqual([0, ["first"]]);
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

test("a tab follows what another does to the same version, and what both commit has one key", async () => {
  const store = new Memory();
  const [one, two] = [new Edits(store), new Edits(store)];
  for (const edits of [one, two]) await edits.open("pets", "main@1", "a1");
  const tell = async (committed: string | null = null) => {
    for (const hear of store.tabs) hear({ place: "pets\nmain@1\na1", committed });
    await expect.poll(() => two.count).toBe(one.count);
  };
  void one.do(label([0], [null], 1));
  await tell();
  void one.do(label([1], [null], 2));
  await tell();

  expect(two.keyFor("main")).toBe(one.keyFor("main"));
  expect(two.keyFor("fix")).not.toBe(one.keyFor("main"));
  const key = one.keyFor("main");
  one.undo();
  expect(one.keyFor("main")).not.toBe(key);
  one.redo();
  await one.clear("main@2");
  await tell("main@2");
  expect([two.count, two.committed]).toEqual([0, "main@2"]);
});

test("what another tab did is not lost by what this one does meanwhile", async () => {
  const store = new Memory();
  const edits = new Edits(store);
  await edits.open("pets", "main@1", "a1");
  const read = store.read;
  store.read = async (place) => {
    const kept = await read(place);
    if (edits.count === 0) void edits.do(label([7], [null], 1)); // after it was read
    return kept;
  };
  await edits.refresh();

  expect([...edits.of("label").keys()]).toEqual([7]);
});

test("edits are brought to the rows of a later version where their cells have what they had", () => {
  const steps = [label([3, 4], [null, 1], 2), label([4], [2], 0), label([5], [1], 2), label([6], [0], 2)];
  const row = (number: number, code: number | null) => ({ _row: number, _row_id: null, label: code });
  const rows = new Map([
    [3, { before: row(3, null), after: row(13, null) }],
    [4, { before: row(4, 1), after: row(14, 2) }],
    [5, { before: row(5, 1), after: row(15, 1) }], // relabelled
    [6, { before: row(6, 0), after: undefined }], // deleted
  ]);
  const tensor = (names: string[]) => ({ name: "label", kind: "class_label", names }) as unknown as TensorInfo;
  const after = [tensor(["cat", "ant", "dog", "owl"])];

  const { steps: carried, left, conflicts } = carrySteps(steps, rows, recoder([tensor(["cat", "dog", "owl"])], after), after);

  expect(carried).toEqual([
    [{ tensor: "label", rows: [13, 14], before: [null, 2], value: 3 }],
    [{ tensor: "label", rows: [14], before: [3], value: 0 }],
  ]);
  expect(left).toEqual([label([5], [1], 2), label([6], [0], 2)]);
  expect(conflicts.map(describeConflict)).toEqual(["row 5: label changed", "row 6 was deleted"]);
});

test("boxes and what is per them are carried over together, or not at all", () => {
  const tensors = [{ name: "boxes", kind: "bbox" }, { name: "labels", kind: "array", per: "boxes" }, { name: "note", kind: "text" }] as TensorInfo[];
  const cells = (row: number, boxes: string[], labels: number[] | null, note = "") => ({ _row: row, _row_id: null, boxes, labels, note });
  const set = (tensor: string, rows: number[], before: CellValue, value: CellValue) => ({ tensor, rows, before: rows.map(() => before), value });
  const edited = [0, 1, 2];
  const steps = [
    [set("boxes", edited, ["A", "B"], ["B"]), set("labels", edited, [0, 1], [1])], // A is removed
    [set("boxes", edited, ["B"], ["B", "C"]), set("labels", edited, [1], [1, 0])], // C is drawn: as many as before
    [set("note", [0], "", "seen")],
    [set("labels", [3], [0, 1], [1, 1])],
  ];
  const before = (row: number) => cells(row, ["A", "B"], [0, 1]);
  const rows = new Map([
    [0, { before: before(0), after: cells(0, ["A", "B"], [0, 2]) }], // labels changed
    [1, { before: before(1), after: cells(1, ["B", "A"], [0, 1]) }], // boxes changed
    [2, { before: before(2), after: cells(2, ["A", "B"], [0, 1], "another") }],
    [3, { before: before(3), after: cells(3, ["D", "E"], [0, 1]) }], // boxes that were not edited changed
  ]);

  const { steps: carried, left, conflicts } = carrySteps(steps, rows, recoder(tensors, tensors), tensors);

  expect(carried).toEqual([
    [set("boxes", [2], ["A", "B"], ["B"]), set("labels", [2], [0, 1], [1])],
    [set("boxes", [2], ["B"], ["B", "C"]), set("labels", [2], [1], [1, 0])],
    [set("note", [0], "", "seen")],
  ]);
  expect(left.flat().map(({ tensor, rows: at }) => [tensor, at])).toEqual([["boxes", [0, 1]], ["labels", [0, 1]], ["boxes", [0, 1]], ["labels", [0, 1]], ["labels", [3]]]);
  expect(conflicts.map(describeConflict)).toEqual(["row 0: boxes and labels changed", "row 1: boxes and labels changed", "row 3: labels and boxes changed"]);
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
