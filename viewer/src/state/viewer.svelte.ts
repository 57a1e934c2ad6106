/**
 * The state of the page and its actions.
 *
 * `place` is the part in the URL (url.ts); everything else is derived from it and from the server's responses.
 * Components read this object and call its methods.
 */
import {
  Api,
  ApiError,
  type Commit,
  type DatasetInfo,
  type Problem,
  type QueryResult,
  type Row,
  type SavedView,
  type Source,
  type TensorInfo,
  isConnectionLost,
  Unreachable,
} from "../api/client";
import { workerPool } from "../fetch/worker-pool";
import { chooseCounted, chooseImageTensors, chooseLayout } from "./defaults";
import { maskTensors, type OverlayStyle } from "../overlays/layers";
import { chooseLabels, ClassTable } from "../classes/class-table";
import { ClassPalette } from "../classes/palette";
import { Counts, readPalette } from "./statistics.svelte";
import { Comparing } from "./versions/comparing.svelte";
import type { Change, ChangeKind, Comparison } from "./versions/diff";
import { Connection, isAbort, unreachable } from "./connection.svelte";
import { FirstPaint } from "./page-load";
import { News } from "./versions/news.svelte";
import { Playback } from "./playback.svelte";
import { Edits } from "./edits/edits.svelte";
import { KeptSteps } from "./edits/kept-steps";
import { RowSelection, selectRows } from "./rows/selection.svelte";
import { Results } from "./rows/results";
import { batchOf, Runs } from "./runs.svelte";
import { Refs } from "./versions/refs.svelte";
import { findRoot, readPlace, takeToken, writePlace, ZOOM_MAX, type Layout, type Place } from "./url";

export type Phase = "loading" | "ready" | "failed";

/** The selected row, once loaded. */
export interface Shown {
  row: Row;
  /** Its position in the current rows. */
  position: number;
}

/** All rows, from the top. */
const ALL_ROWS = { tql: "", saved: null, selected: null, step: null, rank: null, row: null, first: null, look: false } as const;
const WITHOUT_DIFF = { compare: null, diff: null, change: 0, only: null } as const;

export class Viewer {
  /** What was changed by hand and is not committed yet. */
  readonly edits = new Edits(new KeptSteps(indexedDB));
  readonly root = findRoot(new URL(location.href));
  readonly api = new Api(new URL("v1/", this.root), (reach) => this.connection.note(reach));
  readonly connection = new Connection(
    (from) => (from === "signed-out" ? this.api.isSignedIn() : this.api.isAlive()),
    () => void this.reconnect(),
  ); // repeats failed requests once the server responds again

  place = $state.raw<Place>(readPlace(new URL(location.href), this.root));
  phase = $state<Phase>("loading");
  failure = $state.raw<Problem | null>(null);
  datasets = $state.raw<string[]>([]);
  info = $state.raw<DatasetInfo | null>(null);
  /** The result of the current query; null for all rows. */
  result = $state.raw<QueryResult | null>(null);
  queryProblem = $state.raw<Problem | null>(null);
  /** The query of the rows that are shown: that of `place`, until the server refuses it. */
  applied = $state("");
  isRunning = $state(false);
  /** The last error of a secondary request: statistics, log, saved views. */
  warning = $state.raw<Problem | null>(null);
  /** Incremented when the server is reachable again, to repeat failed requests. */
  reconnects = $state(0);
  readonly comparing = new Comparing();
  changes: Change[] = $derived(
    this.place.only === null ? this.comparing.changes : this.comparing.changes.filter(({ kind }) => kind === this.place.only),
  );
  /** The selected row as it is stored, once loaded; and with what is not committed yet. */
  loaded = $state.raw<Shown | null>(null);
  shown: Shown | null = $derived(this.loaded === null ? null : { ...this.loaded, row: this.edits.apply(this.loaded.row) });
  overlays = $state(true);
  /** The masks of the selected row by tensor, as images of codes. */
  shownMasks = $state.raw<ReadonlyMap<string, ImageBitmap>>(new Map());
  readonly refs = new Refs(this.api);
  /** Commits after the version that is shown, of the branch that the page follows. */
  readonly news = new News(() => this.#following());
  readonly selection = new RowSelection();
  readonly results = new Results(this.api, sessionStorage);
  readonly runs = new Runs(this.api, () => this.place, (change, how) => this.#go({ ...this.place, ...change }, how));
  readonly playback = new Playback((frame) => this.#put({ ...this.place, frame }, "replace"));
  readonly counts = new Counts();
  palette = $state.raw(new ClassPalette([]));

  #hiddenNames = $derived(this.place.hidden.join(","));
  hidden: ReadonlySet<string> = $derived(new Set(this.#hiddenNames.split(",")));

  #hiddenClasses = $derived(this.place.off.join(","));
  hiddenCodes: ReadonlySet<number> = $derived(
    new Set(this.#hiddenClasses === "" ? [] : this.#hiddenClasses.split(",").map(Number)),
  );
  #classes = $derived(new ClassTable(this.info?.tensors ?? []));
  /** The same objects until they change, to avoid repaints. */
  style: OverlayStyle = $derived({
    hiddenTensors: this.hidden,
    hiddenCodes: this.hiddenCodes,
    classes: this.#classes,
    palette: this.palette,
    opacity: this.place.opacity,
  });

  #running: AbortController | null = null;
  /** Resolved by the first visible rows of a dataset; statistics of a million rows wait for it. */
  #sight = new FirstPaint();
  #opening = new FirstPaint(); // of the page: also noted on errors
  readonly firstPaint = this.#opening.first;

  get tensors(): TensorInfo[] {
    return this.result?.tensors ?? this.info?.tensors ?? [];
  }

  readonly imageTensors: TensorInfo[] = $derived(chooseImageTensors(this.tensors, this.hidden));

  /** The image of the detail view and of differences: the chosen one, else the first. */
  get imageTensor(): TensorInfo | null {
    const all = this.imageTensors;
    return all.find(({ name }) => name === this.place.image) ?? all[0] ?? null;
  }

  /** The masks over any image. */
  get masks(): TensorInfo[] {
    return [...new Set(this.imageTensors.flatMap((image) => maskTensors(this.tensors, image, this.style)))];
  }

  get layout(): Layout {
    return this.place.layout ?? chooseLayout(this.tensors);
  }

  /** Tensors whose statistics are shown, in the order they were chosen. */
  get counted(): TensorInfo[] {
    const labels = this.result?.is_computed === true ? null : chooseLabels(this.info?.tensors ?? []);
    const names = this.place.counted ?? chooseCounted(this.tensors, labels);
    return names.flatMap((name) => this.tensors.find((tensor) => tensor.name === name) ?? []);
  }

  get count(): number {
    return this.result?.rows ?? this.info?.rows ?? 0;
  }

  /** The query of the current rows; for a saved view, its query, or "" for hand-picked rows. */
  get text(): string {
    return this.place.saved === null ? this.place.tql : (this.result?.tql ?? "");
  }

  /** The query whose conditions hold for the rows: unless it was refused, already while it runs. */
  get holding(): string {
    return this.queryProblem === null ? this.text : this.applied;
  }

  get comparison(): Comparison | null {
    return this.comparing.comparison;
  }

  get source(): Source {
    return { version: this.info?.version ?? "", view: this.result?.view ?? null };
  }

  constructor() {
    addEventListener("popstate", () => void this.#go(readPlace(new URL(location.href), this.root)));
    addEventListener("focus", () => {
      this.connection.nudge();
      void this.news.look();
    });
    addEventListener("online", () => this.connection.nudge());
  }

  async start(): Promise<void> {
    const { token, clean } = takeToken(new URL(location.href));
    this.phase = "loading";
    if (this.place.dataset !== null) workerPool.prepare(); // while the session is requested
    await this.#attempt(async () => {
      if (token !== null) {
        // After the session: a page reloaded before needs its token again.
        await this.api.session(token).finally(() => history.replaceState(null, "", clean));
      }
      if (this.place.dataset === null) {
        this.datasets = await this.api.datasets();
        const only = this.datasets.length === 1 && this.place.flow === null ? (this.datasets[0] ?? null) : null;
        this.#put({ ...this.place, dataset: only }, "replace");
        return this.#load();
      }
      void this.#beside(async () => {
        await this.firstPaint; // the list of datasets can wait for the first rows
        this.datasets = await this.api.datasets();
      });
      await this.#load();
    });
  }

  /** Reports that the first rows are visible, or that there are none. */
  noteFirstPaint(): void {
    this.#sight.note();
    this.#opening.note();
  }

  /** Opens a dataset; null lists all of them. */
  openDataset(dataset: string | null): Promise<void> {
    return this.#go({ ...this.place, ...ALL_ROWS, dataset, flow: null, at: null, hidden: [], counted: null, pair: null, off: [], windows: {}, label: null, edit: false, image: null, vector: null, color: null, runs: [], metrics: [], span: null, ...WITHOUT_DIFF }, "push");
  }

  /** In the place of datasets, shows a run of a flow, or with "" all of them, and jobs; null lists datasets. */
  readonly openFlows = (flow: string | null): Promise<void> => this.#go({ ...this.place, flow }, "push");
  openVersion(at: string | null): Promise<void> {
    return this.#go({ ...this.place, ...ALL_ROWS, tql: this.place.tql, step: this.place.step, at }, "push");
  }

  /** Runs a query; an empty one shows all rows again. */
  async runQuery(tql: string): Promise<void> {
    this.#put({ ...this.place, ...ALL_ROWS, tql: tql.trim() }, "push");
    await this.#attempt(() => this.#query());
  }

  openSaved({ name, version }: SavedView): Promise<void> {
    return this.#go({ ...this.place, ...ALL_ROWS, at: version, saved: name }, "push");
  }

  /** Shows only the selected rows: by a query where it is short enough to be read, else by an id. */
  async showSelected(): Promise<void> {
    const { sorted } = this.selection;
    const tql = selectRows(sorted);
    if (tql !== null) return this.runQuery(tql);
    const { view } = await this.results.select(this.place.dataset ?? "", this.source.version, sorted);
    await this.#go({ ...this.place, ...ALL_ROWS, selected: view }, "push");
  }

  /** Selects all rows that are shown; the caller shows errors. */
  async selectAll(): Promise<void> {
    const { result, count } = this;
    if (result?.is_computed === true) return;
    const rows = await this.results.rowsOf(this.place.dataset ?? "", result, count);
    if (this.result === result) this.selection.put(rows);
  }

  /** Saves the current rows as a view, or the selected ones; the caller shows errors. */
  async saveView(name: string, rows: "shown" | "selected" = "shown"): Promise<void> {
    const dataset = this.place.dataset ?? "";
    const result = rows === "shown" ? this.result : await this.results.select(dataset, this.source.version, this.selection.sorted);
    if (result !== null) await this.refs.saveView(dataset, name, result.view);
  }

  /** Repeats failed requests once the server is reachable again. */
  async reconnect(): Promise<void> {
    if (this.phase === "failed" || this.info === null) return this.start();
    await this.#attempt(() => this.#query()); // a restarted server has lost its results
    this.reconnects += 1;
  }

  compareWith(compare: string | null): void {
    this.#put({ ...this.place, ...WITHOUT_DIFF, compare }, "push");
    void this.#beside(() => this.#compare());
  }

  /** Opens or closes the differences. */
  openDiff(diff: Place["diff"]): void {
    const how = diff !== null && this.place.diff === null ? "push" : "replace";
    this.#put({ ...this.place, diff: this.place.compare === null ? null : diff, look: false }, how);
  }

  showChanges(only: ChangeKind | null): void {
    this.#put({ ...this.place, only, change: 0 }, "replace");
  }

  selectChange(change: number): void {
    const last = Math.max(0, this.changes.length - 1);
    this.#put({ ...this.place, change: Math.min(Math.max(0, change), last) }, "replace");
  }

  selectRow(row: number | null): void {
    const bounded = row === null || this.count === 0 ? null : Math.min(Math.max(0, row), this.count - 1);
    const frame = bounded === this.place.row ? this.place.frame : null;
    this.#put({ ...this.place, row: bounded, frame, look: this.place.look && bounded !== null }, "replace");
  }

  /** Keeps the place that was scrolled to in the URL. */
  noteFirst(first: number): void {
    if (first !== (this.place.first ?? 0)) this.#put({ ...this.place, first: first === 0 ? null : first }, "replace");
  }

  /** Opens the detail view, of a named image or of the one that was chosen before; or closes it. */
  look(look: boolean, image = this.place.image): void {
    const row = this.place.row ?? (this.count > 0 ? 0 : null);
    const place = { ...this.place, row, image, look: look && row !== null && this.imageTensor !== null, edit: look && this.place.edit };
    this.#put(place, look && !this.place.look ? "push" : "replace");
  }

  /** Edits by hand: labels of a tensor by keys, or what lies over an image in the detail view. */
  edit(how: Partial<Pick<Place, "label" | "edit">>): void {
    this.#put({ ...this.place, ...how }, "push");
  }

  /** Sets how images are drawn, all of them, so that they can be compared; the vectors and colours of the map; what is counted by what. */
  draw(how: Partial<Pick<Place, "side" | "opacity" | "windows" | "vector" | "color" | "pair">>): void {
    this.#put({ ...this.place, ...how }, "replace");
  }

  toggleTensor(name: string): void {
    const { hidden } = this.place;
    const next = hidden.includes(name) ? hidden.filter((other) => other !== name) : [...hidden, name];
    this.#put({ ...this.place, hidden: next }, "replace");
  }

  /** Shows or hides the statistics of a tensor. */
  toggleCounted(name: string): void {
    const shown = this.counted.map((tensor) => tensor.name);
    const isShown = shown.includes(name);
    const counted = isShown ? shown.filter((other) => other !== name) : [...shown, name];
    this.#put({ ...this.place, counted }, "replace");
    if (isShown) this.counts.keep(counted);
    else this.countAgain(name);
  }

  countAgain(...names: string[]): void {
    void this.#beside(() => this.#countTensors(names));
  }

  toggleCode(code: number): void {
    const { off } = this.place;
    const next = off.includes(code) ? off.filter((other) => other !== code) : [...off, code];
    this.#put({ ...this.place, off: next }, "replace");
  }

  showAs(layout: Layout): void {
    if (layout === "runs" && this.place.step !== null) return void this.runs.openStep(null);
    this.#put({ ...this.place, layout: layout === chooseLayout(this.tensors) ? null : layout }, "push");
  }

  /** Shows the newest version of a branch, at the same place. */
  async showBranch(branch: string): Promise<void> {
    this.#put({ ...this.place, at: branch === "main" ? null : branch, saved: null, selected: null }, "push");
    await this.refresh();
  }

  /** Shows the newest version of the branch, at the same place. */
  async refresh(): Promise<void> {
    this.news.clear();
    await this.#attempt(() => this.#load());
  }

  zoomBy(step: number): void {
    const zoom = Math.min(ZOOM_MAX, Math.max(0, this.place.zoom + step));
    this.#put({ ...this.place, zoom }, "replace");
  }

  /** New commits of the branch; null where a fixed version is shown. */
  #following(): (() => Promise<Commit[]>) | null {
    const { dataset, at, saved, selected } = this.place;
    const version = this.info?.version ?? null;
    const isBranch = at === null || this.refs.branches.some(({ name }) => name === at);
    if (dataset === null || version === null || saved !== null || selected !== null || !isBranch || this.connection.isLost) return null;
    return () => this.api.commitsAfter(dataset, version);
  }

  #put(place: Place, how: "push" | "replace"): void {
    this.place = place;
    const url = writePlace(place, this.root);
    if (url.href === location.href) return;
    if (how === "push") history.pushState(null, "", url);
    else history.replaceState(null, "", url);
  }

  /** Goes to another place, reloading only what differs. */
  async #go(place: Place, how?: "push" | "replace"): Promise<void> {
    const before = this.place;
    if (how !== undefined) this.#put(place, how);
    else this.place = place;
    if (this.phase === "failed") this.phase = "loading"; // elsewhere than at what failed
    if (place.dataset !== before.dataset || place.at !== before.at) {
      await this.#attempt(() => this.#load());
    } else if (place.tql !== before.tql || place.saved !== before.saved || place.selected !== before.selected || batchOf(place) !== batchOf(before)) {
      await this.#attempt(() => this.#query());
    }
    if (place.compare !== before.compare) await this.#beside(() => this.#compare());
  }

  async #load(): Promise<void> {
    const { dataset, at, saved, selected } = this.place;
    this.result = null;
    this.applied = "";
    this.queryProblem = null;
    this.warning = null;
    this.info = null;
    this.counts.clear();
    this.news.clear();
    this.selection.clear();
    this.runs.clear();
    this.#sight = new FirstPaint();
    if (dataset === null) return;
    document.title = `${dataset} · tensorlake`;
    const opened = await this.results.opened(dataset, saved, selected);
    const info = await this.api.dataset(dataset, opened?.version ?? at);
    if (this.place.dataset !== dataset || this.place.at !== at) return;
    void this.#sight.first.then(() => this.refs.load(dataset, info.version));
    void this.#beside(() => this.#loadPalette(dataset, info));
    await this.#query(info);
    await this.#compare();
  }

  async #loadPalette(dataset: string, info: DatasetInfo): Promise<void> {
    const labels = chooseLabels(info.tensors);
    if (labels === null) return;
    await this.#sight.first;
    this.palette = (await readPalette(this.api, dataset, info.version, labels.name)) ?? this.palette;
  }

  async #compare(): Promise<void> {
    const { dataset, compare: other } = this.place;
    this.comparing.clear();
    if (dataset === null || other === null || this.info === null) return;
    await this.comparing.load(this.api, dataset, other, this.info.version, () => this.place.compare === other);
  }

  /** Runs the query of `place`; a version and its rows appear together. */
  async #query(info = this.info): Promise<void> {
    const { dataset, tql, saved, selected, step } = this.place;
    this.queryProblem = null;
    this.#running?.abort();
    if (dataset === null || info === null) return;
    const running = new AbortController();
    this.#running = running;
    this.isRunning = true;
    try {
      const asked = { tql, saved, selected, version: info.version };
      const result = step !== null ? await this.runs.ask(dataset, info.version, running.signal) : await this.results.ask(dataset, asked, running.signal);
      if (running.signal.aborted) return;
      if (selected !== null && result !== null) this.#put({ ...this.place, selected: result.view }, "replace");
      this.result = result;
      this.selection.forgetPlace();
      this.applied = saved === null ? tql : (result?.tql ?? "");
    } catch (error) {
      if (running.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.queryProblem = error.problem;
      if (this.counts.all.size > 0) return; // statistics of the rows still shown
    } finally {
      if (this.#running === running) {
        this.info = info;
        this.isRunning = false;
      }
    }
    void this.#beside(() => this.#countShown());
  }

  async #countShown(): Promise<void> {
    const names = this.counted.map((tensor) => tensor.name);
    this.counts.keep(names);
    await this.#countTensors(names);
  }

  /** Loads statistics of the current rows; aborted when other rows are shown. */
  async #countTensors(names: string[]): Promise<void> {
    const { dataset } = this.place;
    const signal = this.#running?.signal;
    if (dataset === null || signal === undefined) return;
    await this.#sight.first;
    signal.throwIfAborted();
    await this.counts.read(names, (name) => this.api.statistics(dataset, name, this.source, signal), signal);
  }

  /** Shows errors of the page; aborts are ignored. */
  async #attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      if (this.phase === "loading") this.phase = "ready";
    } catch (error) {
      if (isAbort(error)) return;
      if (isConnectionLost(error) && this.info !== null) return; // the page stays, with a banner
      this.failure = error instanceof ApiError ? error.problem : unreachable(error);
      this.phase = "failed";
      this.#opening.note();
      if (!(error instanceof ApiError || error instanceof Unreachable)) throw error; // a bug, for the console
    }
  }

  /** Runs a secondary request; its errors are shown in a banner. */
  async #beside(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (isConnectionLost(error) || isAbort(error)) return;
      if (!(error instanceof ApiError)) throw error; // a bug, for the console
      this.warning = error.problem;
    }
  }
}
