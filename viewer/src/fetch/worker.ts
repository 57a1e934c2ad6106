/** The worker: requests thumbnails, decodes them and transfers the bitmaps without a copy. */
import { Api, ApiError } from "../api/client";
import { readFrom, type Thumbnail, type ThumbnailRequest } from "./reader";

export type ToWorker = { id: number; base: string; request: ThumbnailRequest } | { id: number; abort: true };

export type FromWorker =
  | { id: number; index: number; thumbnail: Thumbnail }
  /** The end of a request; `isReached` is whether the server responded. */
  | { id: number; error: string | null; isReached: boolean };

const aborts = new Map<number, AbortController>();
const port = self as unknown as { postMessage(message: FromWorker, transfer?: Transferable[]): void };

self.addEventListener("message", ({ data }: MessageEvent<ToWorker>) => {
  if ("abort" in data) aborts.get(data.id)?.abort();
  else void serve(data.id, data.base, data.request);
});

async function serve(id: number, base: string, request: ThumbnailRequest): Promise<void> {
  const abort = new AbortController();
  aborts.set(id, abort);
  let isReached = true;
  const api = new Api(new URL(base), (reached) => (isReached = reached));
  const hand = (index: number, thumbnail: Thumbnail) => {
    if (abort.signal.aborted) return thumbnail.bitmap?.close();
    port.postMessage({ id, index, thumbnail }, thumbnail.bitmap === null ? [] : [thumbnail.bitmap]);
  };
  try {
    await readFrom(api)(request, abort.signal, hand);
    port.postMessage({ id, error: null, isReached });
  } catch (error) {
    const words = error instanceof ApiError ? error.message : String(error);
    port.postMessage({ id, error: words, isReached });
  } finally {
    aborts.delete(id);
  }
}
