/**
 * Class colours: the most frequent classes of a version get the most distinct colours; after twenty, the same colours
 * are hatched, then checked, so that sixty classes look different.
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
  "#FC00E4",
  "#F00C9C",
  "#E4FCFC",
  "#FC9048",
  "#9CFC60",
  "#D8A89C",
  "#B43CFC",
  "#C0FC00",
  "#009C54",
  "#9CB4C0",
] as const;

export const PATTERNS = ["plain", "hatched", "checked"] as const;
export type Pattern = (typeof PATTERNS)[number];
const PERIOD = 8; // pixels of a pattern

/** Whether a pixel is on a pattern's figure. */
export function isOnFigure(pattern: Pattern, x: number, y: number): boolean {
  if (pattern === "plain") return true;
  if (pattern === "hatched") return (x + y) % PERIOD < PERIOD / 2;
  return x % PERIOD < PERIOD / 2 === y % PERIOD < PERIOD / 2;
}

/** A CSS background of one colour and pattern, at the size of a swatch. */
export function cssBackground(color: string, pattern: Pattern): string {
  if (pattern === "plain") return color;
  if (pattern === "hatched") return `repeating-linear-gradient(135deg, ${color} 0 2px, transparent 2px 4px)`;
  return `repeating-conic-gradient(${color} 0 25%, transparent 0 50%) 0 0 / 6px 6px`;
}

export class ClassPalette {
  #ranks: Map<number, number>;

  constructor(counts: readonly ClassCount[]) {
    const ranked = [...counts].sort((a, b) => b.count - a.count || a.code - b.code);
    this.#ranks = new Map(ranked.map((entry, rank) => [entry.code, rank]));
  }

  /** The colour of a class; without a class, of an object of the row. */
  color(code: number | null, object = 0): string {
    return COLORS[this.#rank(code, object) % COLORS.length] ?? COLORS[0];
  }

  pattern(code: number | null, object = 0): Pattern {
    return PATTERNS[Math.floor(this.#rank(code, object) / COLORS.length) % PATTERNS.length] ?? "plain";
  }

  #rank(code: number | null, object: number): number {
    return Math.max(0, code === null ? object : (this.#ranks.get(code) ?? code));
  }
}

/** "#4E9BFF" → [78, 155, 255]. */
export function channelsOf(color: string): [number, number, number] {
  const number = Number.parseInt(color.slice(1), 16);
  return [(number >> 16) & 255, (number >> 8) & 255, number & 255];
}
