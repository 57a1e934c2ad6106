/**
 * Matching of predicted boxes with ground truth, as in COCO.
 *
 * Predictions are matched in descending order of score, each with the free box of its class that has the
 * highest IoU, if that is at least 0.5.
 */
import type { Bounds } from "../canvas/geometry";
import type { Shape } from "../lenses";

export const IOU_LEAST = 0.5;

export interface Matched {
  truth: Shape;
  guess: Shape;
  iou: number;
}

export interface Matching {
  matched: Matched[];
  /** True boxes without a prediction. */
  missed: Shape[];
  /** Predictions without a true box. */
  extra: Shape[];
}

export function matchShapes(shapes: readonly Shape[], least = IOU_LEAST): Matching {
  const boxes = shapes.filter((shape) => shape.path.kind === "box");
  const free = new Set(boxes.filter((shape) => !shape.isPredicted));
  const guesses = boxes.filter((shape) => shape.isPredicted).sort((a, b) => (b.score ?? 0) - (a.score ?? 0));
  const matching: Matching = { matched: [], missed: [], extra: [] };
  for (const guess of guesses) {
    let best: Matched | null = null;
    for (const truth of free) {
      if (truth.code !== null && guess.code !== null && truth.code !== guess.code) continue;
      const overlap = iou(truth, guess);
      if (overlap >= least && overlap > (best?.iou ?? 0)) best = { truth, guess, iou: overlap };
    }
    if (best === null) matching.extra.push(guess);
    else {
      matching.matched.push(best);
      free.delete(best.truth);
    }
  }
  matching.missed = [...free];
  return matching;
}

/** Intersection over union; 0 for boxes without an area. */
export function iou(a: Bounds, b: Bounds): number {
  const width = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
  const height = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
  if (width <= 0 || height <= 0) return 0;
  const common = width * height;
  return common / (a.width * a.height + b.width * b.height - common);
}

/** The same shapes with their match in the label: a word, never a colour alone. */
export function labelMatches(shapes: readonly Shape[], matching: Matching): Shape[] {
  const words = new Map<Shape, string>();
  for (const { guess, iou: overlap } of matching.matched) words.set(guess, `IoU ${overlap.toFixed(2)}`);
  for (const shape of matching.missed) words.set(shape, "missed");
  for (const shape of matching.extra) words.set(shape, "extra");
  return shapes.map((shape) => {
    const word = words.get(shape);
    return word === undefined ? shape : { ...shape, label: [shape.label, word].filter((one) => one !== "").join(" · ") };
  });
}
