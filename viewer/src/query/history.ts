/** Previous queries on a dataset, latest first, stored in this browser. */

const KEPT = 50;

type Storage = Pick<globalThis.Storage, "getItem" | "setItem">;

export function readHistory(storage: Storage, dataset: string): string[] {
  const text = storage.getItem(key(dataset));
  if (text === null) return [];
  try {
    const kept: unknown = JSON.parse(text);
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch (error) {
    if (error instanceof SyntaxError) return []; // not written by this page
    throw error;
  }
}

/** Puts a query first, removing an earlier copy. */
export function remember(storage: Storage, dataset: string, tql: string): string[] {
  const text = tql.trim();
  if (text === "") return readHistory(storage, dataset);
  const next = [text, ...readHistory(storage, dataset).filter((one) => one !== text)].slice(0, KEPT);
  storage.setItem(key(dataset), JSON.stringify(next));
  return next;
}

function key(dataset: string): string {
  return `tensorlake-queries:${dataset}`;
}
