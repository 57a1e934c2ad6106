/** The differences between the version that is shown and another one, once they are read. */
import { ApiError, type Api, type DatasetInfo, type Diff } from "../../api/client";
import { compare, listChanges, type Change, type Comparison } from "./diff";

export class Comparing {
  comparison = $state.raw<Comparison | null>(null);
  difference = $state.raw<{ diff: Diff; before: DatasetInfo } | null>(null);
  changes: Change[] = $derived(this.difference === null ? [] : listChanges(this.difference.diff));

  clear(): void {
    this.comparison = null;
    this.difference = null;
  }

  /** Compares a version with an older one; `isCurrent` says whether the answer is still wanted. */
  async load(api: Api, dataset: string, other: string, version: string, isCurrent: () => boolean): Promise<void> {
    try {
      const [diff, before] = await Promise.all([api.diff(dataset, other, version), api.dataset(dataset, other)]);
      if (!isCurrent()) return;
      this.comparison = compare(other, diff);
      this.difference = { diff, before };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.comparison = { name: other, added: new Set(), changes: [error.message.split("\n")[0] ?? ""] };
    }
  }
}
