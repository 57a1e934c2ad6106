import { expect, test } from "vitest";
import { containFit } from "./geometry";
import { panBy, wheelFactor, zoomAt } from "./zoom";

const image = { width: 640, height: 480 };
const area = { width: 800, height: 480 };
const whole = containFit(image, area);

test("at first the whole image is seen, centred", () => {
  expect(whole).toEqual({ scale: 1, x: 80, y: 0 });
});

test("what is under the pointer stays under it", () => {
  const at = { x: 300, y: 200 };
  const before = { x: (at.x - whole.x) / whole.scale, y: (at.y - whole.y) / whole.scale };
  const near = zoomAt(whole, 4, at, image, area);

  expect((at.x - near.x) / near.scale).toBeCloseTo(before.x);
  expect((at.y - near.y) / near.scale).toBeCloseTo(before.y);
});

test("zooming in and out again ends where it began", () => {
  const near = zoomAt(whole, wheelFactor(-300), { x: 500, y: 100 }, image, area);
  const back = zoomAt(near, wheelFactor(300), { x: 100, y: 400 }, image, area);

  expect(back.scale).toBeCloseTo(1);
  expect(back.x).toBeCloseTo(80);
});

test("an image cannot be dragged out of sight", () => {
  const near = zoomAt(whole, 2, { x: 400, y: 240 }, image, area);
  const far = panBy(near, { x: 9999, y: -9999 }, image, area);

  expect(far).toEqual({ scale: 2, x: 0, y: 480 - 960 });
});

test("there is a closest look, and none from farther than the whole", () => {
  expect(zoomAt(whole, 1e9, { x: 0, y: 0 }, image, area).scale).toBe(64);
  expect(zoomAt(whole, 1e-9, { x: 0, y: 0 }, image, area).scale).toBe(1);
});
