/**
 * The page's state as its URL:
 *
 *     /pets?at=main@12&q=WHERE label = 'cat'&row=160&hide=masks&zoom=2
 *
 * Every view is a link; defaults are omitted.
 */

import { encodeName } from "../api/client";

export type Layout = "grid" | "table" | "map" | "mistakes" | "duplicates" | "runs";
const MODES: Readonly<Record<string, Layout>> = { rows: "grid", table: "table", map: "map", mistakes: "mistakes", duplicates: "duplicates", runs: "runs", grid: "grid" }; // "grid" in older links
const EDIT = "edit";
const STEP = "step";
const FLOWS = "flows";

export interface Place {
  dataset: string | null;
  /** In the place of a dataset: the run of a flow, or "" for the list of flows and jobs; null for neither. */
  flow: string | null;
  /** A version, tag or branch; null is the head of main. */
  at: string | null;
  tql: string;
  /** A saved view, whose rows are shown instead of a query's. */
  saved: string | null;
  /** The id of rows that were selected one by one, which are shown instead. */
  selected: string | null;
  /** Training runs whose curves are shown; empty for the newest. */
  runs: readonly string[];
  /** The metrics of these curves; empty for the first. */
  metrics: readonly string[];
  /** A step of the first of these runs, the rows of whose batch are shown; null for none. */
  step: number | null;
  /** The rank whose part of the batch is shown; null for all. */
  rank: number | null;
  /** The steps that curves show, the first and the one after the last; null for all. */
  span: readonly [number, number] | null;
  /** Position of the selected row in the current rows. */
  row: number | null;
  /** Position of the first row in sight; null for the top, or where the selected row is in sight. */
  first: number | null;
  /** How the rows are shown; null for the default of the schema. */
  layout: Layout | null;
  /** The vectors of the map, and by what its points are coloured ("": by nothing); null for the first. */
  vector: string | null;
  color: string | null;
  hidden: string[];
  /** Tensors whose statistics are shown; null for the default. */
  counted: string[] | null;
  /** Two tensors by whose values rows are counted; null for none. */
  pair: readonly [string, string] | null;
  /** Classes whose overlays are hidden. */
  off: number[];
  /** Opacity of fills, 0 to 1. */
  opacity: number;
  zoom: number;
  /** By deep image, the values that are black and white: "low,high"; others have the window of their own values. */
  windows: Readonly<Record<string, string>>;
  /** The frame of the selected row's sequences, or the plane of its volumes; null until one is chosen. */
  frame: number | null;
  /** The image of a row that the detail view shows; null for the first. */
  image: string | null;
  /** Whether the detail view is open. */
  look: boolean;
  /** Whether it shows ground truth and predictions side by side. */
  side: boolean;
  /** The tensor whose labels are set by keys; null for none. */
  label: string | null;
  /** Whether what lies over images is edited, in the detail view. */
  edit: boolean;
  /** A version to compare with. */
  compare: string | null;
  /** How differences are shown: side by side or swiped; null shows the rows. */
  diff: "side" | "swipe" | null;
  /** Index of the selected change. */
  change: number;
  /** Shows only one kind of change. */
  only: "added" | "removed" | "changed" | null;
}

export const ZOOM_DEFAULT = 1;
export const OPACITY_DEFAULT = 0.45;
export const ZOOM_MAX = 4;

export function readPlace(url: URL, root: URL): Place {
  const inside = url.pathname.slice(root.pathname.length);
  const row = url.searchParams.get("row");
  const saved = url.searchParams.get("q") ? null : url.searchParams.get("view") || null;
  const first = url.searchParams.get("top") ?? "";
  const zoom = Number(url.searchParams.get("zoom") ?? ZOOM_DEFAULT);
  const compare = url.searchParams.get("compare");
  const diff = url.searchParams.get("diff");
  const only = url.searchParams.get("only");
  const mode = url.searchParams.get("mode") ?? url.searchParams.get("layout") ?? "";
  const change = url.searchParams.get("change") ?? "";
  const frame = url.searchParams.get("frame") ?? "";
  const runs = url.searchParams.getAll("run").filter((name) => name !== "");
  const step = url.searchParams.get("step") ?? "";
  const rank = url.searchParams.get("rank") ?? "";
  const opacity = Number(url.searchParams.get("opacity") ?? OPACITY_DEFAULT);
  return {
    dataset: inside === "" ? null : decodeName(decodeURIComponent(inside)),
    flow: inside === "" && mode === FLOWS ? (url.searchParams.get("flow") ?? "") : null,
    at: url.searchParams.get("at"),
    tql: url.searchParams.get("q") ?? "",
    saved,
    selected: url.searchParams.get("q") || saved !== null ? null : url.searchParams.get("sel") || null,
    runs,
    metrics: url.searchParams.getAll("metric").filter((name) => name !== ""),
    step: runs.length > 0 && /^\d{1,15}$/.test(step) ? Number(step) : null,
    rank: runs.length > 0 && step !== "" && /^\d{1,9}$/.test(rank) ? Number(rank) : null,
    span: readSpan(url.searchParams.get("steps") ?? ""),
    row: row !== null && /^\d{1,15}$/.test(row) ? Number(row) : null,
    first: /^\d{1,15}$/.test(first) ? Number(first) : null,
    layout: MODES[mode === EDIT || mode === STEP ? (url.searchParams.get("layout") ?? "") : mode] ?? null,
    vector: url.searchParams.get("vector") || null,
    color: url.searchParams.get("color"),
    hidden: (url.searchParams.get("hide") ?? "").split(",").filter((name) => name !== ""),
    counted: url.searchParams.get("count")?.split(",").filter((name) => name !== "") ?? null,
    pair: readPair(url.searchParams.getAll("by")),
    off: (url.searchParams.get("off") ?? "").split(",").filter((code) => /^\d{1,9}$/.test(code)).map(Number),
    opacity: opacity >= 0 && opacity <= 1 ? opacity : OPACITY_DEFAULT,
    zoom: Number.isInteger(zoom) && zoom >= 0 && zoom <= ZOOM_MAX ? zoom : ZOOM_DEFAULT,
    windows: Object.fromEntries(url.searchParams.getAll("window").flatMap(readWindow)),
    compare,
    diff: compare !== null && (diff === "side" || diff === "swipe") ? diff : null,
    change: /^\d{1,9}$/.test(change) ? Number(change) : 0,
    only: only === "added" || only === "removed" || only === "changed" ? only : null,
    side: url.searchParams.get("side") === "1",
    image: url.searchParams.get("image") || null,
    label: url.searchParams.get("label") || null,
    frame: /^\d{1,9}$/.test(frame) ? Number(frame) : null,
    edit: mode === EDIT,
    look: row !== null && (url.searchParams.get("look") ?? (mode === EDIT ? "1" : "")) === "1",
  };
}

function readPair([first = "", second = ""]: string[]): Place["pair"] {
  return first !== "" && second !== "" ? [first, second] : null;
}

/** `start-stop`, half-open; null for other texts. */
function readSpan(text: string): Place["span"] {
  const [, start = "", stop = ""] = /^(\d{1,15})-(\d{1,15})$/.exec(text) ?? [];
  return start !== "" && Number(start) < Number(stop) ? [Number(start), Number(stop)] : null;
}

/** `image:low,high`, the smaller number first; nothing for other texts. */
function readWindow(text: string): [string, string][] {
  const [, name = "", low = "", high = ""] = /^(.+):(-?[\d.e+-]+),(-?[\d.e+-]+)$/.exec(text) ?? [];
  return Number(low) < Number(high) ? [[name, `${low},${high}`]] : [];
}

/** Read what encodeName writes: `~~` stands for `~`, and `~` and `~!` for `/`. */
function decodeName(text: string): string {
  return text.replace(/~[~!]?/g, (found) => (found === "~~" ? "~" : "/"));
}

export function writePlace(place: Place, root: URL): URL {
  const url = new URL(root);
  if (place.dataset !== null) {
    url.pathname += encodeName(place.dataset).replaceAll("%40", "@");
  }
  const set = (key: string, value: string) => {
    if (value !== "") url.searchParams.set(key, value);
  };
  set("at", place.at ?? "");
  set("compare", place.compare ?? "");
  set("diff", place.diff ?? "");
  set("only", place.only ?? "");
  set("change", place.change === 0 ? "" : String(place.change));
  set("q", place.tql);
  set("view", place.saved ?? "");
  set("sel", place.selected ?? "");
  for (const run of place.runs) url.searchParams.append("run", run);
  for (const metric of place.metrics) url.searchParams.append("metric", metric);
  set("step", place.step === null ? "" : String(place.step));
  set("rank", place.step === null || place.rank === null ? "" : String(place.rank));
  set("steps", place.span?.join("-") ?? "");
  set("row", place.row === null ? "" : String(place.row));
  set("top", place.first === null ? "" : String(place.first));
  const layout = place.layout === "grid" ? "rows" : (place.layout ?? "");
  set("flow", place.flow ?? "");
  set("mode", place.flow !== null ? FLOWS : place.edit ? EDIT : place.step !== null ? STEP : layout);
  if (place.edit || place.step !== null) set("layout", layout);
  set("vector", place.vector ?? "");
  if (place.color !== null) url.searchParams.set("color", place.color); // "" is a choice
  set("hide", place.hidden.join(","));
  if (place.counted !== null) url.searchParams.set("count", place.counted.join(",")); // an empty choice is kept
  for (const name of place.pair ?? []) url.searchParams.append("by", name);
  set("off", place.off.join(","));
  set("opacity", place.opacity === OPACITY_DEFAULT ? "" : String(place.opacity));
  for (const [name, window] of Object.entries(place.windows)) url.searchParams.append("window", `${name}:${window}`);
  set("image", place.image ?? "");
  set("frame", place.frame === null ? "" : String(place.frame));
  set("label", place.label ?? "");
  set("look", place.look ? "1" : place.edit ? "0" : ""); // a link to edit opens the detail view
  set("side", place.side ? "1" : "");
  set("zoom", place.zoom === ZOOM_DEFAULT ? "" : String(place.zoom));
  return url;
}

/** The address of a row of a version, among all of its rows. */
export function addressOfRow(place: Place, root: URL, version: string, row: number): string {
  return writePlace({ ...place, at: version, row, tql: "", saved: null, selected: null, step: null, rank: null, first: null, compare: null, diff: null, label: null, edit: false, look: false }, root).href;
}

/** The page's base URL, which includes the prefix of a proxy. */
export function findRoot(page: URL): URL {
  return new URL("./", new URL(page.pathname, page.origin));
}

/** Splits `#token=…` off the URL, so that it can be shared. */
export function takeToken(url: URL): { token: string | null; clean: URL } {
  const fragment = new URLSearchParams(url.hash.slice(1));
  const clean = new URL(url);
  clean.hash = "";
  return { token: fragment.get("token"), clean };
}

/** The place of `page`, below `root`, at another server; `link` is the URL that the server printed, with its token. */
export function placeAt(link: URL, page: URL, root: URL): URL {
  const target = findRoot(link);
  target.pathname += page.pathname.slice(root.pathname.length);
  target.search = page.search;
  target.hash = link.hash;
  return target;
}
