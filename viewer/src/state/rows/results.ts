/** The rows that the page shows: all, those of a query, of a saved view, or rows that were selected one by one. */
import { ApiError, type Api, type QueryResult } from "../../api/client";
import { parseNpz } from "../../fetch/numpy/npz";
import { formatCount } from "../../format";
import { RowSet } from "./row-set";
import { packRuns } from "./runs";
import { MOST_SELECTED } from "./selection.svelte";

export interface Asked {
  tql: string;
  saved: string | null;
  /** The id of selected rows. */
  selected: string | null;
  version: string;
}

/** The selected rows that were sent last, for a server that has lost them. */
interface Sent {
  view: string;
  version: string;
  runs: string;
}

const KEY = "tensorlake-selected";

export class Results {
  /** Ids that a server has lost, with those that it gave for the same rows. */
  readonly #renewed = new Map<string, string>();

  constructor(
    readonly api: Api,
    readonly storage: Pick<Storage, "getItem" | "setItem">,
  ) {}

  /** null: all rows. A result of selected rows that were sent again has another id, if the server was started anew. */
  async ask(dataset: string, { tql, saved, selected, version }: Asked, signal?: AbortSignal): Promise<QueryResult | null> {
    if (saved !== null) return this.api.savedView(dataset, saved, signal);
    if (selected === null) return tql === "" ? null : this.api.query(dataset, tql, version, signal);
    try {
      return await this.api.result(dataset, this.#renewed.get(selected) ?? selected, signal);
    } catch (error) {
      const sent = this.#sent();
      if (!(error instanceof ApiError) || error.problem.code !== "view-not-found" || sent?.view !== selected) throw error;
      const result = await this.#send(dataset, sent.version, sent.runs, signal);
      this.#renewed.set(selected, result.view);
      return result;
    }
  }

  /** What names its own version; null: nothing does, or selected rows are gone, which `ask` reports. */
  async opened(dataset: string, saved: string | null, selected: string | null): Promise<QueryResult | null> {
    if (saved !== null) return this.api.savedView(dataset, saved);
    if (selected === null) return null;
    return this.ask(dataset, { tql: "", saved, selected, version: "" }).catch((error: unknown) => {
      if (error instanceof ApiError) return null;
      throw error;
    });
  }

  /** The numbers of all rows that are shown, in the version. */
  async rowsOf(dataset: string, result: QueryResult | null, count: number): Promise<RowSet> {
    if (count > MOST_SELECTED) throw new Error(`${formatCount(count)} rows are too many to select: up to ${formatCount(MOST_SELECTED)} can be. Narrow the query first.`);
    return new RowSet(Array.from(result === null ? { length: count } : await this.numbersOf(dataset, result.view), (row: number | undefined, at) => row ?? at));
  }

  async numbersOf(dataset: string, view: string): Promise<ArrayLike<number>> {
    return parseNpz(await this.api.rowNumbers(dataset, view)).get("rows")?.values ?? [];
  }

  /** Sends selected rows, sorted, which the server keeps for a week. */
  select(dataset: string, version: string, sorted: ArrayLike<number>): Promise<QueryResult> {
    return this.#send(dataset, version, packRuns(sorted));
  }

  async #send(dataset: string, version: string, runs: string, signal?: AbortSignal): Promise<QueryResult> {
    const result = await this.api.select(dataset, runs, version, signal);
    const sent: Sent = { view: result.view, version, runs };
    this.storage.setItem(KEY, JSON.stringify(sent));
    return result;
  }

  #sent(): Sent | null {
    const text = this.storage.getItem(KEY);
    return text === null ? null : (JSON.parse(text) as Sent);
  }
}
