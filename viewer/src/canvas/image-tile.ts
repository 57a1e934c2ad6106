/**
 * The visible tile of a very large image, at full resolution.
 *
 * A browser would decode a hundred megapixels on the main thread, repeatedly. Here the stored bytes are fetched
 * once, and createImageBitmap cuts the visible part out of them on the browser's own threads. Until a tile is
 * ready, the server's smaller image is shown.
 */
import type { Bounds, Extent, Fit } from "./geometry";

/** From this many pixels on an image is large: the server first sends a smaller one. */
export const LARGE_PIXELS = 16e6;
export const PREVIEW_SIDE = 1024; // the server's limit

const MARGIN = 0.25; // of the visible part, on each side: a small move needs no new tile

export interface Tile extends Bounds {
  bitmap: ImageBitmap;
  /** Pixels of the bitmap a pixel of the image, 1 at most. */
  scale: number;
}

export function isLarge(extent: Extent): boolean {
  return extent.width * extent.height >= LARGE_PIXELS;
}

/** The visible part of an image, in its pixels, with a margin. */
export function visiblePart(fit: Fit, extent: Extent, area: Extent, margin: number): Bounds {
  const [spareX, spareY] = [margin * area.width, margin * area.height];
  const left = Math.max(0, Math.floor((-fit.x - spareX) / fit.scale));
  const top = Math.max(0, Math.floor((-fit.y - spareY) / fit.scale));
  const right = Math.min(extent.width, Math.ceil((area.width + spareX - fit.x) / fit.scale));
  const bottom = Math.min(extent.height, Math.ceil((area.height + spareY - fit.y) / fit.scale));
  return { x: left, y: top, width: Math.max(1, right - left), height: Math.max(1, bottom - top) };
}

/** Whether a tile covers the requested part at the requested scale. */
export function covers(part: Omit<Tile, "bitmap"> | null, wanted: Bounds, scale: number): boolean {
  return (
    part !== null &&
    part.scale >= 0.99 * scale &&
    part.x <= wanted.x &&
    part.y <= wanted.y &&
    part.x + part.width >= wanted.x + wanted.width &&
    part.y + part.height >= wanted.y + wanted.height
  );
}

export class ImageTile {
  part: Tile | null = null;
  #blob: Promise<Blob> | null = null;
  #abort = new AbortController();
  #isBusy = false;
  #next: (() => Promise<void>) | null = null;

  constructor(
    readonly load: (signal: AbortSignal) => Promise<Blob>,
    readonly onChange: () => void,
    readonly onFail: (error: unknown) => void,
  ) {}

  /** Requests the visible part; one tile is cut at a time, for the latest request. */
  want(fit: Fit, extent: Extent, area: Extent, pixelRatio: number): void {
    const scale = Math.min(1, fit.scale * pixelRatio);
    if (scale * Math.max(extent.width, extent.height) <= PREVIEW_SIDE) return;
    if (covers(this.part, visiblePart(fit, extent, area, 0), scale)) return;
    this.#next = () => this.#cut(visiblePart(fit, extent, area, MARGIN), scale);
    if (!this.#isBusy) void this.#work();
  }

  close(): void {
    this.#abort.abort();
    this.#next = null;
    this.part?.bitmap.close();
    this.part = null;
  }

  async #work(): Promise<void> {
    this.#isBusy = true;
    try {
      while (this.#next !== null) {
        const next = this.#next;
        this.#next = null;
        await next();
      }
    } catch (error) {
      if (!this.#abort.signal.aborted) this.onFail(error);
    } finally {
      this.#isBusy = false;
    }
  }

  async #cut(bounds: Bounds, scale: number): Promise<void> {
    this.#blob ??= this.load(this.#abort.signal);
    const { x, y, width, height } = bounds;
    const bitmap = await createImageBitmap(await this.#blob, x, y, width, height, {
      imageOrientation: "none",
      resizeWidth: Math.max(1, Math.round(width * scale)),
      resizeHeight: Math.max(1, Math.round(height * scale)),
      resizeQuality: "medium",
    });
    if (this.#abort.signal.aborted) {
      bitmap.close();
      return;
    }
    this.part?.bitmap.close();
    this.part = { ...bounds, bitmap, scale };
    this.onChange();
  }
}
