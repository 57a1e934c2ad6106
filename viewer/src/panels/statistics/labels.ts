/** What statistics say in words: bounds, ranges, parts of the rows. */
import type { Histogram } from "../../api/client";
import { formatCount, formatNumber, formatPlural } from "../../format";

/** An edge as people read it; whole numbers of any size, and times without their quotes. */
export function sayBound(histogram: Histogram, edge: number): string {
  const text = histogram.bounds[edge] ?? "";
  if (text.startsWith("'")) return sayTime(text);
  if (histogram.is_whole) return BigInt(text).toLocaleString("en-US");
  return formatNumber(histogram.edges[edge] ?? 0);
}

/** Bars `first` to `last`: "12 to 20: 7", "3: 12 rows". */
export function sayBars(histogram: Histogram, first: number, last: number): string {
  const count = histogram.counts.slice(first, last + 1).reduce((sum, one) => sum + one, 0);
  const told = histogram.per === "row" ? formatPlural(count, "row") : formatCount(count);
  return `${sayRange(histogram, first, last)}: ${told}`;
}

/** Of whole numbers both ends are among them; of others the second is not, but for the last. */
export function sayRange(histogram: Histogram, first: number, last: number): string {
  const [low, high] = [sayBound(histogram, first), sayBound(histogram, last + 1)];
  if (!histogram.is_whole) return low === high ? low : `${low} to ${high}`;
  const isEnd = last === histogram.counts.length - 1 && histogram.bounds.at(-1) === histogram.maximum;
  const end = BigInt(histogram.bounds[last + 1] ?? "0") - (isEnd ? 0n : 1n);
  const shown = end.toLocaleString("en-US");
  return shown === low ? low : `${low} to ${shown}`;
}

/** What stands under a plot until a bar is pointed at. */
export function sayMean({ mean, is_rising: isRising }: Histogram): string {
  const told = mean === null ? [] : [`mean ${formatNumber(Number(mean.toPrecision(4)))}`];
  return [...told, ...(isRising ? ["steps of 1, 2, 5"] : [])].join(" · ");
}

/** Which rows were counted, where they are not all. */
export function sayPart(counted: number, rows: number): string {
  return `of ${formatCount(counted)} of ${formatPlural(rows, "row")}, spread evenly`;
}

function sayTime(text: string): string {
  return text.slice(1, -1).replace("T", " ").replace(/Z$/, "");
}
