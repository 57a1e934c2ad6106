/**
 * The worker that decodes thumbnails: one for all grids, started before the first request.
 *
 * Decoded images occupy memory outside of a worker's heap until the heap is collected, which rarely happens to a heap
 * of two megabytes: minutes of scrolling took hundreds of megabytes. So a worker that has decoded its share is replaced
 * by a new one, and ends with its last request.
 */
import { Unreachable, type Api, type Reach } from "../api/client";
import type { ReadThumbnails, Thumbnail } from "./reader";
import type { FromWorker, ToWorker } from "./worker";

const SHARE = 500; // thumbnails: about ten megabytes

interface Waiting {
  onThumbnail: (index: number, thumbnail: Thumbnail) => void;
  onEnd: (end: { error: string | null; reach: Reach }) => void;
}

/** A worker and its requests. */
class Reader {
  #worker: Worker;
  #waiting = new Map<number, Waiting>();
  #underWay = 0;
  #left = SHARE;

  constructor(start: () => Worker) {
    this.#worker = start();
    this.#worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => this.#receive(data));
    this.#worker.addEventListener("error", () => this.#fail());
  }

  get isSpent(): boolean {
    return this.#left <= 0;
  }

  ask(message: ToWorker & { request: { rows: number[] } }, waiting: Waiting): void {
    this.#waiting.set(message.id, waiting);
    this.#underWay += 1;
    this.#left -= message.request.rows.length;
    this.#worker.postMessage(message);
  }

  /** The worker still reports its end. */
  abort(id: number): void {
    this.#waiting.delete(id);
    this.#worker.postMessage({ id, abort: true } satisfies ToWorker);
  }

  /** Its script failed to load: the server may serve another version of the viewer. */
  #fail(): void {
    this.#left = 0;
    const error = "the image worker failed to load; reload this page";
    for (const asked of this.#waiting.values()) asked.onEnd({ error, reach: "reached" });
    this.#waiting.clear();
    this.#worker.terminate();
  }

  #receive(message: FromWorker): void {
    const asked = this.#waiting.get(message.id);
    if ("index" in message) {
      if (asked === undefined) message.thumbnail.bitmap?.close(); // it arrived after the abort
      else asked.onThumbnail(message.index, message.thumbnail);
      return;
    }
    this.#waiting.delete(message.id);
    asked?.onEnd(message);
    this.#underWay -= 1;
    if (this.isSpent && this.#underWay === 0) this.#worker.terminate();
  }
}

let last = 0;

export function startWorker(): Worker {
  return new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
}

/** Reads in workers, one after another, shared by all callers. */
export class WorkerPool {
  #reader: Reader | null = null;

  constructor(readonly start: () => Worker) {}

  /** Starts a worker, so that it is ready for the first request. */
  prepare(): void {
    this.#current();
  }

  readFor(api: Api): ReadThumbnails {
    return (request, signal, onThumbnail) =>
      new Promise((resolve, reject) => {
        const cancel = () => reject(new DOMException("request cancelled", "AbortError"));
        if (signal.aborted) return cancel();
        const id = (last += 1);
        const asked = this.#current();
        const onabort = () => {
          asked.abort(id);
          cancel();
        };
        signal.addEventListener("abort", onabort, { once: true });
        asked.ask(
          { id, base: api.base.href, request },
          {
            onThumbnail,
            onEnd({ error, reach }) {
              signal.removeEventListener("abort", onabort);
              api.onReach(reach);
              if (error === null) resolve();
              else reject(reach === "reached" ? new Error(error) : new Unreachable());
            },
          },
        );
      });
  }

  #current(): Reader {
    if (this.#reader === null || this.#reader.isSpent) this.#reader = new Reader(this.start);
    return this.#reader;
  }
}

export const workerPool = new WorkerPool(startWorker);
