import { expect, test } from "vitest";
import { defaultWidth, mostWidth, readKept } from "./side-panels.svelte";

test("panels are wider on wide pages", () => {
  expect([2560, 1280, 900].map((page) => [defaultWidth("left", page), defaultWidth("right", page)])).toEqual([[320, 480], [240, 360], [200, 280]]);
});

test("two panels leave a place for the rows, however narrow the page", () => {
  for (const page of [761, 900, 1280, 2560]) expect(2 * mostWidth(page)).toBeLessThan(page);
});

test("what this page did not write is no width", () => {
  const fresh = { left: { width: null, isFolded: false }, right: { width: null, isFolded: false } };

  for (const text of [null, "", "null", "[]", "{", '{"left": 3}', '{"left": {"width": "wide"}, "right": {"width": -5}}']) expect(readKept(text)).toEqual(fresh);
  expect(readKept('{"right": {"width": 300, "isFolded": true}}').right).toEqual({ width: 300, isFolded: true });
});
