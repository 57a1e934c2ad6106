/**
 * Calls of the REST API under `/v1`, and its types.
 *
 * The types are generated from the server's OpenAPI document (`make api`), and checks compare them. Names are
 * those of the JSON (snake_case); nothing is translated.
 */
import type { components } from "./types";

type Schemas = components["schemas"];

export type CellValue = Schemas["CellValue"];
export type ClassCount = Schemas["ClassCount"];
export type ClassCounts = Schemas["ClassCounts"];
export type Commit = Schemas["CommitInfo"];
export type DisputedCell = Schemas["DisputedCell"];
export type DisputedRow = Schemas["DisputedRow"];
export type Histogram = Schemas["Histogram"];
export type DatasetInfo = Schemas["DatasetInfo"];
export type Diff = Schemas["DiffInfo"];
export type Offer = Schemas["Offer"];
export type Ref = Schemas["Ref"];
export type QueryResult = Schemas["QueryResult"];
export type Row = Schemas["Row"];
export type Transaction = Schemas["TransactionRequest"];
export type RowsPage = Schemas["RowsPage"];
export type SavedView = Schemas["SavedViewInfo"];
export type SavedViews = Schemas["SavedViews"];
export type Statistics = Schemas["Statistics"];
export type Summary = Schemas["Summary"];
export type TensorInfo = Schemas["TensorInfo"];
export type Merge = Schemas["MergeRequest"];
export type LabelIssues = Schemas["LabelIssues"];
export type Merged = Schemas["Merged"];
export type WindowInfo = Schemas["WindowInfo"];
export type MediaInfo = Schemas["MediaInfo"];
export type PairAxis = Schemas["PairAxis"];
export type PairStatistics = Schemas["PairStatistics"];
export type PeaksInfo = Schemas["PeaksInfo"];
export type Curve = Schemas["Curve"];
export type RunDetails = Schemas["RunDetails"];
export type RunInfo = Schemas["RunInfo"];
export type RunStep = Schemas["RunStep"];
export type SeenSteps = Schemas["SeenSteps"];
export type FlowInfo = Schemas["FlowInfo"];
export type JobSummary = Schemas["JobSummary"];

/** RFC 9457, with tensorlake's stable `code` and, for queries, the position in the text. */
export type Problem = Omit<Schemas["ProblemInfo"], "type">;

export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
    this.name = "ApiError";
  }
}

/** The network failed: the server sent no response. */
export class Unreachable extends Error {
  constructor(cause?: unknown) {
    super("no connection to the server", { cause });
    this.name = "Unreachable";
  }
}

/** What became of a call: a response, none, or one that requires another sign-in. */
export type Reach = "reached" | "unreachable" | "signed-out";

/** Whether a call failed because of the connection, of which one banner tells; such calls are repeated later. */
export function isConnectionLost(error: unknown): boolean {
  return error instanceof Unreachable || (error instanceof ApiError && error.problem.status === UNAUTHORIZED);
}

const UNAUTHORIZED = 401;

/** The version, or the result of a query, that rows come from. */
export interface Source {
  version: string;
  view: string | null;
}

interface Request {
  method?: string;
  body?: string;
  accept?: string;
  signal?: AbortSignal | undefined;
}

const DIFF_ROWS = 10_000; // the server's limit

/** Calls to one server; `base` is the URL of its `/v1/`. `onReach` is called with the outcome of each. */
export class Api {
  constructor(
    readonly base: URL,
    readonly onReach: (reach: Reach) => void = () => {},
  ) {}

  /** Whether the server responds; needs no token. */
  async isAlive(): Promise<boolean> {
    try {
      return (await fetch(new URL("../healthz", this.base), { cache: "no-store" })).ok;
    } catch {
      return false; // fetch throws one error for every network failure
    }
  }

  /** Whether the server responds to this browser: after a restart it may require another sign-in. */
  async isSignedIn(): Promise<boolean> {
    try {
      return (await fetch(new URL("datasets", this.base), { credentials: "same-origin", cache: "no-store" })).ok;
    } catch {
      return false; // as above
    }
  }

  async session(token: string): Promise<void> {
    await this.#request("session", posted<"SessionRequest">({ token }));
  }

  async datasets(): Promise<string[]> {
    const answer = await this.#json<Schemas["DatasetList"]>("datasets");
    return answer.datasets.map((dataset) => dataset.name);
  }

  dataset(name: string, version: string | null): Promise<DatasetInfo> {
    return this.#json(path(name), { version });
  }

  async versions(name: string, at: string, limit: number): Promise<Commit[]> {
    const answer = await this.#json<Schemas["Versions"]>(`${path(name)}/versions`, {
      version: at,
      limit,
    });
    return answer.versions;
  }

  /** Commits of the same branch after a version, the oldest first. */
  async commitsAfter(name: string, version: string): Promise<Commit[]> {
    const branch = version.slice(0, version.lastIndexOf("@"));
    const url = this.#url(`${path(name)}/events`, { branch, after: version, wait: "false" });
    const lines = (await (await this.#request(url.href, {})).text()).split("\n");
    return lines.filter((line) => line.startsWith("data: ")).map((line) => JSON.parse(line.slice("data: ".length)) as Commit);
  }

  async branches(name: string): Promise<Ref[]> {
    return (await this.#json<Schemas["Branches"]>(`${path(name)}/branches`)).branches;
  }

  async tags(name: string): Promise<Ref[]> {
    return (await this.#json<Schemas["Tags"]>(`${path(name)}/tags`)).tags;
  }

  /** Starts a branch at a version, and returns its first version. */
  async startBranch(name: string, branch: string, at: string): Promise<string> {
    const answer = await this.#request(`${path(name)}/branches`, posted<"BranchRequest">({ name: branch, at }));
    return ((await answer.json()) as Ref).version;
  }

  async endBranch(name: string, branch: string): Promise<void> {
    await this.#request(`${path(name)}/branches/${encodeName(branch)}`, { method: "DELETE" });
  }

  /** Publishes changes as one commit, and returns its version; with the same `key` again, that of the first time. */
  async commit(name: string, transaction: Transaction): Promise<string> {
    const answer = await this.#request(`${path(name)}/transactions`, posted<"TransactionRequest">(transaction));
    return ((await answer.json()) as Schemas["Committed"]).version;
  }

  /** Merges a branch, or previews it: with the cells that both changed. */
  async merge(name: string, asked: Merge): Promise<Merged> {
    return (await (await this.#request(`${path(name)}/merge`, posted<"MergeRequest">(asked))).json()) as Merged;
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

  /** A page of columns, as .npz. */
  async columns(name: string, source: Source, span: { offset: number; limit: number; columns: string }, signal?: AbortSignal): Promise<ArrayBuffer> {
    const url = this.#url(`${path(name)}/rows`, { ...source, ...span });
    return (await this.#request(url.href, { signal, accept: "application/x-npz" })).arrayBuffer();
  }

  query(name: string, tql: string, version: string, signal?: AbortSignal): Promise<QueryResult> {
    const request = posted<"QueryRequest">({ tql, version, limit: 0 }, signal);
    return this.#json(`${path(name)}/query`, {}, request);
  }

  /** Selected rows of a version, as packed runs; the result is like that of a query. */
  select(name: string, rows: string, version: string, signal?: AbortSignal): Promise<QueryResult> {
    return this.#json(`${path(name)}/query`, {}, posted<"QueryRequest">({ rows, version, limit: 0 }, signal));
  }

  /** The rows whose vectors are nearest to that of a row, with their scores, the nearest first. */
  async similar(name: string, version: string, column: string, row: number, k: number): Promise<{ rows: number[]; scores: number[] }> {
    const answer = await this.#request(`${path(name)}/search`, posted<"SearchRequest">({ column, row, k, version, limit: 0 }));
    return (await answer.json()) as Schemas["SearchResult"];
  }

  /** Rows whose label is likely wrong, by predicted probabilities. */
  labelIssues(name: string, label: string, probabilities: string, version: string, signal: AbortSignal): Promise<LabelIssues> {
    return this.#json(`${path(name)}/label-issues/${encodeName(label)}`, { pred_probs: probabilities, version }, { signal });
  }

  /** Rows that appear twice, by images that look alike or vectors of one direction. */
  duplicates(name: string, tensor: string, threshold: number | null, version: string, signal: AbortSignal): Promise<Schemas["Duplicates"]> {
    return this.#json(`${path(name)}/duplicates/${encodeName(tensor)}`, { threshold, version }, { signal });
  }

  /** A result again, by its id. */
  result(name: string, view: string, signal?: AbortSignal): Promise<QueryResult> {
    return this.#json(`${path(name)}/query`, { view, limit: 0 }, { signal });
  }

  /** The numbers of all rows of a result, as .npz. */
  async rowNumbers(name: string, view: string): Promise<ArrayBuffer> {
    return (await this.#request(`${path(name)}/selection`, posted<"AskedRows">({ view }))).arrayBuffer();
  }

  /** All training runs that were recorded beside a dataset, page by page. */
  async runs(name: string, signal?: AbortSignal): Promise<RunInfo[]> {
    const found: RunInfo[] = [];
    for (let after: string | null | undefined; after !== null; ) {
      const page: Schemas["RunList"] = await this.#json(`${path(name)}/runs`, { after }, { signal });
      found.push(...page.runs);
      after = page.next;
    }
    return found;
  }

  run(name: string, run: string, signal?: AbortSignal): Promise<RunDetails> {
    return this.#json(`${path(name)}/runs/${encodeName(run)}`, {}, { signal });
  }

  /** A metric over the steps of a run, in at most `points` points. */
  curve(name: string, run: string, metric: string, range: { start?: number; stop?: number; points: number }, signal: AbortSignal): Promise<Curve> {
    return this.#json(`${path(name)}/runs/${encodeName(run)}/metrics/${encodeName(metric)}`, range, { signal });
  }

  /** The batch of a step: the id of its rows as a result. */
  step(name: string, { run, step, rank }: { run: string; step: number; rank: number | null }, version: string, signal?: AbortSignal): Promise<RunStep> {
    return this.#json(`${path(name)}/runs/${encodeName(run)}/steps/${step}`, { version, rank }, { signal });
  }

  /** The steps whose batches had a row of a version, and the values logged of it. */
  seenSteps(name: string, run: string, row: number, version: string, signal: AbortSignal): Promise<SeenSteps> {
    return this.#json(`${path(name)}/runs/${encodeName(run)}/rows/${row}`, { version }, { signal });
  }

  /** Runs of flows, the newest first, without their steps. */
  async flows(signal?: AbortSignal): Promise<FlowInfo[]> {
    return (await this.#json<Schemas["FlowList"]>("flows", {}, { signal })).flows;
  }

  /** A run of a flow, with its steps. */
  flow(id: string, signal?: AbortSignal): Promise<FlowInfo> {
    return this.#json(`flows/${encodeURIComponent(id)}`, {}, { signal });
  }

  /** Continues a run that failed or was cancelled, or ends one. */
  async changeFlow(id: string, change: "retry" | "cancel"): Promise<void> {
    await this.#request(`flows/${encodeURIComponent(id)}/${change}`, { method: "POST" });
  }

  /** Answers the approval that a run waits for. */
  async approveFlow(id: string, decision: boolean): Promise<void> {
    await this.#request(`flows/${encodeURIComponent(id)}/approve`, posted<"ApprovalRequest">({ decision }));
  }

  /** The requests of this client that are answered later, the newest first. */
  async jobs(signal?: AbortSignal): Promise<JobSummary[]> {
    return (await this.#json<Schemas["JobList"]>("jobs", {}, { signal })).jobs;
  }

  /** Cancels a job, or deletes its answer. */
  async cancelJob(id: string): Promise<void> {
    await this.#request(`jobs/${encodeURIComponent(id)}`, { method: "DELETE" });
  }

  savedViews(name: string): Promise<SavedViews> {
    return this.#json(`${path(name)}/views`);
  }

  /** Opens a saved view; the result is like that of a query. */
  savedView(name: string, saved: string, signal?: AbortSignal): Promise<QueryResult> {
    return this.#json(`${path(name)}/views/${encodeName(saved)}`, { limit: 0 }, { signal });
  }

  async saveView(name: string, body: Schemas["SaveViewRequest"]): Promise<void> {
    await this.#request(`${path(name)}/views`, posted<"SaveViewRequest">(body));
  }

  /** The plan of a query; an invalid query throws an error with its position. */
  explain(name: string, tql: string, version: string, signal: AbortSignal): Promise<Schemas["Explanation"]> {
    const request = posted<"ExplainRequest">({ tql, version }, signal);
    return this.#json(`${path(name)}/query/explain`, {}, request);
  }

  /** Completions of the word before the cursor. */
  async complete(name: string, tql: string, cursor: number, version: string, signal: AbortSignal): Promise<Offer[]> {
    const request = posted<"CompletionRequest">({ tql, cursor, version }, signal);
    return (await this.#json<Schemas["Completions"]>(`${path(name)}/query/complete`, {}, request)).offers;
  }

  statistics(name: string, tensor: string, source: Source, signal?: AbortSignal): Promise<Statistics> {
    return this.#json(`${path(name)}/statistics/${encodeName(tensor)}`, { ...source }, { signal });
  }

  /** Rows by the values of two tensors. */
  pairStatistics(name: string, [x, y]: readonly [string, string], source: Source, signal: AbortSignal): Promise<PairStatistics> {
    return this.#json(`${path(name)}/statistics/${encodeName(x)}/by/${encodeName(y)}`, { ...source }, { signal });
  }

  /** Vectors as points of the plane, and by what they are coloured, as .npz. */
  async projection(name: string, tensor: string, version: string, color: string | null, signal: AbortSignal): Promise<ArrayBuffer> {
    const url = this.#url(`${path(name)}/projection/${encodeName(tensor)}`, { version, color });
    return (await this.#request(url.href, { signal })).arrayBuffer();
  }

  thumbnails(name: string, body: Schemas["ThumbnailsRequest"], signal: AbortSignal): Promise<Response> {
    return this.#request(`${path(name)}/thumbnails`, posted<"ThumbnailsRequest">(body, signal));
  }

  /** The address of one sample, for `<img>` and downloads. */
  sampleUrl(name: string, tensor: string, row: number, options: Record<string, string | number>): string {
    return this.#url(`${path(name)}/tensors/${encodeName(tensor)}/${row}`, options).href;
  }

  /** The window of a deep image, from the address that `sampleUrl` gives. */
  async window(address: string, signal: AbortSignal): Promise<WindowInfo> {
    return (await (await this.part(address, "window", signal)).json()) as WindowInfo;
  }

  /** What the server makes of a sample beside its image, from the address that `sampleUrl` gives. */
  part(address: string, part: string, signal: AbortSignal): Promise<Response> {
    const url = new URL(address);
    url.pathname += `/${part}`;
    return this.#request(url.href, { signal });
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
    request: Request = {},
  ): Promise<T> {
    const answer = await this.#request(this.#url(route, options).href, request);
    return (await answer.json()) as T;
  }

  async #request(
    route: string,
    { method = "GET", body, accept, signal }: Request,
  ): Promise<Response> {
    const answer = await fetch(new URL(route, this.base), {
      method,
      credentials: "same-origin",
      ...(body === undefined ? {} : { body }),
      headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...(accept === undefined ? {} : { Accept: accept }) },
      ...(signal === undefined ? {} : { signal }),
    }).catch((error: unknown) => {
      if (signal?.aborted === true) throw error;
      this.onReach("unreachable");
      throw new Unreachable(error);
    });
    this.onReach(answer.status === UNAUTHORIZED ? "signed-out" : "reached");
    if (!answer.ok) throw new ApiError(await readProblem(answer));
    return answer;
  }
}

/** In paths `~` stands for the `/` in names, `~~` for `~`, and `~!` for a `/` that one of `/ ~ !` follows. */
export function encodeName(name: string): string {
  return encodeURIComponent(name.replaceAll("~", "~~").replace(/\/(?=[/~!])/g, "~!").replaceAll("/", "~"));
}

export function isSummary(value: CellValue | Summary | undefined): value is Summary {
  return typeof value === "object" && value !== null && !Array.isArray(value) && "$summary" in value;
}

/** A request that sends a body which the server describes. */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- a caller names the schema that its body must follow
function posted<Name extends keyof Schemas>(body: Schemas[Name], signal?: AbortSignal): Request {
  return { method: "POST", body: JSON.stringify(body), signal };
}

function path(name: string): string {
  return `datasets/${encodeName(name)}`;
}

async function readProblem(answer: Response): Promise<Problem> {
  const fallback = { title: answer.statusText, status: answer.status, detail: "", code: "http" };
  if (!answer.headers.get("Content-Type")?.includes("json")) return fallback;
  return { ...fallback, ...((await answer.json()) as Partial<Problem>) };
}
