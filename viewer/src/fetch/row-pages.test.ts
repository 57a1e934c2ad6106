import { expect, test, vi } from "vitest";
import type { Api, RowsPage } from "../api/client";
import { PAGE_ROWS, RowPages } from "./row-pages";

const source = { dataset: "pets", version: "main@1", view: null, columns: ["label"] };

function page(offset: number, count: number, total: number): RowsPage {
  const rows = Array.from({ length: count }, (_, i) => ({ _row: offset + i, _row_id: null }));
  const next = offset + count < total ? offset + count : null;
  return { version: "main@1", view: null, offset, total, next, rows };
}

function fakeApi() {
  const rows = vi.fn((_name: string, _source: unknown, span: { offset: number; limit: number }, signal: AbortSignal) =>
    signal.aborted ? Promise.reject(new Error("aborted")) : Promise.resolve(page(span.offset, span.limit, 1000)),
  );
  return { api: { rows } as unknown as Api, rows };
}

test("rows come in whole pages, once", async () => {
  const { api, rows } = fakeApi();
  const pages = new RowPages(api, source, () => {});
  pages.want(60, 70);
  await vi.waitFor(() => expect(pages.get(70)?._row).toBe(70));
  pages.want(0, 128);

  expect(rows.mock.calls.map((call) => call[2].offset)).toEqual([0, PAGE_ROWS]);
});

test("the first page of a query's answer is not asked for again", () => {
  const { api, rows } = fakeApi();
  const pages = new RowPages(api, source, () => {}, page(0, PAGE_ROWS, 1000));
  pages.want(0, 10);

  expect(pages.get(9)?._row).toBe(9);
  expect(rows).not.toHaveBeenCalled();
});

test("a page that the server ends early is asked for to its end, and its first rows are shown meanwhile", async () => {
  const spans: { offset: number; limit: number }[] = [];
  let letGo = () => {};
  const rows = async (_name: string, _source: unknown, span: { offset: number; limit: number }) => {
    spans.push(span);
    if (spans.length === 2) await new Promise<void>((resolve) => (letGo = resolve));
    return page(span.offset, Math.min(span.limit, 40), 1000);
  };
  const pages = new RowPages({ rows } as unknown as Api, source, () => {});
  pages.want(0, 64);
  await vi.waitFor(() => expect(spans.length).toBe(2));

  expect([pages.get(39)?._row, pages.get(40)?._row]).toEqual([39, undefined]);
  letGo();
  await vi.waitFor(() => expect(pages.get(63)?._row).toBe(63));
  expect(spans.map(({ offset, limit }) => [offset, limit])).toEqual([[0, 64], [40, 24]]);
});

test("pages out of sight are aborted", () => {
  const { api, rows } = fakeApi();
  const pages = new RowPages(api, source, () => {});
  pages.want(0, 10);
  pages.want(900, 910);

  expect(rows.mock.calls[0]?.[3].aborted).toBe(true);
});

test("an error is kept to be shown", async () => {
  const api = { rows: () => Promise.reject(new Error("offline")) } as unknown as Api;
  const onChange = vi.fn();
  const pages = new RowPages(api, source, onChange);
  pages.want(0, 10);
  await vi.waitFor(() => expect(onChange).toHaveBeenCalled());

  expect(String(pages.error)).toContain("offline");
});
