/** The page's end of the worker: one for all grids, started when the first thumbnail is wanted. */
import type { Api } from "../api";
import type { ReadThumbnails, Thumbnail } from "./read";
import type { FromWorker, ToWorker } from "./worker";

interface Waiting {
  onThumbnail: (index: number, thumbnail: Thumbnail) => void;
  onEnd: (end: { error: string | null; isReached: boolean }) => void;
}

let worker: Worker | null = null;
let last = 0;
const waiting = new Map<number, Waiting>();

export function readInBackground(api: Api): ReadThumbnails {
  return (request, signal, onThumbnail) =>
    new Promise((resolve, reject) => {
      const id = (last += 1);
      const onabort = () => {
        waiting.delete(id);
        send({ id, abort: true });
        reject(new DOMException("no longer wanted", "AbortError"));
      };
      if (signal.aborted) return onabort();
      signal.addEventListener("abort", onabort, { once: true });
      waiting.set(id, {
        onThumbnail,
        onEnd({ error, isReached }) {
          signal.removeEventListener("abort", onabort);
          api.onReach(isReached);
          if (error === null) resolve();
          else reject(new Error(error));
        },
      });
      send({ id, base: api.base.href, request });
    });
}

function send(message: ToWorker): void {
  if (worker === null) {
    worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => receive(data));
  }
  worker.postMessage(message);
}

function receive(message: FromWorker): void {
  const asked = waiting.get(message.id);
  if ("index" in message) {
    if (asked === undefined) message.thumbnail.bitmap?.close(); // it was on its way when it was aborted
    else asked.onThumbnail(message.index, message.thumbnail);
    return;
  }
  waiting.delete(message.id);
  asked?.onEnd(message);
}
