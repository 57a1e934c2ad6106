import { expect, test } from "vitest";
import { actionOf, keyName, KEYS, moveTo } from "./shortcuts";

const grid = { count: 10, columns: 4, lines: 2 };
const plain = { ctrlKey: false, metaKey: false, altKey: false, shiftKey: false };

test("no key means two things", () => {
  const keys = KEYS.flatMap((entry) => entry.keys);

  expect(new Set(keys).size).toBe(keys.length);
});

test("the browser's own shortcuts stay the browser's", () => {
  expect(actionOf({ ...plain, key: "j" })).toEqual({ kind: "move", step: "next" });
  expect(actionOf({ ...plain, key: "j", metaKey: true })).toBeNull();
});

test("with the shift key the arrows move the image, not the row", () => {
  expect(actionOf({ ...plain, key: "ArrowLeft" })).toEqual({ kind: "move", step: "previous" });
  expect(actionOf({ ...plain, key: "ArrowLeft", shiftKey: true })).toEqual({ kind: "pan", x: -1, y: 0 });
  expect(actionOf({ ...plain, key: "?", shiftKey: true })).toEqual({ kind: "help" });
  expect(keyName("Shift+ArrowLeft")).toBe("⇧ ←");
});

test("moves stay inside the rows", () => {
  expect(moveTo("next", 9, grid)).toBe(9);
  expect(moveTo("previous", 0, grid)).toBe(0);
  expect(moveTo("page-down", 3, grid)).toBe(9);
  expect(moveTo("last", 0, grid)).toBe(9);
});

test("a line up from the first line stays where it is", () => {
  expect(moveTo("up", 2, grid)).toBe(2);
  expect(moveTo("down", 2, grid)).toBe(6);
});

test("the first move selects the first row, and an empty grid none", () => {
  expect(moveTo("down", null, grid)).toBe(0);
  expect(moveTo("next", null, { ...grid, count: 0 })).toBeNull();
});
