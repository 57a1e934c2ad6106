/** The columns of the table: their widths, and where the pinned ones stay. */
import type { TensorInfo } from "../../../api/client";

export interface Column {
  /** Null for the number of the row. */
  tensor: TensorInfo | null;
  width: number;
  isNumber: boolean;
  isPinned: boolean;
  /** Where it stays while it is pinned. */
  offset: number;
}

export const LEAST_WIDTH = 48;
const NUMBER_OF_ROW = 84;
const WIDTHS: Record<string, number> = { scalar: 120, bool: 90, text: 320, json: 280, timestamp: 190, uuid: 290, class_label: 150 };
const OTHERS = 180;
const SORTABLE = new Set(["scalar", "bool", "text", "timestamp", "class_label"]);

/** The number of the row, then pinned columns in the order of pinning, then the others in that of the schema. */
export function placeColumns(tensors: readonly TensorInfo[], widths: ReadonlyMap<string, number>, pinned: readonly string[]): Column[] {
  const first = pinned.flatMap((name) => tensors.find((tensor) => tensor.name === name) ?? []);
  const rest = tensors.filter(({ name }) => !pinned.includes(name));
  let offset = 0;
  return [null, ...first, ...rest].map((tensor) => {
    const width = tensor === null ? NUMBER_OF_ROW : (widths.get(tensor.name) ?? WIDTHS[tensor.kind] ?? OTHERS);
    const isNumber = tensor === null || (tensor.kind === "scalar" && tensor.shape?.length === 0);
    const column = { tensor, width, isNumber, isPinned: tensor === null || pinned.includes(tensor.name), offset };
    offset += width;
    return column;
  });
}

/** Whether a query can sort by a tensor: it has one value per row. */
export function isSortable(tensor: TensorInfo): boolean {
  return SORTABLE.has(tensor.kind) && (tensor.shape ?? []).length === 0;
}
