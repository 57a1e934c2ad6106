import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Paced } from "./paced";

let frames: FrameRequestCallback[] = [];
let now = 0;
const nextFrame = () => frames.splice(0).forEach((frame) => frame(now));

beforeEach(() => {
  [frames, now] = [[], 0];
  vi.stubGlobal("requestAnimationFrame", (frame: FrameRequestCallback) => frames.push(frame));
  vi.stubGlobal("cancelAnimationFrame", () => (frames = []));
  vi.spyOn(performance, "now").mockImplementation(() => now);
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

/** Each part takes two milliseconds. */
function* parts(count: number, seen: string[], name: string): Generator<void, void> {
  for (let part = 0; part < count; part += 1) {
    now += 2;
    seen.push(`${name}${part}`);
    yield;
  }
}

test("parts are done until a frame's milliseconds are spent, and go on in the next", () => {
  const [seen, spent]: [string[], number[]] = [[], []];
  new Paced((ms) => spent.push(ms)).start(() => parts(5, seen, "a"));

  nextFrame();
  expect([seen.length, spent]).toEqual([2, []]);
  nextFrame();
  nextFrame();
  expect([seen.length, spent, frames.length]).toEqual([5, [10], 0]);
});

test("what was begun is ended, and then the last that was asked for is done", () => {
  const seen: string[] = [];
  const paced = new Paced();
  paced.start(() => parts(3, seen, "a"));
  nextFrame();
  paced.start(() => parts(1, seen, "b"));
  paced.start(() => parts(1, seen, "c"));
  for (let frame = 0; frame < 4; frame += 1) nextFrame();

  expect(seen).toEqual(["a0", "a1", "a2", "c0"]);
  paced.start(() => parts(1, seen, "d"));
  paced.stop();
  nextFrame();
  expect(seen.at(-1)).toBe("c0");
});
