import { expect, test } from "vitest";
import { findKey, Notebook } from "./notebook";

function around() {
  const sent: unknown[] = [];
  const selected: number[][] = [];
  const cell = { postMessage: (message: unknown, origin: unknown) => void sent.push([message, origin]) };
  const notebook = new Notebook("key", cell, (rows) => selected.push([...rows]));
  const hear = (data: unknown, source: unknown = cell, origin = "http://localhost:8888") => notebook.hear({ data, source: source as Window, origin });
  return { sent, selected, notebook, hear };
}

test("a notebook that shows its key is told the selection, at its origin and nowhere else", () => {
  const { sent, notebook, hear } = around();
  notebook.tell("main@3", [4, 5, 6, 9]);
  expect(sent).toEqual([]);
  for (const data of [null, "key", {}, { widget: "other", kind: "hello" }]) hear(data);
  hear({ widget: "key", kind: "hello" }, {}); // another window, which found the key
  expect(sent).toEqual([]);
  hear({ widget: "key", kind: "hello" });
  notebook.tell("main@4", []);
  expect(sent).toEqual([
    [{ widget: "key", version: "main@3", rows: [4, 7, 9, 10] }, "http://localhost:8888"],
    [{ widget: "key", version: "main@4", rows: [] }, "http://localhost:8888"],
  ]);
});

test("rows of the version that is shown are selected, and others are answered by what is shown", () => {
  const { sent, selected, notebook, hear } = around();
  notebook.tell("main@3", []);
  hear({ widget: "key", kind: "select", version: "main@3", rows: [2, 4, 7, 8] });
  expect([selected, sent]).toEqual([[[2, 3, 7]], []]);
  for (const [version, rows] of [["main@2", [2, 4]], ["main@3", [4, 2]], ["main@3", [1]], ["main@3", "1"], ["main@3", [-1, 4]]] as const) hear({ widget: "key", kind: "select", version, rows });
  expect(selected.length).toBe(1);
  expect(sent.length).toBe(5);
});

test("the key outlives a reload", () => {
  const kept = new Map<string, string>();
  const storage = { getItem: (name: string) => kept.get(name) ?? null, setItem: (name: string, value: string) => void kept.set(name, value) };
  expect(findKey("#token=a", storage)).toBeNull();
  expect(findKey("#token=a&widget=b", storage)).toBe("b");
  expect(findKey("", storage)).toBe("b");
});
