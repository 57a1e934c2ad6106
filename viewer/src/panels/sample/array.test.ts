import { expect, test } from "vitest";
import type { Shape } from "../../lenses";
import { heatColor, heatMap, planeCount, planeOf, plotPath, rangeOf } from "./chart";
import { iou, matchShapes, sayMatches } from "../../overlays/matching";
import { halfToNumber, parseNpy } from "../../fetch/npy";

/** What np.save writes. */
function npy(descr: string, shape: string, elements: ArrayBuffer): ArrayBuffer {
  const text = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${shape}), }`;
  const header = text.padEnd(117) + "\n"; // 10 + 118 = 128
  const head = Uint8Array.of(0x93, ...new TextEncoder().encode("NUMPY"));
  const out = new Uint8Array(10 + header.length + elements.byteLength);
  out.set(head);
  out.set([1, 0, header.length, 0], 6);
  out.set(new TextEncoder().encode(header), 10);
  out.set(new Uint8Array(elements), 10 + header.length);
  return out.buffer;
}

test("an array is read as NumPy wrote it", () => {
  const array = parseNpy(npy("<f4", "2, 3", Float32Array.from([1, 2, 3, 4, 5, 6.5]).buffer));

  expect(array.shape).toEqual([2, 3]);
  expect([...(array.values as Float32Array)]).toEqual([1, 2, 3, 4, 5, 6.5]);
});

test("whole numbers of 64 bits and halves are numbers too", () => {
  expect([...(parseNpy(npy("<i8", "2,", BigInt64Array.from([-3n, 7n]).buffer)).values as Float64Array)]).toEqual([-3, 7]);
  expect([0x3c00, 0xc000, 0x3555, 0x0001].map(halfToNumber)).toEqual([1, -2, 0.333251953125, 2 ** -24]);
});

test("what NumPy did not write is refused with words", () => {
  expect(() => parseNpy(new ArrayBuffer(16))).toThrow("no array that NumPy wrote");
  expect(() => parseNpy(npy("<c8", "1,", new ArrayBuffer(8)))).toThrow("c8");
});

test("an array of many planes is looked at one by one", () => {
  const cube = { shape: [2, 3, 4], dtype: "f4", values: Array.from({ length: 24 }, (_, i) => i) };

  expect(planeCount(cube)).toBe(2);
  expect(planeOf(cube, 1)).toEqual({ width: 4, height: 3, values: [12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23] });
});

test("a heat map goes from dark to bright, and NaN is in no order", () => {
  const brightness = (part: number) => heatColor(part).reduce((sum, one, i) => sum + one * ([0.2, 0.7, 0.1][i] ?? 0), 0);
  const steps = Array.from({ length: 11 }, (_, i) => brightness(i / 10));
  const pixels = heatMap({ width: 3, height: 1, values: [5, Number.NaN, 9] });

  expect(steps).toEqual([...steps].sort((a, b) => a - b));
  expect(Array.from(pixels.slice(0, 3))).toEqual([...heatColor(0)]);
  expect(Array.from(pixels.slice(4, 7))).toEqual([...heatColor(Number.NaN)]);
  expect(Array.from(pixels.slice(8, 11))).toEqual([...heatColor(1)]);
});

test("a plot keeps the peaks of more numbers than it has columns", () => {
  const values = Array.from({ length: 10_000 }, (_, i) => (i === 7777 ? 100 : 0));

  expect(plotPath([0, 1, 0.5], 100, 10)).toBe("M0.0 10.0L50.0 0.0L100.0 5.0");
  expect(plotPath(values, 100, 10)).toContain(" 0.0");
  expect(rangeOf([Number.NaN, 3, -Infinity, 1])).toEqual({ low: 1, high: 3 });
});

const box = (x: number, isPredicted: boolean, more: Partial<Shape> = {}): Shape => ({
  x,
  y: 0,
  width: 10,
  height: 10,
  path: { kind: "box" },
  code: 0,
  label: "cat",
  score: isPredicted ? 0.5 : null,
  isPredicted,
  ...more,
});

test("the overlap of two boxes is that of their areas", () => {
  expect(iou(box(0, false), box(5, true))).toBeCloseTo(5 / 15);
  expect(iou(box(0, false), box(10, true))).toBe(0);
});

test("the surest prediction takes the box, the other one is extra", () => {
  const truth = box(0, false);
  const [sure, unsure] = [box(2, true, { score: 0.9 }), box(0, true, { score: 0.3 })];

  const matching = matchShapes([truth, unsure, sure]);

  expect(matching.matched.map(({ guess }) => guess)).toEqual([sure]);
  expect(matching.extra).toEqual([unsure]);
  expect(matching.missed).toEqual([]);
});

test("a box of another class is no match", () => {
  const truth = box(0, false);
  const matching = matchShapes([truth, box(0, true, { code: 1, label: "dog" })]);

  expect(matching.missed).toEqual([truth]);
  expect(matching.extra).toHaveLength(1);
});

test("every shape says what became of it", () => {
  const shapes = [box(0, false), box(50, false), box(0, true), box(90, true)];

  expect(sayMatches(shapes, matchShapes(shapes)).map((shape) => shape.label)).toEqual([
    "cat",
    "cat · missed",
    "cat · IoU 1.00",
    "cat · extra",
  ]);
});
