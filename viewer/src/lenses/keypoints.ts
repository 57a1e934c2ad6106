/** Keypoints: dots for labelled joints, rings for occluded ones, connected by the skeleton. */
import type { Point } from "../canvas/geometry";
import { isSummary, type CellValue } from "../api/client";
import { formatPlural } from "../format";
import { findLabels, findScores, isPredicted } from "./belonging";
import { boundsOf } from "./polygon";
import type { Lens, Value } from "./lens";

/** COCO's third number is 0, 1 (hidden) or 2 (seen); a model's is a confidence up to 1. */
const HIDDEN = 1;
const SURE = 0.5;

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
};

type Joint = [number, number, number];

function readObjects(value: Value): Joint[][] {
  if (isSummary(value) || !Array.isArray(value)) return [];
  return value.map((object) => (Array.isArray(object) ? object.filter(isJoint) : []));
}

function isJoint(value: CellValue): value is Joint {
  return Array.isArray(value) && value.length === 3 && value.every((part) => typeof part === "number");
}
