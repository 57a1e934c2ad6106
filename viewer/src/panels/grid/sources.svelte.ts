/**
 * Rows, thumbnails and masks of a version or of a query's result, as they arrive.
 *
 * Sources are recreated when their input changes; created in a component, they close with it.
 */
import { untrack } from "svelte";
import type { Row } from "../../api/client";
import type { Viewer } from "../../state/viewer.svelte";
import { workerPool } from "../../fetch/worker-pool";
import { oncePerFrame } from "./paint-queue";
import { RowPages } from "../../fetch/row-pages";
import { CellUpdates, StableMasks } from "./cell-updates";
import type { Mask } from "./painter";
import type { ReadThumbnails, Thumbnail } from "../../fetch/reader";
import { ThumbnailLoader } from "../../fetch/thumbnails";

interface Wanted {
  columns: () => string[];
  /** Of thumbnails. */
  size: () => number;
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
  #steadyMasks = new StableMasks();

  // Strings, not objects: an equal string rebuilds nothing below it.
  #dataset = $derived.by(() => this.viewer.place.dataset ?? "");
  #version = $derived.by(() => this.viewer.info?.version ?? "");
  #view = $derived.by(() => this.viewer.result?.view ?? null);
  #columns = $derived.by(() => JSON.stringify(this.wanted.columns()));
  #size = $derived.by(() => this.wanted.size());
  pages = $derived.by(() => {
    void [this.attempt, this.viewer.reconnects];
    const columns = JSON.parse(this.#columns) as string[];
    const source = { dataset: this.#dataset, version: this.#version, view: this.#view, columns };
    return new RowPages(this.viewer.api, source, this.#note);
  });
  // By name, so that hiding another tensor keeps the loaded images.
  #tensor = $derived.by(() => this.viewer.imageTensor?.name ?? null);
  /** Whether the query computes the images. */
  isComputed = $derived.by(
    () => this.viewer.result !== null && !(this.viewer.info?.tensors ?? []).some(({ name }) => name === this.#tensor),
  );
  #thumbnails = $derived.by(() => {
    void [this.attempt, this.viewer.reconnects];
    return this.#tensor === null ? null : this.#loader(this.#tensor);
  });
  #maskNames = $derived.by(() => (this.viewer.overlays ? this.viewer.masks.map(({ name }) => name).join("\n") : ""));
  #masks = $derived.by(() => {
    void [this.attempt, this.viewer.reconnects];
    return this.#maskNames.split("\n").flatMap((name) => {
      const tensor = this.viewer.tensors.find((one) => one.name === name);
      return tensor === undefined ? [] : [{ tensor, loader: this.#loader(name) }];
    });
  });
  fault = $derived.by(() => (void this.#tick, this.pages.error));

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
      const closing = this.#thumbnails;
      return () => closing?.close();
    });
    $effect(() => {
      const closing = this.#masks;
      return () => closing.forEach(({ loader }) => loader.close());
    });
  }

  rowAt(position: number): Row | undefined {
    this.#signal(position)?.follow(); // pages and thumbnails are not signals
    return this.pages.get(position);
  }

  thumbnailAt(position: number): Thumbnail | undefined {
    this.#signal(position)?.follow();
    const row = this.imageRow(position);
    return row === null ? undefined : this.#thumbnails?.get(row);
  }

  masksAt(position: number): Mask[] {
    this.#signal(position)?.follow();
    const row = this.imageRow(position);
    const now = this.#masks.map(({ tensor, loader }) => ({ tensor, thumbnail: row === null ? undefined : loader.get(row) }));
    return this.#steadyMasks.at(position, now);
  }

  /** Stored images are requested by row of the version, so that all queries share them. */
  imageRow(position: number): number | null {
    if (this.viewer.result === null || this.isComputed) return position;
    return this.rowAt(position)?._row ?? null;
  }

  /** Sets the visible positions; other requests are aborted. */
  want(positions: readonly number[]): void {
    this.pages.want(positions[0] ?? 0, (positions.at(-1) ?? -1) + 1);
    const rows = positions.map((position) => this.imageRow(position)).filter((row) => row !== null);
    this.#thumbnails?.want(rows);
    for (const { loader } of this.#masks) loader.want(rows);
    untrack(() => this.#news.watch(positions));
  }

  /** Whether any of these has arrived, or none will. */
  isSeen(positions: readonly number[]): boolean {
    void this.#tick;
    if (this.pages.isIdle && (this.#thumbnails?.isIdle ?? true)) return true;
    const hasImages = this.#thumbnails !== null;
    return positions.some((position) => (hasImages ? this.thumbnailAt(position) : this.rowAt(position)) !== undefined);
  }

  #signal(position: number): Signal | undefined {
    return this.#signals[position % SIGNALS];
  }

  /** The contents of the cell at a position. */
  #contents(position: number): unknown[] {
    const row = this.imageRow(position);
    const pictures = [this.#thumbnails, ...this.#masks.map(({ loader }) => loader)];
    return [this.pages.get(position), ...pictures.map((loader) => (row === null ? undefined : loader?.get(row)))];
  }

  #loader(tensor: string): ThumbnailLoader {
    const source = { dataset: this.#dataset, version: this.#version, view: this.isComputed ? this.#view : null, tensor, size: this.#size };
    return new ThumbnailLoader(this.#read, source, this.#note);
  }
}
