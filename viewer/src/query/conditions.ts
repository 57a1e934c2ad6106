/** TQL conditions for statistics: a class, a range of bars, NULLs and other values without a bar. */
import type { ClassCount, Histogram, TensorInfo } from "../api/client";
import { isNaming } from "../format";
import { quoteName, quoteText } from "./literals";

/** The condition for one class; lists and masks match if they contain it. */
export function classCondition(tensor: TensorInfo, { code, name }: Pick<ClassCount, "code" | "name">): string {
  const column = quoteName(tensor.name);
  const isList = (tensor.shape?.length ?? 0) > 0;
  if (tensor.kind === "class_label" || tensor.kind === "tags" || tensor.kind === "text") {
    return isList || tensor.kind === "tags" ? `CONTAINS(${column}, ${quoteText(name)})` : `${column} = ${quoteText(name)}`;
  }
  const value = tensor.kind === "segment_mask" ? code : name; // booleans are keywords
  return isList ? `ANY(${column} = ${value})` : `${column} = ${value}`;
}

/** The conditions for bars `first` to `last`, inclusive: they match exactly the values counted. */
export function rangeConditions(histogram: Histogram, first: number, last: number): string[] {
  const { expression, bounds, counts } = histogram;
  const [low = "0", high = "0"] = [bounds[first], bounds[last + 1]];
  const isEnd = last === counts.length - 1;
  const isOne = low === high || (histogram.is_whole && BigInt(high) - BigInt(low) === 1n && !(isEnd && high === histogram.maximum));
  const range = isOne ? [`${expression} = ${low}`] : [`${expression} >= ${low}`, `${expression} ${isEnd ? "<=" : "<"} ${high}`];
  if (histogram.per === "row") return range;
  return [`ANY(${isOne ? range[0] : `LOGICAL_AND(${range.join(", ")})`})`];
}

/** Whether a condition is a range of this expression, which a new range replaces. */
export function isRangeOf(expression: string, condition: string): boolean {
  const inner = condition.replace(/^ANY\((?:LOGICAL_AND\()?/, "");
  return inner.startsWith(`${expression} `) && /^(?:>=|<=|<|=) /.test(inner.slice(expression.length + 1));
}

/** Samples without a bar, and the condition that selects them. */
export interface SpecialValues {
  name: string;
  count: number;
  condition: string;
}

export function nullValues(tensor: TensorInfo, count: number): SpecialValues {
  return { name: "NULL", count, condition: `${quoteName(tensor.name)} IS NULL` };
}

export function emptyValues(tensor: TensorInfo, count: number): SpecialValues {
  const size = tensor.shape === null ? "LENGTH" : "SIZE";
  return { name: "empty", count, condition: `${size}(${quoteName(tensor.name)}) = 0` };
}

/** NaN and infinities of a histogram. */
export function nonFiniteValues({ expression, per, nans, infinities }: Histogram): SpecialValues[] {
  const ask = (condition: string) => (per === "row" ? condition : `ANY(${condition})`);
  return [
    { name: "NaN", count: nans, condition: ask(`${expression} != ${expression}`) },
    { name: "±∞", count: infinities, condition: ask(`ABS(${expression}) = CAST('inf' AS float64)`) },
  ].filter(({ count }) => count > 0);
}

/** An example query for this dataset, for the empty editor. */
export function exampleQuery(tensors: TensorInfo[]): string {
  const label = tensors.find(({ kind, names }) => kind !== "keypoints" && (names?.length ?? 0) > 0); // of keypoints they are joints
  const number = tensors.find((tensor) => tensor.kind === "scalar");
  const text = tensors.find(({ kind, name }) => kind === "text" && !isNaming(name));
  const order = number === undefined ? "" : `ORDER BY ${quoteName(number.name)} DESC`;
  if (label !== undefined) return `WHERE ${classCondition(label, { code: 0, name: label.names?.[0] ?? "" })} ${order}`.trim();
  if (text !== undefined) return `WHERE ${quoteName(text.name)} LIKE '%the%' ${order}`.trim();
  return order || "WHERE ROW_NUMBER() < 100";
}
