/** The worker: requests thumbnails, decodes them and transfers the bitmaps without a copy. */
import { Api, ApiError, type Reach } from "../api/client";
import { readFrom, type Thumbnail, type ThumbnailRequest } from "./reader";

export type ToWorker = { id: number; base: string; request: ThumbnailRequest } | { id: number; abort: true };

export type FromWorker =
  | { id: number; index: number; thumbnail: Thumbnail }
  /** The end of a request; `reach` is what became of its call. */
  | { id: number; error: string | null; reach: Reach };

const aborts = new Map<number, AbortController>();
const port = self as unknown as { postMessage(message: FromWorker, transfer?: Transferable[]): void };

self.addEventListener("message", ({ data }: MessageEvent<ToWorker>) => {
  if ("abort" in data) aborts.get(data.id)?.abort();
  else void serve(data.id, data.base, data.request);
});

async function serve(id: number, base: string, request: ThumbnailRequest): Promise<void> {
  const abort = new AbortController();
  aborts.set(id, abort);
  let reach: Reach = "reached";
  const api = new Api(new URL(base), (now) => (reach = now));
  const hand = (index: number, thumbnail: Thumbnail) => {
    if (abort.signal.aborted) return thumbnail.bitmap?.close();
    port.postMessage({ id, index, thumbnail }, thumbnail.bitmap === null ? [] : [thumbnail.bitmap]);
  };
  try {
    await readFrom(api)(request, abort.signal, hand);
    port.postMessage({ id, error: null, reach });
  } catch (error) {
    const words = error instanceof ApiError ? error.message : String(error);
    port.postMessage({ id, error: words, reach });
  } finally {
    aborts.delete(id);
  }
}
