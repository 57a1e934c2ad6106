import { expect, test } from "vitest";
import { Lru } from "./lru";

test("what was used longest ago goes first, and is told", () => {
  const gone: string[] = [];
  const lru = new Lru<number, string>(30, (value) => gone.push(value));
  lru.set(1, "a", 10);
  lru.set(2, "b", 10);
  lru.set(3, "c", 10);
  lru.get(1);
  lru.set(4, "d", 10);

  expect(gone).toEqual(["b"]);
  expect(lru.size).toBe(30);
});

test("a value larger than the budget is kept until the next one comes", () => {
  const lru = new Lru<number, string>(5);
  lru.set(1, "large", 10);

  expect(lru.get(1)).toBe("large");
});
