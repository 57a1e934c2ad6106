/** Which tensors a map can show, and by which its points can be coloured. */
import type { TensorInfo } from "../../api/client";

const MOST_PLAIN = 2; // of an array that is coordinates, not a vector

/** Tensors of vectors: embeddings first, then arrays of one known length. */
export function vectorTensors(tensors: readonly TensorInfo[]): TensorInfo[] {
  const isVector = ({ kind, shape, dtype }: TensorInfo) => kind === "array" && shape?.length === 1 && (shape[0] ?? 0) >= MOST_PLAIN && /^(float|bfloat|int|uint)/.test(dtype ?? "");
  return [...tensors.filter(({ kind, shape }) => kind === "embedding" && (shape?.[0] ?? 0) >= MOST_PLAIN), ...tensors.filter(isVector)];
}

/** Tensors with one class, number or boolean for each row: classes first. */
export function colorTensors(tensors: readonly TensorInfo[]): TensorInfo[] {
  const isOne = ({ shape, per }: TensorInfo) => (shape ?? []).length === 0 && per == null;
  const of = (kinds: readonly string[]) => tensors.filter((tensor) => kinds.includes(tensor.kind) && isOne(tensor));
  return [...of(["class_label"]), ...of(["scalar", "bool"])];
}

/** Code that makes a map possible. */
export function embedSnippet(url: string, column: string): string {
  return `ds = tl.open(${JSON.stringify(url)})
ds.map(embed, columns=[${JSON.stringify(column)}], batch_size=256,
       schema={"vector": tl.Embedding(512)})
ds.commit("vectors")`;
}
