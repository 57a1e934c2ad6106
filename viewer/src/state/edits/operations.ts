/** Edits as the operations of one transaction. */
import type { CellValue, TensorInfo, Transaction } from "../../api/client";
import type { Change } from "./steps";

type Update = Extract<Transaction["operations"][number], { op: "update" }>;

const MOST_VALUES = 100; // of a tensor that are sent once for all of their rows

/** The updates of a tensor; classes are sent by name, which stays when others are added. */
export function updatesOf({ name: tensor, kind, names }: Pick<TensorInfo, "name" | "kind" | "names">, changes: ReadonlyMap<number, Change>): Update[] {
  const sorted = [...changes].sort(([a], [b]) => a - b);
  const asSent = (value: CellValue) => (kind === "class_label" ? named(value, names ?? []) : value); // joints have names too
  const values = new Set(sorted.map(([, { value }]) => value));
  if (values.size > MOST_VALUES || [...values].some((value) => typeof value === "object" && value !== null)) {
    return [{ op: "update", tensor, rows: sorted.map(([row]) => row), values: sorted.map(([, { value }]) => asSent(value)) }];
  }
  return [...values].map((value) => {
    const rows = sorted.flatMap(([row, change]) => (change.value === value ? [row] : []));
    return { op: "update", tensor, rows, value: asSent(value) };
  });
}

/** Tensors in the order in which they can be updated: what others are `per` comes before them. */
export function ownersFirst<T extends Pick<TensorInfo, "per">>(tensors: readonly T[]): T[] {
  return [...tensors].sort((a, b) => Number(a.per != null) - Number(b.per != null));
}

function named(value: CellValue, names: readonly string[]): CellValue {
  if (Array.isArray(value)) return value.map((one) => named(one, names));
  return typeof value === "number" ? (names[value] ?? value) : value;
}
