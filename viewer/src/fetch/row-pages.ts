/**
 * Rows by position, fetched in pages and cached while their source is shown.
 *
 * `want(start, stop)` sets the visible positions; pending pages outside of them are aborted. The server ends a page
 * early where rows are large; the rest is then requested.
 */
import type { Api, Row, RowsPage, Source } from "../api/client";
import { Lru } from "./lru";

export const PAGE_ROWS = 64;
const KEPT_PAGES = 256;

export interface PageSource extends Source {
  dataset: string;
  columns: string[];
}

export class RowPages {
  #pages = new Lru<number, Row[]>(KEPT_PAGES);
  #pending = new Map<number, AbortController>();
  /** The rows of pending pages that have arrived. */
  #arriving = new Map<number, Row[]>();
  #error: unknown = null;

  constructor(
    readonly api: Api,
    readonly source: PageSource,
    readonly onChange: () => void,
    first?: RowsPage,
  ) {
    if (first?.offset === 0) {
      const whole = first.rows.length >= PAGE_ROWS || first.rows.length === first.total;
      if (whole) this.#pages.set(0, first.rows.slice(0, PAGE_ROWS), 1);
    }
  }

  /** The first failure, until a page arrives again. */
  get error(): unknown {
    return this.#error;
  }

  /** Whether no request is pending. */
  get isIdle(): boolean {
    return this.#pending.size === 0;
  }

  get(position: number): Row | undefined {
    const page = Math.floor(position / PAGE_ROWS);
    return (this.#pages.get(page) ?? this.#arriving.get(page))?.[position % PAGE_ROWS];
  }

  want(start: number, stop: number): void {
    const first = Math.floor(start / PAGE_ROWS);
    const last = Math.floor(Math.max(start, stop - 1) / PAGE_ROWS);
    for (const [page, abort] of this.#pending) {
      if (page >= first && page <= last) continue;
      abort.abort();
      this.#pending.delete(page);
    }
    for (let page = first; page <= last; page += 1) {
      if (!this.#pages.has(page) && !this.#pending.has(page)) void this.#load(page);
    }
  }

  close(): void {
    for (const abort of this.#pending.values()) abort.abort();
    this.#pages.clear();
  }

  async #load(page: number): Promise<void> {
    const abort = new AbortController();
    this.#pending.set(page, abort);
    const { dataset, columns, version, view } = this.source;
    const [start, stop] = [page * PAGE_ROWS, (page + 1) * PAGE_ROWS];
    const rows: Row[] = [];
    this.#arriving.set(page, rows);
    try {
      for (let next: number | null = start; next !== null && next < stop; ) {
        const span = { offset: next, limit: stop - next, columns };
        const answer: RowsPage = await this.api.rows(dataset, { version, view }, span, abort.signal);
        rows.push(...answer.rows);
        next = answer.next;
        this.onChange();
      }
      this.#pages.set(page, rows, 1);
      this.#error = null;
    } catch (error) {
      if (abort.signal.aborted) return;
      this.#error = error;
      this.#pages.set(page, rows, 1); // requested once: an error is shown, not retried
    } finally {
      if (this.#pending.get(page) === abort) this.#pending.delete(page);
      if (this.#arriving.get(page) === rows) this.#arriving.delete(page);
    }
    this.onChange();
  }
}
