import { beforeEach, expect, test, vi } from "vitest";
import { PaintQueue } from "./paint-queue";

const line = {};
let frames: (() => void)[] = [];
const nextFrame = () => frames.splice(0).forEach((act) => act());

beforeEach(() => {
  frames = [];
  vi.stubGlobal("requestAnimationFrame", (act: () => void) => frames.push(act));
});

/** A queue with so many cells that wait, and the list of those that were painted. */
function waiting(count: number) {
  const queue = new PaintQueue();
  const painted: number[] = [];
  const keys = Array.from({ length: count }, () => ({}));
  keys.forEach((key, i) => queue.put(key, line, () => painted.push(i)));
  return { queue, painted, keys };
}

test("a few cells are painted in a frame, the first ones first, until all are", () => {
  const { painted } = waiting(10);

  nextFrame();
  expect(painted).toEqual([0, 1, 2, 3]);
  nextFrame();
  nextFrame();
  expect(painted).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(frames).toEqual([]);
});

test("a screen full of them is painted within some frames", () => {
  const { painted } = waiting(400);

  for (let frame = 0; frame < 30; frame += 1) nextFrame();

  expect(painted.length).toBe(400);
});

test("a cell that changed before its turn is painted once, as it is now", () => {
  const { queue, painted, keys } = waiting(2);
  queue.put(keys[0] ?? {}, line, () => painted.push(100));
  queue.drop(keys[1] ?? {});

  nextFrame();

  expect(painted).toEqual([100]);
});

test("a frame with other work paints none, the next one does although it has work too", () => {
  const { queue, painted } = waiting(4);

  queue.makeWay();
  nextFrame();
  expect(painted).toEqual([]);
  queue.makeWay();
  nextFrame();
  expect(painted.length).toBe(4);
});

test("cells of a line are painted together", () => {
  const queue = new PaintQueue();
  const painted: string[] = [];
  for (const name of ["a1", "b1", "a2", "b2", "a3", "b3"]) queue.put({}, name[0], () => painted.push(name));

  nextFrame();
  expect(painted).toEqual(["a1", "a2", "a3", "b1"]);
  nextFrame();
  expect(painted.slice(4)).toEqual(["b2", "b3"]);
});
