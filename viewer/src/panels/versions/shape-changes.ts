/**
 * What two versions differ in, row by row and shape by shape.
 *
 * The server says which rows came, went, and changed, tensor by tensor; here these become one list,
 * a row at a time, in the order of the newer version. Boxes of a row that is in both are matched, so
 * that each can say what became of it.
 */
import type { Shape } from "../../lenses";
import { matchShapes } from "../../overlays/matching";

export type ShapeStatus = "same" | "added" | "removed" | "moved" | "relabelled";

export interface ChangedShape {
  shape: Shape;
  status: ShapeStatus;
  /** For the label: "was cat", "moved". */
  word: string;
}

const SAME_IOU = 0.999;
const MOVED_IOU = 0.3; // below, another object

/** The status of each shape in both versions. */
export function compareShapes(before: readonly Shape[], after: readonly Shape[]): { before: ChangedShape[]; after: ChangedShape[] } {
  const classless = (shape: Shape, isPredicted: boolean): Shape => ({ ...shape, code: null, isPredicted, score: null });
  const old = new Map(before.map((shape) => [classless(shape, false), shape]));
  const now = new Map(after.map((shape) => [classless(shape, true), shape]));
  const changed = new Map<Shape, { status: ShapeStatus; word: string }>();
  for (const { truth, guess, iou } of matchExactFirst([...old.keys()], [...now.keys()])) {
    const [was, is] = [old.get(truth), now.get(guess)];
    if (was === undefined || is === undefined) continue;
    const isRelabelled = was.label !== is.label;
    const status: ShapeStatus = isRelabelled ? "relabelled" : iou >= SAME_IOU ? "same" : "moved";
    changed.set(was, { status, word: status === "same" ? "" : status === "moved" ? "moves" : `becomes ${is.label || "unlabelled"}` });
    changed.set(is, { status, word: status === "same" ? "" : status === "moved" ? "moved" : `was ${was.label || "unlabelled"}` });
  }
  const describe = (shapes: readonly Shape[], otherwise: ShapeStatus) =>
    shapes.map((shape) => ({ shape, ...(changed.get(shape) ?? { status: otherwise, word: otherwise }) }));
  return { before: describe(before, "removed"), after: describe(after, "added") };
}

/** Matches boxes that did not move first. */
function matchExactFirst(before: Shape[], after: Shape[]) {
  const exact = matchShapes([...before, ...after], SAME_IOU);
  const rest = matchShapes([...exact.missed, ...exact.extra], MOVED_IOU);
  return [...exact.matched, ...rest.matched];
}

/** The shapes to draw: changed ones are labelled, others are faint or omitted. */
export function labelChanges(changed: readonly ChangedShape[], onlyChanged: boolean): Shape[] {
  const hasChange = changed.some(({ status }) => status !== "same");
  return changed.flatMap(({ shape, status, word }) => {
    if (status !== "same") return [{ ...shape, isNoted: true, label: [shape.label, word].filter((one) => one !== "").join(" · ") }];
    return onlyChanged ? [] : [hasChange ? { ...shape, isFaint: true } : shape];
  });
}

/** Counts per status: "1 moved · 2 added". */
export function summarizeChanges(before: readonly ChangedShape[], after: readonly ChangedShape[]): string {
  const changed = [...after, ...before.filter(({ status }) => status === "removed")].map(({ status }) => status);
  const told = (["moved", "relabelled", "added", "removed"] as const).map((status) => [changed.filter((one) => one === status).length, status] as const);
  return told.flatMap(([count, status]) => (count === 0 ? [] : [`${count} ${status}`])).join(" · ");
}
