import { expect, test } from "vitest";
import { readHistory, remember } from "./history";

function storage() {
  const kept = new Map<string, string>();
  return { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, text: string) => void kept.set(key, text) };
}

test("the last query is first, and each is there once", () => {
  const store = storage();

  for (const tql of ["a", "b", " a ", ""]) remember(store, "pets", tql);

  expect(readHistory(store, "pets")).toEqual(["a", "b"]);
  expect(readHistory(store, "cars")).toEqual([]);
});

test("a history has an end, and nonsense in its place is none", () => {
  const store = storage();
  for (let i = 0; i < 80; i += 1) remember(store, "pets", `LIMIT ${i}`);
  store.setItem("tensorlake-queries:odd", "{not json");

  expect(readHistory(store, "pets")).toHaveLength(50);
  expect(readHistory(store, "odd")).toEqual([]);
});
