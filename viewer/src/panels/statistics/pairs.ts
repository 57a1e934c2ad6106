/** Rows by the values of two tensors: places along two sides, and a cell for each pair of places. */
import type { PairAxis, PairStatistics, TensorInfo } from "../../api/client";
import { formatNumber, formatPlural } from "../../format";
import { classCondition, isRangeOf, rangeConditions } from "../../query/conditions";
import { formatBound, formatRange } from "./labels";

/** A class, or a bar. */
export interface Place {
  name: string;
  conditions: readonly string[];
  /** Of the other tensor's number, in this class. */
  median: number | null;
}

export interface Side {
  title: string;
  places: readonly Place[];
  /** The ends of bars; null for classes. */
  ends: readonly [string, string] | null;
  /** How many classes are not listed. */
  more: number;
  /** Whether a condition is of this side's bars, which other bars replace. */
  isReplaced: (condition: string) => boolean;
}

export interface PairTable {
  across: Side;
  /** From top to bottom. */
  down: Side;
  /** By place of `down`, then of `across`. */
  counts: readonly (readonly number[])[];
  most: number;
}

const WITHOUT = new Set(["uuid", "audio", "video", "point_cloud", "mesh"]);

/** Whether rows can be counted by a tensor: it has classes, or a number a row. */
export function hasPlaces(tensor: TensorInfo): boolean {
  return !WITHOUT.has(tensor.kind);
}

/** Classes go down, where their names can be read; numbers go up, as in any plot. */
export function readPair(pair: PairStatistics, tensors: readonly TensorInfo[]): PairTable {
  const isTurned = pair.x.classes !== null && pair.y.classes === null;
  const [x, y] = isTurned ? [pair.y, pair.x] : [pair.x, pair.y];
  const counts = isTurned ? (pair.counts[0] ?? []).map((_, place) => pair.counts.map((line) => line[place] ?? 0)) : pair.counts;
  const [across, up] = [readSide(x, tensors, null), readSide(y, tensors, pair.medians)];
  const isUp = y.histogram !== null;
  return {
    across,
    down: isUp ? { ...up, places: up.places.toReversed() } : up,
    counts: isUp ? counts.toReversed() : counts,
    most: Math.max(1, ...counts.flat()),
  };
}

function readSide({ tensor: name, classes, histogram }: PairAxis, tensors: readonly TensorInfo[], medians: PairStatistics["medians"]): Side {
  const tensor = tensors.find((one) => one.name === name);
  if (classes !== null && tensor !== undefined) {
    const places = classes.entries.map((entry, place) => ({
      name: entry.name === "" ? "(empty string)" : entry.name,
      conditions: [classCondition(tensor, entry)],
      median: medians?.[place] ?? null,
    }));
    return { title: name, places, ends: null, more: Math.max(0, classes.distinct - places.length), isReplaced: () => false };
  }
  if (histogram === null) return { title: name, places: [], ends: null, more: 0, isReplaced: () => false };
  const places = histogram.counts.map((_, bar) => ({ name: formatRange(histogram, bar, bar), conditions: rangeConditions(histogram, bar, bar), median: null }));
  const ends = [formatBound(histogram, 0), formatBound(histogram, places.length)] as const;
  return { title: histogram.title, places, ends: places.length > 0 ? ends : null, more: 0, isReplaced: (condition) => isRangeOf(histogram.expression, condition) };
}

/** The conditions of a cell, each once. */
export function cellConditions({ across, down }: PairTable, row: number, column: number): string[] {
  return [...new Set([...(down.places[row]?.conditions ?? []), ...(across.places[column]?.conditions ?? [])])];
}

/** "cat, score 0.2 to 0.4: 12 rows" */
export function formatCell({ across, down, counts }: PairTable, row: number, column: number): string {
  const name = (side: Side, place: number) => (side.ends === null ? "" : `${side.title} `) + (side.places[place]?.name ?? "");
  return `${name(down, row)}, ${name(across, column)}: ${formatPlural(counts[row]?.[column] ?? 0, "row")}`;
}

/** What is in no cell, and why. */
export function formatOutside({ counted, placed }: PairStatistics, { across, down }: PairTable): string {
  const more = [down, across].filter((side) => side.more > 0).map((side) => `${formatPlural(side.more, "more class")} of ${side.title}`);
  if (counted === placed) return more.length === 0 ? "" : `and ${more.join(", ")}`;
  const reasons = more.length === 0 ? "NULL, empty or not finite" : `NULL, empty, not finite, or of ${more.join(", ")}`;
  return `${formatPlural(counted - placed, "row")} in no cell: ${reasons}`;
}

export function formatMedian(median: number | null): string {
  return median === null ? "" : formatNumber(Number(median.toPrecision(3)));
}

/** The strength of a cell's colour, 0 to 1: few rows can be told from none. */
export function shade(count: number, most: number): number {
  return count === 0 ? 0 : 0.15 + 0.85 * Math.sqrt(count / most);
}
