/**
 * The shapes of the REST API under `/v1`, and the calls the viewer makes.
 *
 * docs/reference/rest.md describes every field; server/tensorlake_server/messages.py is the other
 * end. Names are the wire's own (snake_case), so that nothing is translated in between.
 */

export type CellValue = string | number | boolean | null | CellValue[] | { [key: string]: CellValue };

/** What stands for a value too large, or not made, for JSON. */
export interface Summary {
  $summary: "media" | "array" | "text" | "json" | "bytes" | "error";
  nbytes?: number;
  media_type?: string | null;
  dtype?: string;
  shape?: number[];
  preview?: CellValue;
  message?: string;
}

export interface TensorInfo {
  name: string;
  /** The type's tag: "image", "bbox", "class_label", "scalar", "text", … */
  kind: string;
  /** The type as people write it: `Image(jpeg)`. */
  type: string;
  dtype: string | null;
  shape: (number | null)[] | null;
  nullable: boolean;
  media_type: string | null;
  /** True where the server renders the samples as pictures. */
  picture: boolean;
  /** Class names, for class labels and segmentations; of keypoints what the points are. */
  names?: string[] | null;
  /** The tensor whose pixels this one's coordinates mean. */
  of?: string | null;
  /** The tensor whose entries this one labels, one by one. */
  per?: string | null;
  /** The order of a box's four numbers. */
  format?: string | null;
  /** Pairs of keypoints, by position, that are drawn joined. */
  skeleton?: [number, number][] | null;
}

export interface Commit {
  version: string;
  digest: string;
  message: string;
  author: string | null;
  time: string;
  parents: string[];
  /** One short line a change: "+1,200 rows", "label 214 rows". */
  changes: string[];
}

export interface DatasetInfo {
  name: string;
  /** Where `tl.open` finds it; null when the server does not tell. */
  url: string | null;
  version: string;
  digest: string;
  rows: number;
  nbytes: number | null;
  tensors: TensorInfo[];
}

/** What differs from version `a` to `b`, by row identity; rows are listed up to `limit`. */
export interface Diff {
  a: string;
  b: string;
  limit: number;
  schema_changes: string[];
  added: number;
  added_rows: number[];
  removed: number;
  removed_rows: number[];
  /** Positions in the older version and, in the same order, in the newer one. */
  updated: { tensor: string; count: number; rows_before: number[]; rows: number[] }[];
}

export interface Row {
  /** Position in the version; null for rows that a query computed. */
  _row: number | null;
  _row_id: string | null;
  [tensor: string]: CellValue | Summary;
}

export interface RowsPage {
  version: string;
  view: string | null;
  offset: number;
  total: number;
  rows: Row[];
}

export interface Cost {
  seconds: number;
  nbytes: number | null;
  requests: number | null;
}

export interface QueryResult {
  view: string;
  version: string;
  tql: string;
  tensors: TensorInfo[];
  rows: number;
  /** True for aggregates, whose rows are no rows of the dataset. */
  is_computed: boolean;
  cost: Cost;
  page: RowsPage;
}

/** Rows of a version under a name, for everyone. */
export interface SavedView {
  name: string;
  version: string;
  rows: number;
  /** What led to the rows; null where they were picked. */
  tql: string | null;
  message: string;
  author: string | null;
}

export interface SavedViews {
  views: SavedView[];
  may_save: boolean;
}

export interface Offer {
  text: string;
  kind: "tensor" | "class" | "function" | "keyword";
  detail: string;
}

export interface ClassCount {
  code: number;
  name: string;
  count: number;
}

export interface Statistics {
  tensor: string;
  /** Rows of the version or view, and how many of them were read for this. */
  rows: number;
  counted: number;
  values: number;
  nulls: number;
  classes: ClassCount[] | null;
  histogram: { title: string; edges: number[]; counts: number[] } | null;
}

/** RFC 9457, with tensorlake's stable `code` and, for queries, the place in the text. */
export interface Problem {
  title: string;
  status: number;
  detail: string;
  code: string;
  start?: number;
  stop?: number;
  line?: number;
  column?: number;
}

export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
    this.name = "ApiError";
  }
}

/** Rows of which version, or which query's result. */
export interface Source {
  version: string;
  view: string | null;
}

const DIFF_ROWS = 10_000; // the most that the server lists

/** Calls to one server; `base` is the URL of its `/v1/`. `onReach` is told whether it answers. */
export class Api {
  constructor(
    readonly base: URL,
    readonly onReach: (isReached: boolean) => void = () => {},
  ) {}

  /** Whether the server answers, whoever asks. */
  async isAlive(): Promise<boolean> {
    try {
      return (await fetch(new URL("../healthz", this.base), { cache: "no-store" })).ok;
    } catch {
      return false; // fetch has one error for all that can be wrong with a network
    }
  }

  async session(token: string): Promise<void> {
    await this.#request("session", { method: "POST", body: JSON.stringify({ token }) });
  }

  async datasets(): Promise<string[]> {
    const answer = await this.#json<{ datasets: { name: string }[] }>("datasets");
    return answer.datasets.map((dataset) => dataset.name);
  }

  dataset(name: string, version: string | null): Promise<DatasetInfo> {
    return this.#json(path(name), { version });
  }

  async versions(name: string, at: string, limit: number): Promise<Commit[]> {
    const answer = await this.#json<{ versions: Commit[] }>(`${path(name)}/versions`, {
      version: at,
      limit,
    });
    return answer.versions;
  }

  async refs(name: string, kind: "branches" | "tags"): Promise<{ name: string; version: string }[]> {
    const answer = await this.#json<Record<string, { name: string; version: string }[]>>(
      `${path(name)}/${kind}`,
    );
    return answer[kind] ?? [];
  }

  diff(name: string, a: string, b: string): Promise<Diff> {
    return this.#json(`${path(name)}/diff`, { a, b, limit: DIFF_ROWS });
  }

  rows(
    name: string,
    source: Source,
    span: { offset: number; limit: number; columns?: string[] },
    signal?: AbortSignal,
  ): Promise<RowsPage> {
    const columns = span.columns?.join(",") ?? null;
    return this.#json(`${path(name)}/rows`, { ...source, ...span, columns }, { signal });
  }

  query(name: string, tql: string, version: string, signal?: AbortSignal): Promise<QueryResult> {
    const body = JSON.stringify({ tql, version, limit: 0 });
    return this.#json(`${path(name)}/query`, {}, { method: "POST", body, signal });
  }

  savedViews(name: string): Promise<SavedViews> {
    return this.#json(`${path(name)}/views`);
  }

  /** A saved view, opened: a result like a query's. */
  savedView(name: string, saved: string, signal?: AbortSignal): Promise<QueryResult> {
    return this.#json(`${path(name)}/views/${encodeName(saved)}`, { limit: 0 }, { signal });
  }

  async saveView(name: string, body: { name: string; view: string; message: string }): Promise<void> {
    await this.#request(`${path(name)}/views`, { method: "POST", body: JSON.stringify(body) });
  }

  /** How a query would run; one that is wrong is an error with its place. */
  explain(name: string, tql: string, version: string, signal: AbortSignal): Promise<{ plan: string }> {
    const body = JSON.stringify({ tql, version });
    return this.#json(`${path(name)}/query/explain`, {}, { method: "POST", body, signal });
  }

  /** What the word before the cursor could become. */
  async complete(name: string, tql: string, cursor: number, version: string, signal: AbortSignal): Promise<Offer[]> {
    const body = JSON.stringify({ tql, cursor, version });
    const request = { method: "POST", body, signal };
    return (await this.#json<{ offers: Offer[] }>(`${path(name)}/query/complete`, {}, request)).offers;
  }

  statistics(name: string, tensor: string, source: Source, signal?: AbortSignal): Promise<Statistics> {
    return this.#json(`${path(name)}/statistics/${encodeName(tensor)}`, { ...source }, { signal });
  }

  thumbnails(
    name: string,
    body: Source & { tensor: string; size: number; rows: number[] },
    signal: AbortSignal,
  ): Promise<Response> {
    const request = { method: "POST", body: JSON.stringify(body), signal };
    return this.#request(`${path(name)}/thumbnails`, request);
  }

  /** The address of one sample, for `<img>` and downloads. */
  sampleUrl(name: string, tensor: string, row: number, options: Record<string, string | number>): string {
    return this.#url(`${path(name)}/tensors/${encodeName(tensor)}/${row}`, options).href;
  }

  /** One sample, from the address that `sampleUrl` gives. */
  sample(address: string, signal: AbortSignal): Promise<Response> {
    return this.#request(address, { signal });
  }

  #url(route: string, options: Record<string, string | number | null | undefined>): URL {
    const url = new URL(route, this.base);
    for (const [key, value] of Object.entries(options)) {
      if (value !== null && value !== undefined) url.searchParams.set(key, String(value));
    }
    return url;
  }

  async #json<T>(
    route: string,
    options: Record<string, string | number | null | undefined> = {},
    request: { method?: string; body?: string; signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    const answer = await this.#request(this.#url(route, options).href, request);
    return (await answer.json()) as T;
  }

  async #request(
    route: string,
    { method = "GET", body, signal }: { method?: string; body?: string; signal?: AbortSignal | undefined },
  ): Promise<Response> {
    const answer = await fetch(new URL(route, this.base), {
      method,
      credentials: "same-origin",
      ...(body === undefined ? {} : { body, headers: { "Content-Type": "application/json" } }),
      ...(signal === undefined ? {} : { signal }),
    }).catch((error: unknown) => {
      if (signal?.aborted !== true) this.onReach(false);
      throw error;
    });
    this.onReach(true);
    if (!answer.ok) throw new ApiError(await readProblem(answer));
    return answer;
  }
}

/** In paths `~` stands for the `/` in names. */
export function encodeName(name: string): string {
  return encodeURIComponent(name.replaceAll("/", "~"));
}

export function isSummary(value: CellValue | Summary | undefined): value is Summary {
  return typeof value === "object" && value !== null && !Array.isArray(value) && "$summary" in value;
}

function path(name: string): string {
  return `datasets/${encodeName(name)}`;
}

async function readProblem(answer: Response): Promise<Problem> {
  const fallback = { title: answer.statusText, status: answer.status, detail: "", code: "http" };
  if (!answer.headers.get("Content-Type")?.includes("json")) return fallback;
  return { ...fallback, ...((await answer.json()) as Partial<Problem>) };
}
