/**
 * Thumbnails of visible rows: requested in batches, decoded by a worker, cached by size.
 *
 * `want(rows)` sets the visible rows, nearest first. Missing rows are requested in batches of at most BATCH rows, at most
 * PARALLEL at a time. A partial batch waits while another is pending, so that lines scrolled past meanwhile share a
 * request. Requests without any visible row are aborted.
 */
import { isConnectionLost } from "../api/client";
import { releaseBitmap } from "../overlays/masks";
import { Lru } from "./lru";
import type { ReadThumbnails, Thumbnail, ThumbnailSource } from "./reader";

const BATCH = 24;
const PARALLEL = 3; // of six connections with HTTP/1.1; rows and samples need some
const BUDGET_NBYTES = 64 * 2 ** 20; // decoded, four bytes a pixel: ten screens of 1280 × 800
const SCREENS = 2; // kept at least: with less, visible thumbnails would evict each other

interface Pending {
  rows: number[];
  abort: AbortController;
}

export class ThumbnailLoader {
  #cache = new Lru<number, Thumbnail>(BUDGET_NBYTES, ({ bitmap }) => {
    if (bitmap !== null) releaseBitmap(bitmap);
  });
  #wanted: number[] = [];
  #pending = new Set<Pending>();
  #failed: unknown = null;

  constructor(
    readonly read: ReadThumbnails,
    readonly source: ThumbnailSource,
    readonly onChange: () => void,
  ) {}

  get(row: number): Thumbnail | undefined {
    return this.#cache.get(row);
  }

  /** Whether no request is pending. */
  get isIdle(): boolean {
    return this.#pending.size === 0;
  }

  want(rows: number[]): void {
    this.#wanted = rows;
    const wanted = new Set(rows);
    for (const pending of this.#pending) {
      if (!pending.rows.some((row) => wanted.has(row))) pending.abort.abort();
    }
    this.#fill();
  }

  close(): void {
    this.#wanted = [];
    for (const pending of this.#pending) pending.abort.abort();
    this.#cache.clear();
  }

  #fill(): void {
    const alive = [...this.#pending].filter(({ abort }) => !abort.signal.aborted);
    const asked = new Set(alive.flatMap((pending) => pending.rows));
    const missing = this.#wanted.filter((row) => !this.#cache.has(row) && !asked.has(row));
    const hasFew = alive.some(({ rows }) => rows.length < BATCH);
    for (let start = 0; start < missing.length && this.#pending.size < PARALLEL; start += BATCH) {
      const rows = missing.slice(start, start + BATCH);
      if (rows.length < BATCH && hasFew) return;
      const pending = { rows, abort: new AbortController() };
      this.#pending.add(pending);
      void this.#load(pending);
    }
  }

  async #load(pending: Pending): Promise<void> {
    const { rows } = pending;
    try {
      await this.read({ ...this.source, rows }, pending.abort.signal, (index, thumbnail) => {
        const row = rows[index];
        if (row !== undefined) this.#keep(row, thumbnail);
        else thumbnail.bitmap?.close();
      });
      this.#failed = null;
    } catch (error) {
      if (!pending.abort.signal.aborted) this.#fail(rows, isConnectionLost(error) ? null : error);
    } finally {
      this.#pending.delete(pending);
    }
    this.#fill();
    this.onChange();
  }

  #keep(row: number, thumbnail: Thumbnail): void {
    const bitmap = thumbnail.bitmap;
    const nbytes = 256 + (bitmap === null ? 0 : bitmap.width * bitmap.height * 4);
    this.#cache.budget = Math.max(this.#cache.budget, SCREENS * this.#wanted.length * nbytes);
    this.#cache.set(row, thumbnail, nbytes);
    this.onChange();
  }

  /** Marks the rows of a failed request, so that they are not requested again; why is told once, not in each cell. */
  #fail(rows: number[], error: unknown): void {
    this.#failed = error;
    for (const row of rows) {
      if (!this.#cache.has(row)) this.#keep(row, { bitmap: null, width: 0, height: 0, error: "" });
    }
  }

  /** Why the last request failed; null if it did not, or if a banner tells it. */
  get error(): unknown {
    return this.#failed;
  }
}

const SIZES = [64, 96, 160, 256, 384, 512, 768];

/** The thumbnail size that fills a cell; few sizes, so that caches are shared. */
export function thumbnailSize(cellWidth: number, cellHeight: number, pixelRatio: number): number {
  const needed = Math.max(cellWidth, cellHeight) * Math.min(2, pixelRatio) * 1.2;
  return SIZES.find((size) => size >= needed) ?? 768;
}
