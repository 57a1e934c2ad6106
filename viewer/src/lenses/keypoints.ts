/** Keypoints: dots for labelled joints, rings for occluded ones, connected by the skeleton. */
import type { Extent, Point } from "../canvas/geometry";
import { isSummary, type CellValue } from "../api/client";
import { formatPlural } from "../format";
import { findLabels, findScores, isPredicted } from "./belonging";
import { boundsOf } from "./polygon";
import { clampMove, clampPoint, roundPoint } from "./handles";
import type { Gesture, Lens, Value } from "./lens";

/** COCO's third number is 0, 1 (hidden) or 2 (seen); a model's is a confidence up to 1. */
const HIDDEN = 1;
const SURE = 0.5;
const SEEN = 2;

export const keypointsLens: Lens = {
  brief: (tensor) => `points ${tensor.names?.length ? `n×${tensor.names.length}` : "n×k"}`,
  describe: (value, tensor) => `${formatPlural(readObjects(value).length, "object")} × ${tensor.names?.length || "k"} points`,
  shapes(value, tensor, context) {
    const objects = readObjects(value);
    const labels = findLabels(tensor, objects.length, context);
    const scores = findScores(tensor, objects.length, context.row, context.tensors);
    return objects.map((points, i) => {
      const isConfidence = points.some(([, , third]) => third > 0 && third < 1);
      const joints = points.map(([x, y, third]) => ({
        at: [x, y] as Point,
        isShown: third > 0,
        isSeen: isConfidence ? third >= SURE : third > HIDDEN,
      }));
      return {
        ...boundsOf(joints.filter((joint) => joint.isShown).map((joint) => joint.at)),
        path: { kind: "skeleton", joints, bones: tensor.skeleton ?? [] },
        code: labels?.code(i) ?? null,
        label: labels?.name(i) ?? "",
        score: scores?.[i] ?? null,
        isPredicted: isPredicted(tensor),
      };
    });
  },
  edit(value, gesture, _tensor, image) {
    if (isSummary(value)) return undefined; // too many points to be here
    const objects = readObjects(value);
    if (Array.isArray(value) && value.some((one, i) => !Array.isArray(one) || one.length !== objects[i]?.length)) return undefined;
    if (gesture.kind === "remove") return objects.toSpliced(gesture.object, 1);
    if (gesture.kind === "add") return [...objects, gesture.points.map((point): Joint => [...roundPoint(clampPoint(point, image)), SEEN])];
    const joints = objects[gesture.object];
    const changed = joints === undefined ? undefined : changeJoints(joints, gesture, image);
    return changed === undefined ? undefined : objects.with(gesture.object, changed);
  },
};

function changeJoints(joints: Joint[], gesture: Gesture, image: Extent): Joint[] | undefined {
  if (gesture.kind === "move") {
    const shown = joints.filter(([, , third]) => third > 0).map(([x, y]): Point => [x, y]);
    const [x, y] = roundPoint(clampMove(gesture.by, boundsOf(shown), image));
    return joints.map(([left, top, third]): Joint => (third > 0 ? [left + x, top + y, third] : [left, top, third]));
  }
  const joint = gesture.kind === "drag" || gesture.kind === "mark" ? joints[gesture.handle] : undefined;
  if (joint === undefined) return undefined;
  if (gesture.kind === "drag") return joints.with(gesture.handle, [...roundPoint(clampPoint(gesture.to, image)), joint[2] > 0 ? joint[2] : SEEN]);
  return gesture.kind === "mark" ? joints.with(gesture.handle, [joint[0], joint[1], nextVisibility(joint[2])]) : undefined;
}

/** Seen, hidden, not labelled. */
function nextVisibility(third: number): number {
  return third > HIDDEN ? HIDDEN : third > 0 ? 0 : SEEN;
}

type Joint = [number, number, number];

function readObjects(value: Value): Joint[][] {
  if (isSummary(value) || !Array.isArray(value)) return [];
  return value.map((object) => (Array.isArray(object) ? object.filter(isJoint) : []));
}

function isJoint(value: CellValue): value is Joint {
  return Array.isArray(value) && value.length === 3 && value.every((part) => typeof part === "number");
}
