/** What a merge has to decide: cells that both branches changed, and rows that one deleted, each choice by itself. */
import type { DisputedCell, DisputedRow, Merge, TensorInfo } from "../../api/client";

export type Side = "ours" | "theirs";

/** One choice: a row's cells of tensors that are `per` one another, or whether a row stays. */
export interface Dispute {
  key: string;
  row: number;
  cells: readonly DisputedCell[];
  /** For a row that one branch deleted. */
  deleted: DisputedRow | null;
}

/** By each tensor the one that it is `per`, or itself: those of one owner are decided together. */
export function ownersOf(tensors: readonly Pick<TensorInfo, "name" | "per">[]): Map<string, string> {
  return new Map(tensors.map(({ name, per }) => [name, per ?? name]));
}

/** In the order of rows; boxes and their labels of one row are one choice, since those of two branches do not fit. */
export function disputesOf(cells: readonly DisputedCell[], rows: readonly DisputedRow[], tensors: readonly TensorInfo[]): Dispute[] {
  const owners = ownersOf(tensors);
  const byKey = new Map<string, DisputedCell[]>();
  for (const cell of cells) {
    const key = `${owners.get(cell.tensor) ?? cell.tensor} ${cell.row_id}`;
    byKey.set(key, [...(byKey.get(key) ?? []), cell]);
  }
  const disputes = [...byKey].map(([key, group]): Dispute => ({ key, row: group[0]?.row ?? 0, cells: group, deleted: null }));
  const deletions = rows.map((deleted): Dispute => ({ key: ` ${deleted.row_id}`, row: deleted.row, cells: [], deleted }));
  return [...disputes.sort((a, b) => a.row - b.row), ...deletions];
}

/** The decisions as the server takes them. */
export function decisionsOf(disputes: readonly Dispute[], chosen: Readonly<Record<string, Side>>): Required<Pick<Merge, "decisions" | "rows">> {
  const decisions: Record<string, Record<string, Side>> = {};
  const rows: Record<string, Side> = {};
  for (const { key, cells, deleted } of disputes) {
    const side = chosen[key] ?? "ours";
    for (const { tensor, row_id } of cells) (decisions[tensor] ??= {})[row_id] = side;
    if (deleted !== null) rows[deleted.row_id] = side;
  }
  return { decisions, rows };
}
