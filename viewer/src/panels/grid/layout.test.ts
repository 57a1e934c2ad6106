import { expect, test } from "vitest";
import { anchorAt, anchoredTop, anchorOf, cellPlace, clampTop, contentTop, countSlots, frameTop, GAP, lineAt, lineTop, makeLayout, originLine, revealTop, TRACK_MAX, trackTop, visibleCells } from "./layout";

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

test("a scroll by a line moves no cell: on the track nothing, beyond the clamp their frame", () => {
  for (const [layout, moved] of [[small, 0], [huge, huge.pitch]] as const) {
    const tops = [70 * layout.pitch, 71 * layout.pitch];
    const [before = 0, after] = tops.map((top) => originLine(layout, visibleCells(layout, top, 0)));
    const [first = 0, second = 0] = tops.map((top) => frameTop(layout, before, top));

    expect(after).toBe(before);
    expect(first - second).toBe(moved);
  }
});

test("there are as many cells wherever one scrolls to, each in a slot of its own", () => {
  const slots = countSlots(small, 2);
  for (let top = 20 * small.pitch; top < 22 * small.pitch; top += 7) {
    const { start, stop } = visibleCells(small, top, 2);
    expect(stop - start).toBe(slots);
    expect(small.pitch * Math.floor(start / small.columns)).toBeLessThanOrEqual(top - 2 * small.pitch);
    expect(small.pitch * Math.floor(stop / small.columns)).toBeGreaterThanOrEqual(top + small.viewport);
  }
});

test("the first line in sight is found again, in a narrower window too", () => {
  const top = lineTop(small, 400);
  const narrow = makeLayout(1000, { ...area, width: 400 }, cell);

  expect(lineAt(small, top) * small.columns).toBe(400);
  expect(lineAt(narrow, lineTop(narrow, 400)) * narrow.columns).toBe(400);
  expect(lineTop(small, 99_999)).toBe(clampTop(small, Infinity));
});

test("revealing a visible row moves nothing", () => {
  expect(revealTop(small, 9, 100)).toBe(100);
});

test("a caption has its own strip, which covers no image and keeps its height", () => {
  const wide = makeLayout(10, { width: 1600, height: 760 }, { ...cell, foot: 22 });

  for (const layout of [wide, makeLayout(10, area, { ...cell, foot: 22 })]) expect(layout.cellHeight - layout.imageHeight).toBe(22);
});

test("cards keep their height when they stretch", () => {
  expect(makeLayout(10, area, { ...cell, keepsShape: false }).cellHeight).toBe(130);
});

test("a point under the pointer keeps its offset when cells grow", () => {
  const area = { width: 900, height: 600 };
  const small = makeLayout(1000, area, { width: 168, height: 126, keepsShape: true, foot: 22 });
  const large = makeLayout(1000, area, { width: 320, height: 240, keepsShape: true, foot: 22 });
  const at = { x: 400, y: 350 };
  const anchor = anchorAt(small, 5000, at);

  const top = anchoredTop(large, anchor);

  const line = Math.floor(anchor.position / large.columns);
  expect(GAP + line * large.pitch + anchor.share * large.cellHeight - top).toBeCloseTo(at.y, 6);
  expect(anchoredTop(small, anchor)).toBeCloseTo(5000, 6);
  expect(anchoredTop(small, anchorOf(small, 5000, 160))).toBeCloseTo(5000, 6);
});
