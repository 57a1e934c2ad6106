import { expect, test } from "vitest";
import { placePanes } from "./panes";

const LANDSCAPE = { width: 640, height: 480 };
const PORTRAIT = { width: 480, height: 640 };

test("on a telephone two wide images lie one above the other, and are larger so", () => {
  const { isStacked, pane, second } = placePanes({ width: 390, height: 600 }, LANDSCAPE);

  expect(isStacked).toBe(true);
  expect(pane).toEqual({ width: 390, height: 300 });
  expect(second).toEqual({ x: 0, y: 300 });
});

test("two tall images stand beside each other on a telephone too", () => {
  const { isStacked, pane, second } = placePanes({ width: 390, height: 400 }, PORTRAIT);

  expect(isStacked).toBe(false);
  expect(pane).toEqual({ width: 195, height: 400 });
  expect(second).toEqual({ x: 195, y: 0 });
});

test("on a wide page side by side is what it says", () => {
  expect(placePanes({ width: 700, height: 900 }, LANDSCAPE).isStacked).toBe(false);
});
