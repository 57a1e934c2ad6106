import { expect, test } from "vitest";
import type { TensorInfo } from "../../api/client";
import { addStep, editableTensors, labelStep, removeStep } from "./objects";

function tensor(name: string, kind: string, more: Partial<TensorInfo> = {}): TensorInfo {
  return { name, kind, type: kind, dtype: "float32", shape: [null, 4], nullable: false, media_type: "", picture: false, names: null, of: "image", per: null, format: "xywh", skeleton: null, ...more };
}

const image = tensor("image", "image", { picture: true, of: null });
const boxes = tensor("boxes", "bbox");
const labels = tensor("labels", "class_label", { names: ["cat", "dog"], shape: [null], per: "boxes", of: null });
const weights = tensor("weights", "array", { shape: [null, 2], per: "boxes", of: null });
const joints = tensor("joints", "keypoints", { names: ["a", "b"], shape: [null, 2, 3], per: "boxes" });
const tensors = [image, boxes, labels, weights, joints];
const row = { _row: 7, _row_id: "1:7", boxes: [[0, 0, 1, 1], [2, 2, 3, 3]], labels: [0, 1], weights: [[1, 1], [2, 2]], joints: [[[0, 0, 0], [1, 1, 2]], [[3, 3, 2], [4, 4, 2]]] };
const context = (more: object = {}, others: TensorInfo[] = []) => ({ row: { ...row, ...more }, tensors: [...tensors, ...others], image: { width: 160, height: 120 } });
const drawn = { kind: "add" as const, points: [[10, 10], [20, 20]] as const };

test("a box comes and goes with all that is declared per box", () => {
  const added = addStep(boxes, drawn, 1, context());
  const removed = removeStep(boxes, 0, context());

  expect(added).toMatchObject([
    { tensor: "boxes", rows: [7], before: [row.boxes], value: [...row.boxes, [10, 10, 10, 10]] },
    { tensor: "labels", value: [0, 1, 1] },
    { tensor: "weights", value: [[1, 1], [2, 2], [0, 0]] },
    { tensor: "joints", value: [...row.joints, [[0, 0, 0], [0, 0, 0]]] },
  ]);
  expect(removed).toMatchObject([{ value: [[2, 2, 3, 3]] }, { value: [1] }, { value: [[2, 2]] }, { value: [[[3, 3, 2], [4, 4, 2]]] }]);
  expect(removeStep(joints, 0, context())).toEqual(removed);
  expect(addStep(joints, drawn, 0, context())).toContain("one object for each of boxes");
});

test("nothing comes or goes where what belongs to it cannot follow", () => {
  const masks = tensor("masks", "instance_mask", { per: "boxes" });
  const mask = { $summary: "media", nbytes: 5, shape: [2, 120, 160] };

  expect(removeStep(boxes, 0, context({ masks: mask }, [masks]))).toContain("masks has a value for each of boxes");
  expect(addStep(boxes, drawn, 0, context({ labels: [0] }))).toContain("labels has a value");
});

test("a tensor that only has as many objects is left as it is", () => {
  const outlines = tensor("outlines", "polygon");
  const kinds = tensor("kinds", "class_label", { names: ["wall", "door"], shape: [null], per: "outlines", of: null });
  const loose = tensor("loose", "class_label", { names: ["x"], shape: [null], of: null });
  const beside = context({ outlines: [[[0, 0], [1, 0], [1, 1]], [[2, 2], [3, 2], [3, 3]]], kinds: [0, 1], loose: [0, 0] }, [outlines, kinds, loose]);

  expect(removeStep(boxes, 0, beside)).toEqual(removeStep(boxes, 0, context()));
  expect(removeStep(outlines, 0, beside)).toMatchObject([{ tensor: "outlines", value: [[[2, 2], [3, 2], [3, 3]]] }, { tensor: "kinds", value: [1] }]);
});

test("a class is set for one object; predictions are not edited", () => {
  expect(labelStep(row, labels, 1, 0)).toEqual([{ tensor: "labels", rows: [7], before: [[0, 1]], value: [0, 0] }]);
  expect(labelStep(row, labels, 2, 0)).toBeUndefined();
  expect(editableTensors([...tensors, tensor("predicted_boxes", "bbox")], image).map(({ name }) => name)).toEqual(["boxes", "joints"]);
});
