/** What differs between the version that is shown and another one, as the chip and the cells tell it. */
import type { Diff } from "../api/client";
import { formatCount, formatPlural } from "../format";

export interface Comparison {
  /** The older version, as it was asked for. */
  name: string;
  /** Rows of the shown version that the older one has not. */
  added: ReadonlySet<number>;
  /** In a few words, one a change. */
  changes: string[];
}

export function compare(name: string, diff: Diff): Comparison {
  const changes = [...diff.schema_changes];
  if (diff.added > 0) changes.push(`+${formatPlural(diff.added, "row")}`);
  if (diff.removed > 0) changes.push(`−${formatPlural(diff.removed, "row")}`);
  for (const { tensor, count } of diff.updated) changes.push(`${tensor} ${formatCount(count)} changed`);
  return { name, added: new Set(diff.added_rows), changes: changes.length > 0 ? changes : ["no difference"] };
}
