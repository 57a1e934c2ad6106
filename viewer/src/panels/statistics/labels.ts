/** Statistics as text: bounds, ranges, sampled rows. */
import type { Histogram } from "../../api/client";
import { formatCount, formatNumber, formatPlural, isNaming } from "../../format";

/** A bar's edge: integers of any size, and times without quotes. */
export function formatBound(histogram: Histogram, edge: number): string {
  const text = histogram.bounds[edge] ?? "";
  if (text.startsWith("'")) return formatTime(text);
  if (histogram.is_whole) return formatWhole(histogram, BigInt(text));
  return formatNumber(histogram.edges[edge] ?? 0);
}

/** Bars `first` to `last`: "12 to 20: 7", "3: 12 rows". */
export function formatBars(histogram: Histogram, first: number, last: number): string {
  const count = histogram.counts.slice(first, last + 1).reduce((sum, one) => sum + one, 0);
  const told = histogram.per === "row" ? formatPlural(count, "row") : formatCount(count);
  return `${formatRange(histogram, first, last)}: ${told}`;
}

/** Ranges of integers include both ends; others exclude the upper end, except for the last bar. */
export function formatRange(histogram: Histogram, first: number, last: number): string {
  const [low, high] = [formatBound(histogram, first), formatBound(histogram, last + 1)];
  if (!histogram.is_whole) return low === high ? low : `${low} to ${high}`;
  const isEnd = last === histogram.counts.length - 1 && histogram.bounds.at(-1) === histogram.maximum;
  const end = BigInt(histogram.bounds[last + 1] ?? "0") - (isEnd ? 0n : 1n);
  const shown = formatWhole(histogram, end);
  return shown === low ? low : `${low} to ${shown}`;
}

/** The text under a plot until a bar is hovered. */
export function formatMean({ mean, is_rising: isRising }: Histogram): string {
  const told = mean === null ? [] : [`mean ${formatNumber(Number(mean.toPrecision(4)))}`];
  return [...told, ...(isRising ? ["bin widths 1, 2, 5, …"] : [])].join(" · ");
}

/** The number of rows counted, where not all were. */
export function formatSampled(counted: number, rows: number): string {
  return `${formatCount(counted)} of ${formatPlural(rows, "row")}, sampled evenly`;
}

/** Years and ids have no separators. */
function formatWhole(histogram: Histogram, value: bigint): string {
  return !histogram.expression.includes("(") && isNaming(histogram.expression) ? String(value) : value.toLocaleString("en-US");
}

function formatTime(text: string): string {
  return text.slice(1, -1).replace("T", " ").replace(/Z$/, "");
}
