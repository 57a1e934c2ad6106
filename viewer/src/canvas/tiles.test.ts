import { expect, test } from "vitest";
import { placeTiles } from "./tiles";

const area = { width: 168, height: 126 };

test("one image has the whole area", () => {
  expect(placeTiles(1, area)).toEqual([{ x: 0, y: 0, ...area }]);
});

test("six cameras are two lines of three, in reading order", () => {
  const tiles = placeTiles(6, { width: 320, height: 160 });

  expect(tiles.map(({ x, y }) => [Math.round(x), Math.round(y)])).toEqual([[0, 0], [107, 0], [215, 0], [0, 81], [107, 81], [215, 81]]);
});

test("tiles never overlap and never leave their area, however many there are", () => {
  for (let count = 1; count <= 12; count += 1) {
    const tiles = placeTiles(count, area);
    for (const [i, a] of tiles.entries()) {
      expect(a.x + a.width).toBeLessThanOrEqual(area.width + 1e-9);
      expect(a.y + a.height).toBeLessThanOrEqual(area.height + 1e-9);
      for (const b of tiles.slice(i + 1)) expect(a.x + a.width <= b.x || a.y + a.height <= b.y || b.x + b.width <= a.x).toBe(true);
    }
  }
});
