// Histograms as the server sends them, for tests.
import type { Histogram } from "../api/client";

/** A histogram of the numbers 0 to 1 in two bars, but for what is given. */
export function histogram(more: Partial<Histogram>): Histogram {
  const bounds = more.bounds ?? ["0", "0.5", "1"];
  return {
    title: "score",
    expression: "score",
    per: "row",
    is_whole: false,
    is_rising: false,
    counted: 3,
    values: 3,
    nans: 0,
    infinities: 0,
    minimum: "0",
    maximum: "1",
    mean: 0.5,
    edges: bounds.map(Number),
    bounds,
    counts: bounds.slice(1).map(() => 1),
    ...more,
  };
}

/** A histogram of how many boxes rows have: of integers. */
export const whole = (bounds: string[], maximum: string) =>
  histogram({ expression: "LENGTH(boxes)", is_whole: true, bounds, maximum });
