import { expect, test } from "vitest";
import type { Api } from "../api/client";
import { WorkerPool } from "./worker-pool";
import type { FromWorker, ToWorker } from "./worker";

/** Workers that answer when they are told to. */
function fakeWorkers() {
  const all: { asked: ToWorker[]; isEnded: boolean; answer: (id: number) => void; fail: () => void }[] = [];
  const start = () => {
    const port = new EventTarget();
    const one = {
      asked: [] as ToWorker[],
      isEnded: false,
      fail: () => void port.dispatchEvent(new Event("error")),
      answer: (id: number) => port.dispatchEvent(new MessageEvent<FromWorker>("message", { data: { id, error: null, reach: "reached" } })),
    };
    all.push(one);
    return Object.assign(port, {
      postMessage: (message: ToWorker) => one.asked.push(message),
      terminate: () => (one.isEnded = true),
    }) as unknown as Worker;
  };
  return { all, start };
}

const api = { base: new URL("http://here/v1/"), onReach: () => {} } as unknown as Api;
const request = (count: number) => ({
  dataset: "pets", version: "main@1", view: null, tensor: "image", size: 256,
  window: null,
  rows: Array.from({ length: count }, (_, i) => i),
});

test("a worker that has read its share is followed by another, and ends with its last request", async () => {
  const { all, start } = fakeWorkers();
  const read = new WorkerPool(start).readFor(api);
  const { signal } = new AbortController();
  const first = [read(request(300), signal, () => {}), read(request(300), signal, () => {})];
  const next = read(request(1), signal, () => {});

  expect(all.map(({ asked }) => asked.length)).toEqual([2, 1]);
  const [old, young] = all;
  old?.answer(old.asked[0]?.id ?? 0);
  expect(old?.isEnded).toBe(false);
  old?.answer(old.asked[1]?.id ?? 0);
  young?.answer(young.asked[0]?.id ?? 0);
  await Promise.all([...first, next]);

  expect(all.map(({ isEnded }) => isEnded)).toEqual([true, false]);
});

test("what is given up is told to the worker that was asked, and counts until it has ended there", async () => {
  const { all, start } = fakeWorkers();
  const read = new WorkerPool(start).readFor(api);
  const abort = new AbortController();
  const given = read(request(600), abort.signal, () => {});
  abort.abort();

  await expect(given).rejects.toThrow("request cancelled");
  expect(all[0]?.asked.at(-1)).toMatchObject({ abort: true });
  expect(all[0]?.isEnded).toBe(false);
  all[0]?.answer(all[0].asked[0]?.id ?? 0);

  expect(all[0]?.isEnded).toBe(true);
});

test("a worker that cannot start says what to do, and the next request tries again", async () => {
  const { all, start } = fakeWorkers();
  const read = new WorkerPool(start).readFor(api);
  const { signal } = new AbortController();
  const asked = read(request(5), signal, () => {});
  all[0]?.fail();

  await expect(asked).rejects.toThrow("reload this page");
  const next = read(request(5), signal, () => {});
  all[1]?.answer(all[1].asked[0]?.id ?? 0);

  await next;
});
