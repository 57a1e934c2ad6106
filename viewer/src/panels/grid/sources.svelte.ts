/**
 * Rows, thumbnails and masks of a version or of a query's result, as they arrive.
 *
 * Sources are recreated when their input changes; created in a component, they close with it.
 */
import { untrack } from "svelte";
import type { Row, TensorInfo } from "../../api/client";
import { maskTensors } from "../../overlays/layers";
import type { Viewer } from "../../state/viewer.svelte";
import { workerPool } from "../../fetch/worker-pool";
import { oncePerFrame } from "./paint-queue";
import { RowPages } from "../../fetch/row-pages";
import { CellUpdates, StableImages } from "./cell-updates";
import { isDeep } from "../../lenses";
import type { CellImage } from "./painter";
import type { ReadThumbnails, Thumbnail } from "../../fetch/reader";
import { ThumbnailLoader } from "../../fetch/thumbnails";

interface Wanted {
  images: () => TensorInfo[];
  columns: () => string[];
  /** Of thumbnails. */
  size: () => number;
}

/** The thumbnails of one tensor. */
interface Loading {
  tensor: TensorInfo;
  /** Whether the query computes them: they are then requested by position. */
  isComputed: boolean;
  loader: ThumbnailLoader;
}

/** More than the cells on a screen: two that share a signal update once too often. */
const SIGNALS = 1024;

class Signal {
  #count = $state(0);

  /** Subscribes the caller to changes. */
  follow(): void {
    void this.#count;
  }

  change(): void {
    this.#count += 1;
  }
}

export class GridSources {
  attempt = $state(0);
  #tick = $state(0);
  #signals = Array.from({ length: SIGNALS }, () => new Signal());
  #news = new CellUpdates((position) => this.#contents(position), (position) => this.#signal(position)?.change());
  #note = oncePerFrame(() => {
    this.#tick += 1;
    this.#news.tell();
  });
  #read: ReadThumbnails;
  #stable = new StableImages();

  // Strings, not objects: an equal string rebuilds nothing below it.
  #dataset = $derived.by(() => this.viewer.place.dataset ?? "");
  #version = $derived.by(() => this.viewer.info?.version ?? "");
  #view = $derived.by(() => this.viewer.result?.view ?? null);
  #columns = $derived.by(() => JSON.stringify(this.wanted.columns()));
  #size = $derived.by(() => this.wanted.size());
  #windows = $derived.by(() => JSON.stringify(this.viewer.place.windows));
  pages = $derived.by(() => {
    void [this.attempt, this.viewer.reconnects];
    const columns = JSON.parse(this.#columns) as string[];
    const source = { dataset: this.#dataset, version: this.#version, view: this.#view, columns };
    return new RowPages(this.viewer.api, source, this.#note);
  });
  // By name, so that hiding another tensor keeps the loaded images.
  #imageNames = $derived.by(() => this.wanted.images().map(({ name }) => name).join("\n"));
  #maskNames = $derived.by(() => (this.viewer.overlays && this.wanted.images().length > 0 ? this.viewer.masks.map(({ name }) => name).join("\n") : ""));
  #images = $derived.by(() => this.#loadersOf(this.#imageNames));
  #masks = $derived.by(() => this.#loadersOf(this.#maskNames));
  #loaders = $derived.by(() => [...this.#images, ...this.#masks]);
  /** Which of the masks lie over each image, as indices. */
  #over = $derived.by(() =>
    this.#images.map(({ tensor }) => {
      const names = maskTensors(this.viewer.tensors, tensor, this.viewer.style).map(({ name }) => name);
      return this.#masks.filter((mask) => names.includes(mask.tensor.name));
    }),
  );
  /** Why rows or images could not be read. */
  fault = $derived.by(() => {
    void this.#tick;
    return this.pages.error ?? this.#loaders.find(({ loader }) => loader.error !== null)?.loader.error ?? null;
  });

  constructor(
    readonly viewer: Viewer,
    readonly wanted: Wanted,
  ) {
    this.#read = workerPool.readFor(viewer.api);
    $effect(() => {
      const closing = this.pages;
      return () => closing.close();
    });
    $effect(() => {
      const closing = this.#images;
      return () => closing.forEach(({ loader }) => loader.close());
    });
    $effect(() => {
      const closing = this.#masks;
      return () => closing.forEach(({ loader }) => loader.close());
    });
  }

  rowAt(position: number): Row | undefined {
    this.#signal(position)?.follow(); // pages and thumbnails are not signals
    const row = this.pages.get(position);
    return row === undefined ? undefined : this.viewer.edits.apply(row);
  }

  imagesAt(position: number): CellImage[] {
    this.#signal(position)?.follow();
    const now = this.#images.map((image, i) => ({
      tensor: image.tensor,
      thumbnail: this.#thumbnail(image, position),
      masks: (this.#over[i] ?? []).map((mask) => ({ tensor: mask.tensor, thumbnail: this.#thumbnail(mask, position) })),
    }));
    return this.#stable.at(position, now);
  }

  /** The row of the version at a position; null while it is not known, and for rows that a query computes. */
  storedRow(position: number): number | null {
    return this.viewer.result === null ? position : (this.rowAt(position)?._row ?? null);
  }

  /** A click: alone it shows the row; with Ctrl it toggles it, with Shift it extends the selection. */
  choose(position: number, event: MouseEvent): void {
    const { selection } = this.viewer;
    const row = this.storedRow(position);
    if (event.shiftKey) selection.extend(position, (at) => this.storedRow(at));
    else if ((event.ctrlKey || event.metaKey) && row !== null) selection.toggle(position, row);
    else this.viewer.selectRow(position);
  }

  /** A word about a cell: "added" since the compared version, "edited" and not committed. */
  badgeOf(position: number): string {
    const row = this.storedRow(position);
    if (row === null) return "";
    if (this.viewer.edits.isEdited(row)) return "edited";
    return this.viewer.comparison?.added.has(row) === true ? "added" : "";
  }

  isChosen(position: number): boolean {
    if (this.viewer.selection.rows.size === 0) return false;
    const row = this.storedRow(position);
    return row !== null && this.viewer.selection.rows.has(row);
  }

  #thumbnail({ loader, isComputed }: Loading, position: number): Thumbnail | undefined {
    const row = isComputed ? position : this.storedRow(position);
    return row === null ? undefined : loader.get(row);
  }

  /** Sets the visible positions; other requests are aborted. */
  want(positions: readonly number[]): void {
    this.pages.want(positions[0] ?? 0, (positions.at(-1) ?? -1) + 1);
    const rows = positions.map((position) => this.storedRow(position)).filter((row) => row !== null);
    for (const { loader, isComputed } of this.#loaders) loader.want(isComputed ? [...positions] : rows);
    untrack(() => this.#news.watch(positions));
  }

  /** Whether any of these has arrived, or none will. */
  isSeen(positions: readonly number[]): boolean {
    void this.#tick;
    if (this.pages.isIdle && this.#images.every(({ loader }) => loader.isIdle)) return true;
    const [first] = this.#images;
    return positions.some((position) => (first === undefined ? this.rowAt(position) : this.#thumbnail(first, position)) !== undefined);
  }

  #signal(position: number): Signal | undefined {
    return this.#signals[position % SIGNALS];
  }

  /** The contents of the cell at a position. */
  #contents(position: number): unknown[] {
    return [this.pages.get(position), ...this.#loaders.map((loading) => this.#thumbnail(loading, position))];
  }

  #loadersOf(names: string): Loading[] {
    void [this.attempt, this.viewer.reconnects];
    return names.split("\n").flatMap((name) => {
      const tensor = this.viewer.tensors.find((one) => one.name === name);
      return tensor === undefined ? [] : [this.#loading(tensor)];
    });
  }

  /** Stored images are requested by row of the version, so that all queries share them. */
  #loading(tensor: TensorInfo): Loading {
    const isComputed = this.viewer.result !== null && !(this.viewer.info?.tensors ?? []).some(({ name }) => name === tensor.name);
    const window = isDeep(tensor) ? ((JSON.parse(this.#windows) as Record<string, string>)[tensor.name] ?? null) : null;
    const source = { dataset: this.#dataset, version: this.#version, view: isComputed ? this.#view : null, tensor: tensor.name, size: this.#size, window };
    return { tensor, isComputed, loader: new ThumbnailLoader(this.#read, source, this.#note) };
  }
}
