/** Colours of points, as RGBA bytes: those of classes, or a ramp for numbers; grey and faint for rows that are excluded. */
import { channelsOf, type ClassPalette } from "../../classes/palette";

/** Below it, points are drawn first, so that they hide no others. */
export const FULL = 255;
const FAINT = 90;
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
  included: ReadonlySet<number> | null;
  selected: ReadonlySet<number>;
}

export function colorPoints(rows: ArrayLike<number>, { values, classOf, palette, included, selected }: Coloring): Uint8Array {
  const colors = new Uint8Array(4 * rows.length);
  const byCode = new Map<number, Channels>();
  const scale = classOf === null ? rampOf(values) : null;
  for (let i = 0; i < rows.length; i += 1) {
    const row = rows[i] ?? 0;
    const value = values?.[i];
    const isIn = included === null || included.has(row);
    let color: Channels = ONE_COLOR;
    if (!isIn) color = GREY;
    else if (value !== undefined) color = scale === null ? classColor(value) : scale(value);
    const isFull = isIn && (selected.size === 0 || selected.has(row));
    colors.set(color, 4 * i);
    colors[4 * i + 3] = isFull ? FULL : FAINT;
  }
  return colors;

  function classColor(code: number): Channels {
    if (code < 0 || classOf === null) return GREY;
    let color = byCode.get(code);
    if (color === undefined) {
      color = channelsOf(palette.color(classOf(code)));
      byCode.set(code, color);
    }
    return color;
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
