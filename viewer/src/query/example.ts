/** A query worth trying. */
import type { TensorInfo } from "../api/client";
import { classCondition } from "./conditions";
import { quoteName } from "./literals";

/** A query worth trying on this dataset, for the empty editor. */
export function exampleQuery(tensors: TensorInfo[]): string {
  const label = tensors.find((tensor) => (tensor.names?.length ?? 0) > 0);
  const number = tensors.find((tensor) => tensor.kind === "scalar");
  const text = tensors.find((tensor) => tensor.kind === "text");
  const order = number === undefined ? "" : `ORDER BY ${quoteName(number.name)} DESC`;
  if (label !== undefined) return `WHERE ${classCondition(label, { code: 0, name: label.names?.[0] ?? "" })} ${order}`.trim();
  if (text !== undefined) return `WHERE ${quoteName(text.name)} LIKE '%the%' ${order}`.trim();
  return order || "WHERE ROW_NUMBER() < 100";
}
