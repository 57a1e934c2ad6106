/**
 * The notebook that has this page in a cell (ds.widget(), tensorlake/dataset/display/widget.js):
 *
 *     its messages     {widget, kind: "hello"} · {widget, kind: "select", version, rows}
 *     those of a page  {widget, version, rows}          rows are ranges: start, stop, start, stop, …
 *
 * `widget` is a key in the fragment of the page's address, which only the notebook knows. Who has shown it, from the
 * window around this one, is told what is selected; its origin is that of every message to it.
 */
import { listRuns } from "./runs";

const KEPT = "widget"; // the key, of a page that is loaded again

interface Told {
  version: string;
  rows: number[];
}

export class Notebook {
  #origin: string | null = null;
  #told: Told | null = null;

  /** `onselect` gets rows of a version that the page shows. */
  constructor(
    readonly key: string,
    readonly around: Pick<Window, "postMessage">,
    readonly onselect: (rows: Iterable<number>) => void,
  ) {}

  hear({ source, origin, data }: Pick<MessageEvent, "source" | "origin"> & { data: unknown }): void {
    if (source !== this.around || !isMessage(data) || data.widget !== this.key) return;
    this.#origin = origin;
    if (data.kind === "select" && this.#told !== null && data.version === this.#told.version && isRanges(data.rows)) this.onselect(numbersOf(data.rows));
    else this.#send(); // of another version than is shown, too
  }

  /** Tells the rows that are selected, and of which version. */
  tell(version: string, sorted: ArrayLike<number>): void {
    const rows = [...listRuns(sorted)].flatMap(({ start, length }) => [start, start + length]);
    this.#told = { version, rows };
    this.#send();
  }

  #send(): void {
    if (this.#origin !== null && this.#told !== null) this.around.postMessage({ widget: this.key, ...this.#told }, this.#origin);
  }
}

/** The key of the notebook around this page; null where there is none. */
export function findKey(hash: string, kept: Pick<Storage, "getItem" | "setItem">): string | null {
  const key = new URLSearchParams(hash.slice(1)).get("widget") ?? kept.getItem(KEPT);
  if (key !== null) kept.setItem(KEPT, key);
  return key;
}

interface Message {
  widget?: unknown;
  kind?: unknown;
  version?: unknown;
  rows?: unknown;
}

function isMessage(data: unknown): data is Message {
  return typeof data === "object" && data !== null;
}

function isRanges(rows: unknown): rows is number[] {
  return Array.isArray(rows) && rows.length % 2 === 0 && rows.every((edge, i) => Number.isSafeInteger(edge) && edge >= (i === 0 ? 0 : (rows[i - 1] as number)));
}

function* numbersOf(ranges: readonly number[]): Iterable<number> {
  for (let i = 0; i + 1 < ranges.length; i += 2) for (let row = ranges[i] ?? 0; row < (ranges[i + 1] ?? 0); row += 1) yield row;
}
