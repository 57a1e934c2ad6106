/** The lens of each kind of tensor. */
import { isSummary, type TensorInfo } from "../api/client";
import { showBidi } from "../format";
import { arrayLens } from "./array";
import { bboxLens } from "./bbox";
import { bbox3dLens } from "./bbox3d";
import { imageLens } from "./image";
import { keypointsLens } from "./keypoints";
import { labelLens } from "./label";
import type { Lens, Value } from "./lens";
import { binaryMaskLens, instanceMaskLens, segmentMaskLens } from "./mask";
import { audioLens, cloudLens, meshLens, videoLens } from "./media";
import { numberLens } from "./number";
import { polygonLens } from "./polygon";
import { isFrames, sequenceLens, volumeLens } from "./sequence";
import { bytesLens, jsonLens, textLens } from "./text";
import { tagsLens, timestampLens, uuidLens } from "./words";

export { imageOf, isPredicted, labelsOf } from "./belonging";
export { handlesOf } from "./handles";
export { firstFrame, frameCount, isFrames, isWithoutFrames } from "./sequence";
export { isDeep } from "./image";
export { isMedia, isPlayed } from "./media";
export type { DrawContext, Gesture, Lens, Path, Pixel, Shape, Solid, Value } from "./lens";

const LENSES: Record<string, Lens> = {
  image: imageLens,
  bbox: bboxLens,
  bbox_3d: bbox3dLens,
  class_label: labelLens,
  text: textLens,
  json: jsonLens,
  bytes: bytesLens,
  scalar: numberLens,
  bool: numberLens,
  binary_mask: binaryMaskLens,
  segment_mask: segmentMaskLens,
  instance_mask: instanceMaskLens,
  polygon: polygonLens,
  keypoints: keypointsLens,
  tags: tagsLens,
  timestamp: timestampLens,
  uuid: uuidLens,
  sequence: sequenceLens,
  volume: volumeLens,
  audio: audioLens,
  video: videoLens,
  point_cloud: cloudLens,
  mesh: meshLens,
};

/** Kinds without a lens of their own are shown as arrays: shape and first values. */
export function lensOf(tensor: TensorInfo): Lens {
  const lens = LENSES[tensor.kind];
  if (lens !== undefined) return lens;
  if (tensor.dtype === null) return jsonLens;
  return tensor.shape?.length === 0 ? numberLens : arrayLens;
}

/** The text of a value, in which characters that reorder text are shown by their codes. */
export function describeValue(value: Value | undefined, tensor: TensorInfo): string {
  return showBidi(describe(value, tensor));
}

function describe(value: Value | undefined, tensor: TensorInfo): string {
  if (value === undefined) return "";
  if (value === null) return "NULL";
  if (isSummary(value) && value.$summary === "error") return value.message ?? "cannot be read";
  if (isSummary(value) && value.$summary === "media" && !isMask(tensor) && !isFrames(tensor) && lensOf(tensor).view === undefined) return imageLens.describe(value, tensor);
  return lensOf(tensor).describe(value, tensor);
}

export function isMask(tensor: TensorInfo): boolean {
  return lensOf(tensor).pixels !== undefined;
}

export function isOverlay(tensor: TensorInfo): boolean {
  return lensOf(tensor).shapes !== undefined || isMask(tensor);
}
