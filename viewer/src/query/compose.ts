/** Small pieces of TQL, made from what was clicked. */
import type { TensorInfo } from "../api";

const BARE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

export function quoteName(name: string): string {
  return BARE_NAME.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A query worth trying on this dataset, for the empty editor. */
export function exampleQuery(tensors: TensorInfo[]): string {
  const label = tensors.find((tensor) => (tensor.names?.length ?? 0) > 0);
  const number = tensors.find((tensor) => tensor.kind === "scalar");
  const text = tensors.find((tensor) => tensor.kind === "text");
  const order = number === undefined ? "" : `ORDER BY ${quoteName(number.name)} DESC`;
  if (label !== undefined) return `${classFilter(label, label.names?.[0] ?? "")} ${order}`.trim();
  if (text !== undefined) return `WHERE ${quoteName(text.name)} LIKE '%the%' ${order}`.trim();
  return order || "WHERE ROW_NUMBER() < 100";
}

/** The query for one class of a label tensor; lists and masks are asked whether they contain it. */
export function classFilter(tensor: TensorInfo, name: string): string {
  const column = quoteName(tensor.name);
  if (tensor.kind === "segment_mask") return `WHERE ANY(${column} = ${tensor.names?.indexOf(name) ?? -1})`;
  const isList = (tensor.shape?.length ?? 0) > 0;
  return isList ? `WHERE CONTAINS(${column}, ${quoteText(name)})` : `WHERE ${column} = ${quoteText(name)}`;
}

/** The query for one bar of a histogram: of a number, or of the widths of pictures. The last bar holds its end. */
export function rangeFilter(tensor: TensorInfo, edges: readonly number[], bar: number): string {
  const [low, high] = [edges[bar] ?? 0, edges[bar + 1] ?? 0];
  const column = tensor.kind === "image" ? `INFO(${quoteName(tensor.name)})['width']` : quoteName(tensor.name);
  return `WHERE ${column} >= ${low} AND ${column} ${bar === edges.length - 2 ? "<=" : "<"} ${high}`;
}
