/** Colours of values: from blue for the least to yellow for the greatest, as the server draws thumbnails. */
const RAMP = [[40, 60, 140], [30, 130, 150], [70, 185, 110], [230, 215, 80]] as const;
const OUTER = 0.01; // a few outliers would leave one colour for the rest
const SAMPLED = 4096; // values that the range is taken of

export interface Range {
  low: number;
  high: number;
}

/** The range of values without the outer hundredths. */
export function rangeOf(count: number, value: (i: number) => number): Range {
  const step = Math.max(1, Math.floor(count / SAMPLED));
  const sampled: number[] = [];
  for (let i = 0; i < count; i += step) if (Number.isFinite(value(i))) sampled.push(value(i));
  sampled.sort((a, b) => a - b);
  const at = (share: number) => sampled[Math.round(share * (sampled.length - 1))] ?? 0;
  return { low: at(OUTER), high: at(1 - OUTER) };
}

/** Three bytes for each value. */
export function rampColors(count: number, value: (i: number) => number, { low, high }: Range): Uint8Array {
  const rgb = new Uint8Array(3 * count);
  for (let i = 0; i < count; i += 1) {
    const share = high > low ? Math.min(1, Math.max(0, (value(i) - low) / (high - low))) : 0;
    const place = (Number.isNaN(share) ? 0 : share) * (RAMP.length - 1);
    const stop = Math.min(RAMP.length - 2, Math.floor(place));
    for (let channel = 0; channel < 3; channel += 1) {
      const [from, to] = [RAMP[stop]?.[channel] ?? 0, RAMP[stop + 1]?.[channel] ?? 0];
      rgb[3 * i + channel] = from + (to - from) * (place - stop);
    }
  }
  return rgb;
}
