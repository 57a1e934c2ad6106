/**
 * Class colours: the most frequent classes of a version get the most distinct colours.
 *
 * They are based on counts of the whole version, never of a query, so that filters do not change colours. The order
 * comes from a greedy search: each colour is the one farthest (CIELAB) from all before it for the worst of normal,
 * red-blind, green-blind and blue-blind vision (Machado 2009); palette.test.ts computes the distances again. Text is
 * beside every colour.
 */
import type { ClassCount } from "../api/client";

export const COLORS = [
  "#4E9BFF",
  "#FFB02E",
  "#28E8C0",
  "#D05848",
  "#5888A8",
  "#E8E890",
  "#88D0F0",
  "#E84000",
  "#B87078",
  "#B8B878",
] as const;

export class ClassPalette {
  #ranks: Map<number, number>;

  constructor(counts: readonly ClassCount[]) {
    const ranked = [...counts].sort((a, b) => b.count - a.count || a.code - b.code);
    this.#ranks = new Map(ranked.map((entry, rank) => [entry.code, rank]));
  }

  /** The colour of a class; without a class, of an object of the row. */
  color(code: number | null, object = 0): string {
    const rank = code === null ? object : (this.#ranks.get(code) ?? code);
    return COLORS[((rank % COLORS.length) + COLORS.length) % COLORS.length] ?? COLORS[0];
  }
}

/** "#4E9BFF" → [78, 155, 255]. */
export function channelsOf(color: string): [number, number, number] {
  const number = Number.parseInt(color.slice(1), 16);
  return [(number >> 16) & 255, (number >> 8) & 255, number & 255];
}
