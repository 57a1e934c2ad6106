/** Which tensors can be checked: labels against probabilities, and images, texts or vectors against one another. */
import type { TensorInfo } from "../../api/client";
import { isFrames } from "../../lenses";
import { labelTensors } from "../../state/rows/label-tensors";

export interface LabelPair {
  label: TensorInfo;
  probabilities: TensorInfo;
}

/** Each label with the tensors that have a float for each of its classes; those named like probabilities first. */
export function labelPairs(tensors: readonly TensorInfo[]): LabelPair[] {
  const isNamed = ({ name }: TensorInfo) => /prob|pred|score/i.test(name);
  return labelTensors(tensors).flatMap((label) => {
    const fitting = tensors.filter(({ dtype, shape, picture }) => !picture && dtype?.startsWith("float") === true && shape?.length === 1 && shape[0] === label.names?.length);
    return [...fitting.filter(isNamed), ...fitting.filter((one) => !isNamed(one))].map((probabilities) => ({ label, probabilities }));
  });
}

export const isText = ({ kind }: TensorInfo) => kind === "text";

/** Images first: they look alike to a person too. */
export function comparable(tensors: readonly TensorInfo[]): TensorInfo[] {
  const images = tensors.filter((one) => one.kind === "image" && !isFrames(one));
  const vectors = tensors.filter(({ kind, dtype, shape }) => kind !== "image" && dtype?.startsWith("float") === true && shape?.length === 1 && shape[0] != null);
  return [...images, ...tensors.filter(isText), ...vectors];
}

export interface Cluster {
  rows: number[];
}

export function clustersOf(rows: readonly number[], clusters: readonly number[]): Cluster[] {
  const found = new Map<number, number[]>();
  rows.forEach((row, i) => {
    const cluster = clusters[i] ?? 0;
    found.set(cluster, [...(found.get(cluster) ?? []), row]);
  });
  return [...found.values()].map((members) => ({ rows: members }));
}
