/**
 * Class colours: the most frequent classes of a version get the most distinct ones.
 *
 * They come from the counts of the whole version, never of a query, so that a class keeps its
 * colour while one filters.
 */
import type { ClassCount } from "../api";

export const COLORS = [
  "#4E9BFF",
  "#FFB02E",
  "#33C28A",
  "#F2637E",
  "#A884F3",
  "#2CC4D6",
  "#E58A4A",
  "#B5C94A",
  "#E77FD3",
  "#8FA3BF",
] as const;

export class ClassPalette {
  #ranks: Map<number, number>;

  constructor(counts: readonly ClassCount[]) {
    const ranked = [...counts].sort((a, b) => b.count - a.count || a.code - b.code);
    this.#ranks = new Map(ranked.map((entry, rank) => [entry.code, rank]));
  }

  color(code: number | null): string {
    if (code === null) return COLORS[0];
    const rank = this.#ranks.get(code) ?? code;
    return COLORS[((rank % COLORS.length) + COLORS.length) % COLORS.length] ?? COLORS[0];
  }
}
