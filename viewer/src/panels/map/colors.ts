/** Colours of points, as RGBA bytes: those of classes, or a ramp for numbers; grey and faint for rows that are excluded. */
import { channelsOf, type ClassPalette } from "../../classes/palette";
import type { RowSet } from "../../state/rows/row-set";

/** Below it, points are drawn first, so that they hide no others. */
export const FULL = 255;
const FAINT = 90;
const MOST_KEPT = 10_000; // colours of classes; numbers are rarely the same
const GREY: Channels = [128, 136, 148];
const ONE_COLOR: Channels = [78, 155, 255];
/** Dark blue to yellow: readable on both themes, and in grey. */
const RAMP: readonly Channels[] = [
  [68, 84, 160],
  [46, 132, 152],
  [58, 172, 124],
  [160, 200, 72],
  [250, 216, 60],
];
type Channels = readonly [number, number, number];

export interface Coloring {
  values: ArrayLike<number> | null;
  /** The class of a code, in all tensors; null where values are numbers. */
  classOf: ((code: number) => number) | null;
  palette: ClassPalette;
  /** Rows that the query includes; null for all. */
  included: Rows | null;
}

type Rows = Pick<RowSet, "size" | "has">;

/** Colours without a selection, which changes more often: fadeUnselected adds it. */
export function colorPoints(rows: ArrayLike<number>, { values, classOf, palette, included }: Coloring): Uint8Array<ArrayBuffer> {
  const colors = new Uint32Array(rows.length);
  const grey = pixelOf(GREY);
  const pixels = new Map<number, number>();
  const shadeOf = classOf === null ? rampOf(values) : (code: number) => (code < 0 ? GREY : channelsOf(palette.color(classOf(code))));
  for (let i = 0; i < rows.length; i += 1) {
    if (included !== null && !included.has(rows[i] ?? 0)) {
      colors[i] = faint(grey);
      continue;
    }
    const value = values?.[i];
    let pixel = value === undefined ? undefined : pixels.get(value);
    if (pixel === undefined) {
      pixel = pixelOf(value === undefined ? ONE_COLOR : shadeOf(value));
      if (value !== undefined && pixels.size < MOST_KEPT) pixels.set(value, pixel);
    }
    colors[i] = pixel;
  }
  return new Uint8Array(colors.buffer);
}

/** A colour as images have it: red is the lowest byte. */
function pixelOf([red, green, blue]: Channels): number {
  return (FULL << 24) | (blue << 16) | (green << 8) | red;
}

function faint(pixel: number): number {
  return (pixel & 0xffffff) | (FAINT << 24);
}

/** Puts into `faded` the colours where rows are selected, and fainter ones elsewhere; without a selection the same. */
export function fadeUnselected(colors: Uint8Array<ArrayBuffer>, rows: ArrayLike<number>, selected: Rows, faded: Uint8Array<ArrayBuffer>): void {
  if (selected.size === 0) {
    faded.set(colors);
    return;
  }
  const [from, to] = [new Uint32Array(colors.buffer), new Uint32Array(faded.buffer)];
  for (let i = 0; i < rows.length; i += 1) {
    const color = from[i] ?? 0;
    to[i] = selected.has(rows[i] ?? 0) ? color : faint(color);
  }
}

/** The smallest and largest finite value; null where there is none. */
export function rangeOf(values: ArrayLike<number> | null): readonly [number, number] | null {
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < (values?.length ?? 0); i += 1) {
    const value = values?.[i] ?? NaN;
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? [low, high] : null;
}

function rampOf(values: ArrayLike<number> | null): (value: number) => Channels {
  const [low, high] = rangeOf(values) ?? [0, 1];
  return (value) => {
    if (!Number.isFinite(value)) return GREY;
    const at = high > low ? ((value - low) / (high - low)) * (RAMP.length - 1) : 0;
    const [before, after] = [RAMP[Math.floor(at)] ?? GREY, RAMP[Math.ceil(at)] ?? GREY];
    const mixed = before.map((channel, i) => channel + ((after[i] ?? 0) - channel) * (at % 1));
    return [mixed[0] ?? 0, mixed[1] ?? 0, mixed[2] ?? 0];
  };
}

export const RAMP_CSS = `linear-gradient(90deg, ${RAMP.map((channels) => `rgb(${channels.join(" ")})`).join(", ")})`;
