import { expect, test } from "vitest";
import type { Curve, RunInfo } from "../../api/client";
import { bandPath, curveOfRow, describePoint, describeStatus, frameOf, lastValue, meanPath, nearest, pointAt, worstRows, xOf, yOf, zoomSpan } from "./curves";

const SIZE = { width: 100, height: 50 };

/** A curve with one point for each step. */
function curveOf(mean: (number | null)[], start = 0): Curve {
  const steps = mean.map((_, i) => start + i);
  return { metric: "loss", start, stop: start + mean.length, first: steps, last: steps, low: mean, high: mean, mean, at: steps, others: mean.map((value) => (value === null ? 1 : 0)) };
}

/** Points of ten steps. */
const wide: Curve = { metric: "loss", start: 0, stop: 30, first: [0, 10, 20], last: [9, 19, 29], low: [1, null, 0], high: [5, null, 2], mean: [3, null, 1], at: [4, 19, 21], others: [0, 10, 2] };

test("a frame holds all steps and finite values of all curves", () => {
  expect(frameOf([curveOf([1, 3, null]), curveOf([-2], 7)])).toEqual({ start: 0, stop: 8, low: -2, high: 3 });
  expect(frameOf([curveOf([2, 2])])).toMatchObject({ low: 1.8, high: 2.2 });
  expect(frameOf([curveOf([0])])).toMatchObject({ start: 0, stop: 1 });
  expect(frameOf([curveOf([null])])).toEqual({ start: 0, stop: 1, low: 0, high: 1 });
  expect(frameOf([])).toEqual({ start: 0, stop: 1, low: 0, high: 1 });
});

test("steps go from left to right, and values from the bottom up", () => {
  const frame = { start: 0, stop: 10, low: 0, high: 5 };

  expect([xOf(0, frame, SIZE), xOf(9, frame, SIZE)]).toEqual([5, 95]);
  expect([yOf(0, frame, SIZE), yOf(5, frame, SIZE)]).toEqual([50, 0]);
});

test("a zoom keeps the step under the pointer, within the steps of the run", () => {
  expect(zoomSpan({ start: 0, stop: 100 }, 50, 1, 100)).toEqual([25, 75]);
  expect(zoomSpan({ start: 0, stop: 100 }, 0, 1, 100)).toEqual([0, 50]);
  expect(zoomSpan({ start: 25, stop: 75 }, 70, -1, 1000)).toEqual([0, 100]);
  expect(zoomSpan({ start: 900, stop: 1000 }, 990, -1, 1000)).toEqual([800, 1000]);
  expect(zoomSpan({ start: 25, stop: 75 }, 50, -1, 100)).toBeNull();
  expect(zoomSpan({ start: 7, stop: 8 }, 7, 1, 100)).toEqual([7, 8]);
});

test("values of a row are a curve over its steps, without those at which nothing was logged", () => {
  const curve = curveOfRow("loss", { steps: [3, 9, 12, 40], total: 4, values: { loss: [1, null, "NaN", 2] } });

  expect(curve).toMatchObject({ start: 3, stop: 41, first: [3, 12, 40], last: [3, 12, 40], mean: [1, null, 2], others: [0, 1, 0] });
  expect(describePoint(curve, 1)).toBe("step 12 · loss not finite");
  expect(curveOfRow("acc", { steps: [3], total: 1, values: {} })).toMatchObject({ first: [], mean: [] });
});

test("a value that is not finite interrupts the line, and one alone is a dot", () => {
  const curve = curveOf([0, 1, null, 1, null, 0]);

  expect(meanPath(curve, frameOf([curve]), { width: 60, height: 10 })).toBe("M5.0 10.0L15.0 0.0M35.0 0.0h0.01M55.0 10.0h0.01");
  expect(bandPath(curve, frameOf([curve]), SIZE)).toBe("");
});

test("the band has a piece for each stretch of values", () => {
  expect(bandPath(wide, frameOf([wide]), { width: 30, height: 50 })).toBe("M5.0 0.0L5.0 40.0ZM25.0 30.0L25.0 50.0Z");
});

test("the point of a step is the one that has it, or the nearest", () => {
  expect([0, 9, 10, 29, 400].map((step) => pointAt(wide, step))).toEqual([0, 0, 1, 2, 2]);
  const sparse = { ...curveOf([1, 2]), first: [0, 100], last: [0, 100] };
  expect([-5, 30, 80, 100].map((step) => pointAt(sparse, step))).toEqual([0, 0, 1, 1]);
  expect(pointAt({ ...wide, first: [], last: [] }, 3)).toBeNull();
});

test("of several lines the nearest in height is told of", () => {
  const lines = [curveOf([0, 0, 0, 0]), curveOf([4, 4, 4, 4])].map((curve, i) => ({ run: `run ${i}`, color: "#fff", curve }));
  const frame = frameOf(lines.map(({ curve }) => curve));

  expect(nearest(lines, frame, SIZE, 30, 5)).toEqual({ line: 1, point: 1 });
  expect(nearest(lines, frame, SIZE, 99, 45)).toEqual({ line: 0, point: 3 });
  expect(nearest([], frame, SIZE, 0, 0)).toBeNull();
});

test("a point is told with its steps, its range, and where it is highest", () => {
  expect(describePoint(curveOf([0.123456]), 0)).toBe("step 0 · loss 0.1235");
  expect(describePoint(wide, 0)).toBe("steps 0 to 9 · loss 3 (1 to 5, highest at 4)");
  expect(describePoint(wide, 1)).toBe("steps 10 to 19 · loss not finite");
  expect(describePoint(wide, 2)).toBe("steps 20 to 29 · loss 1 (0 to 2, highest at 21), 2 not finite");
});

test("a run is told by its state and its last loss", () => {
  const run: RunInfo = { name: "a", status: "unfinished", updated: "2026-11-29T00:00:00+00:00", last: { acc: 1, "train/loss": 0.25 } };

  expect(describeStatus(run, Date.parse("2026-11-29T02:00:00Z"))).toBe("stopped within an epoch, 2 hours ago");
  expect(describeStatus({ ...run, status: "recording" }, 0)).toBe("recording");
  expect(lastValue(run)).toBe("train/loss 0.25");
  expect(lastValue({ ...run, last: { acc: "NaN" } })).toBe("acc NaN");
  expect(lastValue({ name: "a", status: "empty" })).toBe("");
});

test("the query for the worst rows quotes the names of the run and the value", () => {
  expect(worstRows("it's", "loss")).toBe("SELECT *, RUN('it''s', 'loss') AS logged WHERE RUN('it''s', 'loss') IS NOT NULL ORDER BY RUN('it''s', 'loss') DESC");
});
