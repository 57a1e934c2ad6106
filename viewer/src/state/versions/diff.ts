/** Differences between two versions: a summary, and the list of changed rows. */
import type { Diff } from "../../api/client";
import { formatCount, formatPlural } from "../../format";

export interface Comparison {
  /** The older version, as requested. */
  name: string;
  /** Rows of the current version that the older one lacks. */
  added: ReadonlySet<number>;
  /** One short text per change. */
  changes: string[];
}

export function compare(name: string, diff: Diff): Comparison {
  const changes = [...diff.schema_changes];
  if (diff.added > 0) changes.push(`+${formatPlural(diff.added, "row")}`);
  if (diff.removed > 0) changes.push(`−${formatPlural(diff.removed, "row")}`);
  for (const { tensor, count } of diff.updated) changes.push(`${tensor} ${formatCount(count)} changed`);
  return { name, added: new Set(diff.added_rows), changes: changes.length > 0 ? changes : ["no differences"] };
}

export type ChangeKind = "added" | "removed" | "changed";

export interface Change {
  kind: ChangeKind;
  /** Its position in the older version; null for a row that was added. */
  before: number | null;
  /** Its position in the newer version; null for a row that was removed. */
  after: number | null;
  /** The tensors whose value differs. */
  tensors: string[];
}

export function listChanges(diff: Diff): Change[] {
  const changed = new Map<number, Change>();
  for (const { tensor, rows, rows_before } of diff.updated) {
    rows.forEach((after, i) => {
      const known = changed.get(after);
      if (known !== undefined) known.tensors.push(tensor);
      else changed.set(after, { kind: "changed", before: rows_before[i] ?? null, after, tensors: [tensor] });
    });
  }
  const added = diff.added_rows.map((after): Change => ({ kind: "added", before: null, after, tensors: [] }));
  const removed = diff.removed_rows.map((before): Change => ({ kind: "removed", before, after: null, tensors: [] }));
  const byRow = [...changed.values()].sort((a, b) => (a.after ?? 0) - (b.after ?? 0));
  return [...byRow, ...added, ...removed];
}

/** Number of changed rows, and whether the list is complete: the server lists each kind up to a limit. */
export function countChanges(diff: Diff, changes: readonly Change[]): Record<ChangeKind, number> & { isWhole: boolean } {
  const isWhole = [diff.added, diff.removed, ...diff.updated.map((one) => one.count)].every((count) => count <= diff.limit);
  const changed = changes.filter((change) => change.kind === "changed").length;
  return { added: diff.added, removed: diff.removed, changed, isWhole };
}
