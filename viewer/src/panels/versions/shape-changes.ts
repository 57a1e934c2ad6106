/**
 * What two versions differ in, row by row and shape by shape.
 *
 * The server says which rows came, went, and changed, tensor by tensor; here these become one list,
 * a row at a time, in the order of the newer version. Boxes of a row that is in both are matched, so
 * that each can say what became of it.
 */
import type { Shape } from "../../lenses";
import { matchShapes } from "../../overlays/matching";

export type Fate = "same" | "new" | "gone" | "moved" | "renamed";

export interface FatedShape {
  shape: Shape;
  fate: Fate;
  /** In words, for the label: "was cat", "moved". */
  word: string;
}

const SAME_IOU = 0.999;
const MOVED_IOU = 0.3; // less is another object

/** What became of each shape, on either side. */
export function compareShapes(before: readonly Shape[], after: readonly Shape[]): { before: FatedShape[]; after: FatedShape[] } {
  const classless = (shape: Shape, isPredicted: boolean): Shape => ({ ...shape, code: null, isPredicted, score: null });
  const old = new Map(before.map((shape) => [classless(shape, false), shape]));
  const now = new Map(after.map((shape) => [classless(shape, true), shape]));
  const fates = new Map<Shape, { fate: Fate; word: string }>();
  for (const { truth, guess, iou } of matchExactFirst([...old.keys()], [...now.keys()])) {
    const [was, is] = [old.get(truth), now.get(guess)];
    if (was === undefined || is === undefined) continue;
    const isRenamed = was.label !== is.label;
    const fate: Fate = isRenamed ? "renamed" : iou >= SAME_IOU ? "same" : "moved";
    fates.set(was, { fate, word: fate === "same" ? "" : fate === "moved" ? "moves" : `becomes ${is.label || "nothing"}` });
    fates.set(is, { fate, word: fate === "same" ? "" : fate === "moved" ? "moved" : `was ${was.label || "nothing"}` });
  }
  const tell = (shapes: readonly Shape[], otherwise: Fate) =>
    shapes.map((shape) => ({ shape, ...(fates.get(shape) ?? { fate: otherwise, word: otherwise }) }));
  return { before: tell(before, "gone"), after: tell(after, "new") };
}

/** Boxes that did not move find each other before any other takes them. */
function matchExactFirst(before: Shape[], after: Shape[]) {
  const exact = matchShapes([...before, ...after], SAME_IOU);
  const rest = matchShapes([...exact.missed, ...exact.extra], MOVED_IOU);
  return [...exact.matched, ...rest.matched];
}

/** The shapes as they are drawn: what changed says so, beside it the rest is faint, or left out. */
export function sayFates(fated: readonly FatedShape[], onlyChanged: boolean): Shape[] {
  const hasChange = fated.some(({ fate }) => fate !== "same");
  return fated.flatMap(({ shape, fate, word }) => {
    if (fate !== "same") return [{ ...shape, isNoted: true, label: [shape.label, word].filter((one) => one !== "").join(" · ") }];
    return onlyChanged ? [] : [hasChange ? { ...shape, isFaint: true } : shape];
  });
}

/** How many shapes of a row became what: "1 moved · 2 new". */
export function sayCounts(before: readonly FatedShape[], after: readonly FatedShape[]): string {
  const fates = [...after, ...before.filter(({ fate }) => fate === "gone")].map(({ fate }) => fate);
  const told = (["moved", "renamed", "new", "gone"] as const).map((fate) => [fates.filter((one) => one === fate).length, fate] as const);
  return told.flatMap(([count, fate]) => (count === 0 ? [] : [`${count} ${fate}`])).join(" · ");
}
