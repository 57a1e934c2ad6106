/** Abbreviated dtypes and shapes for the tensor list. */
import type { TensorInfo } from "../api/client";

const SHORT: [RegExp, string][] = [
  [/^float(\d+)$/, "f$1"],
  [/^bfloat16$/, "bf16"],
  [/^uint(\d+)$/, "u$1"],
  [/^int(\d+)$/, "i$1"],
  [/^complex(\d+)$/, "c$1"],
];

/** "float32" → "f32". */
export function shortDtype(dtype: string | null): string {
  if (dtype === null) return "";
  for (const [pattern, short] of SHORT) {
    if (pattern.test(dtype)) return dtype.replace(pattern, short);
  }
  return dtype;
}

/** (None, 4) → "n×4"; `names` are used for the unknown lengths in turn. */
export function shortShape(shape: TensorInfo["shape"], names: string[] = ["n", "m", "k"]): string {
  let unknown = 0;
  return (shape ?? []).map((length) => length ?? names[unknown++] ?? "?").join("×");
}

/** [427, 640, 3] → "427 × 640 × 3". */
export function formatShape(shape: readonly number[]): string {
  return shape.join(" × ");
}
