/** Curves of metrics as paths, the points that a pointer or a key reaches, and their words. */
import type { CellValue, Curve, RunInfo, SeenSteps } from "../../api/client";
import { formatAge, formatCount, formatNumber } from "../../format";
import { quoteText } from "../../query/literals";

/** A curve of one run; `color` is that of the run in all charts. */
export interface Line {
  run: string;
  color: string;
  curve: Curve;
}

/** What a chart shows: steps from left to right, values from bottom to top. */
export interface Frame {
  start: number;
  stop: number;
  low: number;
  high: number;
}

export interface Size {
  width: number;
  height: number;
}

/** All steps and all finite values of some curves, and a little room where values are all equal. */
export function frameOf(curves: readonly Curve[]): Frame {
  const known = (values: readonly (number | null)[]) => values.filter((value) => value !== null);
  const low = curves.reduce((least, { low: values }) => known(values).reduce((a, b) => Math.min(a, b), least), Infinity);
  const high = curves.reduce((most, { high: values }) => known(values).reduce((a, b) => Math.max(a, b), most), -Infinity);
  const start = Math.min(...curves.map((one) => one.start));
  const stop = Math.max(...curves.map((one) => one.stop));
  if (!Number.isFinite(low)) return { start: Number.isFinite(start) ? start : 0, stop: Number.isFinite(stop) ? stop : 1, low: 0, high: 1 };
  const room = high > low ? 0 : Math.max(Math.abs(low) / 10, 1e-9);
  return { start, stop: Math.max(stop, start + 1), low: low - room, high: high + room };
}

/** Half of the steps around one, or twice as many, of a run that has `count`; null for all of them. */
export function zoomSpan({ start, stop }: Pick<Frame, "start" | "stop">, at: number, step: 1 | -1, count: number): readonly [number, number] | null {
  const wide = Math.max(1, Math.round(step === 1 ? (stop - start) / 2 : (stop - start) * 2));
  if (wide >= count) return null;
  const share = (at - start) / (stop - start); // the step stays where it is
  const from = Math.min(count - wide, Math.max(0, Math.round(at - share * wide)));
  return [from, from + wide];
}

/** The values that were logged of a row as a curve over the steps that had it. */
export function curveOfRow(name: string, { steps, values }: SeenSteps): Curve {
  const logged = values[name] ?? [];
  const at = steps.filter((_, i) => logged[i] != null);
  const mean = logged.filter((value) => value !== null).map((value) => (typeof value === "number" ? value : null)); // others are words, as "NaN"
  return { metric: name, start: at[0] ?? 0, stop: (at.at(-1) ?? 0) + 1, first: at, last: at, at, low: mean, high: mean, mean, others: mean.map((value) => (value === null ? 1 : 0)) };
}

/** The middle of a step. */
export function xOf(step: number, { start, stop }: Frame, { width }: Size): number {
  return ((step + 0.5 - start) / (stop - start)) * width;
}

export function yOf(value: number, { low, high }: Frame, { height }: Size): number {
  return height - ((value - low) / (high - low)) * height;
}

/** The path of the means; points without a finite value interrupt it. */
export function meanPath(curve: Curve, frame: Frame, size: Size): string {
  let isDown = false;
  const parts = curve.mean.map((value, i) => {
    const move = isDown ? "L" : "M";
    isDown = value !== null;
    if (value === null) return "";
    const [x, y] = [pointX(curve, i, frame, size), yOf(value, frame, size).toFixed(1)];
    const isAlone = move === "M" && (curve.mean[i + 1] ?? null) === null;
    return `${move}${x} ${y}${isAlone ? "h0.01" : ""}`; // a line of no length is a dot, by its round ends
  });
  return parts.join("");
}

/** The area between the lowest and the highest values, in pieces without a gap; "" where each point is one step. */
export function bandPath(curve: Curve, frame: Frame, size: Size): string {
  if (curve.low.every((low, i) => low === curve.high[i])) return "";
  const pieces: string[][] = [[]];
  curve.high.forEach((value, i) => {
    if (value === null) pieces.push([]);
    else pieces.at(-1)?.push(`${pointX(curve, i, frame, size)} ${yOf(value, frame, size).toFixed(1)}`);
  });
  let end = curve.low.length - 1;
  const lows = pieces.map(() => [] as string[]);
  for (let piece = pieces.length - 1; piece >= 0; piece -= 1, end -= 1) {
    for (; end >= 0 && curve.low[end] !== null; end -= 1) lows[piece]?.push(`${pointX(curve, end, frame, size)} ${yOf(curve.low[end] ?? 0, frame, size).toFixed(1)}`);
  }
  return pieces.flatMap((piece, i) => (piece.length === 0 ? [] : `M${[...piece, ...(lows[i] ?? [])].join("L")}Z`)).join("");
}

function pointX(curve: Curve, i: number, frame: Frame, size: Size): string {
  return xOf(((curve.first[i] ?? 0) + (curve.last[i] ?? 0)) / 2, frame, size).toFixed(1);
}

/** The line and its point nearest to a place of the chart; null without a point. */
export function nearest(lines: readonly Line[], frame: Frame, size: Size, x: number, y: number): { line: number; point: number } | null {
  const step = frame.start + (x / size.width) * (frame.stop - frame.start);
  let found: { line: number; point: number } | null = null;
  let least = Infinity;
  lines.forEach(({ curve }, line) => {
    const point = pointAt(curve, Math.floor(step));
    const mean = point === null ? null : (curve.mean[point] ?? null);
    const away = mean === null ? Number.MAX_VALUE : Math.abs(yOf(mean, frame, size) - y);
    if (point !== null && away < least) [found, least] = [{ line, point }, away];
  });
  return found;
}

/** The point that has a step, or the nearest one; null without any. */
export function pointAt({ first, last }: Curve, step: number): number | null {
  if (first.length === 0) return null;
  let [low, high] = [0, first.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((last[middle] ?? 0) < step) low = middle + 1;
    else high = middle;
  }
  const before = low > 0 && step < (first[low] ?? 0) && step - (last[low - 1] ?? 0) < (first[low] ?? 0) - step;
  return before ? low - 1 : low;
}

/** "step 41,200", or "steps 41,000 to 41,199 · highest at 41,123"; then its value. */
export function describePoint({ metric, first, last, low, high, mean, at, others }: Curve, i: number): string {
  const [from = 0, to = 0, value = null] = [first[i], last[i], mean[i]];
  const isOne = from === to;
  const steps = isOne ? `step ${formatCount(from)}` : `steps ${formatCount(from)} to ${formatCount(to)}`;
  const text = value === null ? "not finite" : formatValue(value);
  const range = isOne || value === null || low[i] === high[i] ? "" : ` (${formatValue(low[i] ?? 0)} to ${formatValue(high[i] ?? 0)}, highest at ${formatCount(at[i] ?? 0)})`;
  const odd = value !== null && (others[i] ?? 0) > 0 ? `, ${formatCount(others[i] ?? 0)} not finite` : "";
  return `${steps} · ${metric} ${text}${range}${odd}`;
}

export function formatValue(value: number): string {
  return formatNumber(Number(value.toPrecision(4)));
}

/** A number, or "NaN" and "Infinity". */
export function formatScalar(value: CellValue): string {
  return typeof value === "number" ? formatValue(value) : typeof value === "string" ? value : JSON.stringify(value);
}

const WORDS: Readonly<Record<RunInfo["status"], string>> = {
  recording: "recording",
  complete: "complete",
  unfinished: "stopped within an epoch",
  empty: "no steps",
  unreadable: "cannot be read",
};

export function describeStatus({ status, updated }: RunInfo, now: number): string {
  return updated == null || status === "recording" ? WORDS[status] : `${WORDS[status]}, ${formatAge(updated, now)}`;
}

/** The last value of a loss, or of the first metric. */
export function lastValue({ last }: RunInfo): string {
  const names = Object.keys(last ?? {});
  const name = names.find((one) => /loss/i.test(one)) ?? names[0];
  if (name === undefined) return "";
  return `${name} ${formatScalar(last?.[name] ?? null)}`;
}

/** The query for the rows for which a run logged the largest values. */
export function worstRows(run: string, value: string): string {
  const logged = `RUN(${quoteText(run)}, ${quoteText(value)})`;
  return `SELECT *, ${logged} AS logged WHERE ${logged} IS NOT NULL ORDER BY ${logged} DESC`;
}
