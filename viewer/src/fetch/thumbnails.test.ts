import { expect, test, vi } from "vitest";
import { Unreachable, type Api } from "../api/client";
import { HEADER_NBYTES } from "./frames";
import { readFrom } from "./reader";
import { ThumbnailLoader, thumbnailSize } from "./thumbnails";

const source = { dataset: "pets", version: "main@1", view: null, tensor: "image", size: 256, window: null };

/** An Api whose thumbnails answer when `respond` is called. */
function fakeApi() {
  const calls: { rows: number[]; signal: AbortSignal; respond: () => void }[] = [];
  const thumbnails = (_name: string, body: { rows: number[] }, signal: AbortSignal) =>
    new Promise<Response>((resolve, reject) => {
      signal.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
      calls.push({ rows: body.rows, signal, respond: () => resolve(new Response(emptyFrames(body.rows.length))) });
    });
  return { api: { thumbnails } as unknown as Api, calls };
}

function emptyFrames(count: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(count * HEADER_NBYTES);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < count; i += 1) view.setUint32(i * HEADER_NBYTES, i, true);
  return bytes;
}

const upTo = (count: number, start = 0) => Array.from({ length: count }, (_, i) => start + i);

test("a screen of rows is a few requests, at most three at once", () => {
  const { api, calls } = fakeApi();

  new ThumbnailLoader(readFrom(api), source, () => {}).want(upTo(100));

  expect(calls.map((call) => call.rows.length)).toEqual([24, 24, 24]);
});

test("rows asked for are not asked for again", async () => {
  const { api, calls } = fakeApi();
  const loader = new ThumbnailLoader(readFrom(api), source, () => {});
  loader.want(upTo(10));
  loader.want(upTo(12));
  calls[0]?.respond();
  await vi.waitFor(() => expect(calls).toHaveLength(2));
  calls[1]?.respond();
  await vi.waitFor(() => expect(loader.get(11)).toBeDefined());
  loader.want(upTo(12));

  expect(calls.map((call) => call.rows)).toEqual([upTo(10), [10, 11]]);
});

test("lines that one scrolls past while a request is under way are one request", async () => {
  const { api, calls } = fakeApi();
  const loader = new ThumbnailLoader(readFrom(api), source, () => {});
  for (const line of [0, 1, 2, 3]) loader.want(upTo(20, 5 * line));
  calls[0]?.respond();
  await vi.waitFor(() => expect(calls).toHaveLength(2));

  expect(calls.map((call) => call.rows)).toEqual([upTo(20), upTo(15, 20)]);
});

test("as many rows as fill a request wait for nothing", () => {
  const { api, calls } = fakeApi();
  const loader = new ThumbnailLoader(readFrom(api), source, () => {});
  loader.want(upTo(10));
  loader.want(upTo(34));

  expect(calls.map((call) => call.rows)).toEqual([upTo(10), upTo(24, 10)]);
});

test("what is in sight stays, however large its images are", async () => {
  const { api, calls } = fakeApi();
  const closed = vi.fn();
  const large = { width: 2048, height: 2048, close: closed } as unknown as ImageBitmap;
  const loader = new ThumbnailLoader(readFrom(api, () => Promise.resolve(large)), source, () => {});
  loader.want(upTo(20));
  calls[0]?.respond();
  await vi.waitFor(() => expect(loader.isIdle).toBe(true));

  expect(upTo(20).every((row) => loader.get(row) !== undefined)).toBe(true);
  expect(closed).not.toHaveBeenCalled();
});

test("a request that is out of sight is aborted, and its rows may be asked for later", async () => {
  const { api, calls } = fakeApi();
  const loader = new ThumbnailLoader(readFrom(api), source, () => {});
  loader.want(upTo(10));
  loader.want(upTo(10, 1000));
  await vi.waitFor(() => expect(calls[0]?.signal.aborted).toBe(true));
  loader.want(upTo(10));

  expect(calls.at(-1)?.rows).toEqual(upTo(10));
  expect(loader.error).toBeNull();
});

test("a failure marks its rows instead of repeating for ever", async () => {
  const thumbnails = vi.fn(() => Promise.reject(new Error("offline")));
  const loader = new ThumbnailLoader(readFrom({ thumbnails } as unknown as Api), source, () => {});
  loader.want([0, 1]);
  await vi.waitFor(() => expect(String(loader.error)).toContain("offline"));
  loader.want([0, 1]);

  expect(thumbnails).toHaveBeenCalledTimes(1);
});

test("few sizes are asked for, so that caches are shared", () => {
  expect(thumbnailSize(200, 150, 1)).toBe(256);
  expect(thumbnailSize(210, 160, 1)).toBe(256);
  expect(thumbnailSize(200, 150, 3)).toBe(thumbnailSize(200, 150, 2));
});

test("without a connection no cell has words of its own: the banner has them", async () => {
  const thumbnails = vi.fn(() => Promise.reject(new Unreachable()));
  const loader = new ThumbnailLoader(readFrom({ thumbnails } as unknown as Api), source, () => {});
  loader.want([0]);

  await vi.waitFor(() => expect(loader.get(0)?.error).toBe(""));
});
