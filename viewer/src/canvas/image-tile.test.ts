import { expect, test } from "vitest";
import { isLarge, visiblePart, covers } from "./image-tile";

const extent = { width: 10_000, height: 8_000 };
const area = { width: 800, height: 600 };

test("what is in sight is the image's part behind the area", () => {
  expect(visiblePart({ scale: 1, x: -2000, y: -1000 }, extent, area, 0)).toEqual({ x: 2000, y: 1000, width: 800, height: 600 });
  expect(visiblePart({ scale: 2, x: -2000, y: -1000 }, extent, area, 0)).toEqual({ x: 1000, y: 500, width: 400, height: 300 });
});

test("a margin ends at the image's edges", () => {
  expect(visiblePart({ scale: 1, x: 0, y: 0 }, extent, area, 0.25)).toEqual({ x: 0, y: 0, width: 1000, height: 750 });
  expect(visiblePart({ scale: 0.08, x: 0, y: 0 }, extent, area, 0.25)).toEqual({ x: 0, y: 0, ...extent });
});

test("a part serves while it covers what is in sight, as sharp as that is shown", () => {
  const part = { x: 1000, y: 1000, width: 1000, height: 1000, scale: 0.5 };
  const inside = { x: 1100, y: 1200, width: 800, height: 600 };

  expect(covers(part, inside, 0.5)).toBe(true);
  expect(covers(part, inside, 1)).toBe(false);
  expect(covers(part, { ...inside, x: 1300 }, 0.5)).toBe(false);
  expect(covers(null, inside, 0.5)).toBe(false);
});

test("a satellite's image is large, a camera's is not", () => {
  expect(isLarge(extent)).toBe(true);
  expect(isLarge({ width: 4000, height: 3000 })).toBe(false);
});
