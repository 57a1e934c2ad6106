import { expect, test } from "vitest";
import { cellPlace, contentTop, frameTop, makeLayout, originLine, revealTop, TRACK_MAX, trackTop, visibleCells } from "./layout";

const area = { width: 840, height: 760 };
const cell = { width: 168, height: 130, keepsShape: true };
const small = makeLayout(1000, area, cell);
const huge = makeLayout(2_000_000_000, area, cell);

test("columns fill the line", () => {
  expect(small.columns).toBe(4);
  expect(small.cellWidth * 4 + 3 * 8 + 2 * 8).toBe(840);
});

test("below the browsers' clamp the track is the content", () => {
  expect(small.track).toBe(small.content);
  expect(contentTop(small, 1234)).toBe(1234);
});

test("beyond the clamp the last row is still reached", () => {
  const end = huge.track - huge.viewport;
  const { stop } = visibleCells(huge, contentTop(huge, end), 0);

  expect(huge.track).toBe(TRACK_MAX);
  expect(stop).toBe(2_000_000_000);
});

test("track and content positions are each other's inverse", () => {
  for (const top of [0, 1e6, 7e10]) expect(contentTop(huge, trackTop(huge, top))).toBeCloseTo(top, 3);
});

test("only the cells in sight and the overscan exist", () => {
  const { start, stop } = visibleCells(small, 10 * small.pitch, 1);

  expect(start).toBe(8 * 4);
  expect(stop - start).toBeLessThan(4 * (760 / small.pitch + 5));
});

test("a cell far down lies where it is seen", () => {
  const position = 1_999_999_999;
  const top = revealTop(huge, position, 0);
  const origin = originLine(huge, visibleCells(huge, top, 1));
  const y = frameTop(huge, origin, top) + cellPlace(huge, position, origin).y;

  expect(y).toBeGreaterThanOrEqual(0);
  expect(y + huge.cellHeight).toBeLessThanOrEqual(area.height);
});

test("a scroll by a line moves the frame and no cell", () => {
  const range = (top: number) => visibleCells(small, top, 0);
  const [before, after] = [10 * small.pitch, 11 * small.pitch].map((top) => originLine(small, range(top)));

  expect(after).toBe(before);
  expect(frameTop(small, before ?? 0, 11 * small.pitch)).toBe(frameTop(small, before ?? 0, 10 * small.pitch) - small.pitch);
});

test("revealing a visible row moves nothing", () => {
  expect(revealTop(small, 9, 100)).toBe(100);
});

test("cards keep their height when they stretch", () => {
  expect(makeLayout(10, area, { ...cell, keepsShape: false }).cellHeight).toBe(130);
});
