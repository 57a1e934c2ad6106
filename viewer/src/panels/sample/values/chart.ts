/** Arrays as images: planes as heat maps, vectors as plots. Pure functions without a canvas. */
import type { NdArray } from "../../../fetch/numpy/npy";

export interface Plane {
  width: number;
  height: number;
  values: ArrayLike<number>;
}

/** Number of planes: the last two axes form one. */
export function planeCount({ shape }: NdArray): number {
  return shape.slice(0, -2).reduce((product, length) => product * length, 1);
}

export function planeOf(array: NdArray, index: number): Plane {
  const [height = 1, width = 1] = array.shape.slice(-2);
  const start = index * width * height;
  return { width, height, values: Array.prototype.slice.call(array.values, start, start + width * height) as number[] };
}

/** Minimum and maximum of the finite numbers. */
export function rangeOf(values: ArrayLike<number>): { low: number; high: number } {
  let [low, high] = [Infinity, -Infinity];
  // eslint-disable-next-line @typescript-eslint/prefer-for-of -- an ArrayLike has no iterator
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i] ?? Number.NaN;
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low > high ? { low: 0, high: 0 } : { low, high };
}

// Dark to bright through blue, green and yellow: brightness alone gives the order, also for colour-blind readers.
const RAMP: readonly (readonly [number, number, number])[] = [
  [22, 20, 62],
  [44, 68, 138],
  [31, 122, 140],
  [60, 176, 113],
  [178, 217, 74],
  [253, 240, 120],
];
const MISSING = [255, 0, 200] as const; // NaN and infinities: a colour outside of the ramp

export function heatColor(part: number): readonly [number, number, number] {
  if (!Number.isFinite(part)) return MISSING;
  const place = Math.min(1, Math.max(0, part)) * (RAMP.length - 1);
  const [low, high] = [RAMP[Math.floor(place)] ?? MISSING, RAMP[Math.ceil(place)] ?? MISSING];
  const rest = place - Math.floor(place);
  return [0, 1, 2].map((i) => Math.round((low[i] ?? 0) * (1 - rest) + (high[i] ?? 0) * rest)) as [number, number, number];
}

/** The pixels of a heat map, four bytes each. */
export function heatMap(plane: Plane): Uint8ClampedArray<ArrayBuffer> {
  const { low, high } = rangeOf(plane.values);
  const span = high > low ? high - low : 1;
  const out = new Uint8ClampedArray(4 * plane.values.length);
  for (let i = 0; i < plane.values.length; i += 1) {
    const value = plane.values[i] ?? Number.NaN;
    const [r, g, b] = heatColor((value - low) / span);
    out.set([r, g, b, 255], 4 * i);
  }
  return out;
}

/** The path of a plot, at most one point per column, which keeps the minimum and maximum of each. */
export function plotPath(values: ArrayLike<number>, width: number, height: number): string {
  const { low, high } = rangeOf(values);
  const y = (value: number) => (high > low ? height - ((value - low) / (high - low)) * height : height / 2).toFixed(1);
  const step = Math.max(1, Math.ceil(values.length / width));
  const parts: string[] = [];
  for (let start = 0; start < values.length; start += step) {
    const range = rangeOf(Array.prototype.slice.call(values, start, start + step) as number[]);
    const first = values[start] ?? Number.NaN;
    if (!Number.isFinite(first) && range.low === 0 && range.high === 0) continue;
    const x = values.length === 1 ? width / 2 : (start / (values.length - 1)) * width;
    const move = parts.length === 0 ? "M" : "L";
    if (step === 1) parts.push(`${move}${x.toFixed(1)} ${y(first)}`);
    else parts.push(`${move}${x.toFixed(1)} ${y(range.low)}L${x.toFixed(1)} ${y(range.high)}`);
  }
  return parts.join("");
}
