/**
 * Steps in this browser's database (IndexedDB), by dataset and version, so that a crash loses none.
 *
 * A step is one record under `dataset\nversion\ndigest\nid`: another dataset may get the name later, and its version the
 * number, and the digest of the commit tells them apart. Ids ascend with time and differ between tabs: two tabs that edit one
 * version keep the steps of both.
 */
import type { Step } from "./steps";

const NAME = "tensorlake-edits"; // of the database, and of the channel between tabs
const STORE = "steps";
const LAST = "\uffff";
const ID_DIGITS = 10; // of milliseconds and a counter, base 36

export interface KeptStep {
  key: string;
  step: Step;
}

/** Of one version: how many steps there are. */
export interface KeptCount {
  version: string;
  digest: string;
  count: number;
}

/** What another tab of this browser did to a version's steps. */
export interface TabNews {
  place: string;
  /** The version that they were committed as, if they were. */
  committed: string | null;
}

export interface StepStore {
  /** A key for a new step; put it afterwards. */
  keyOf(place: string): string;
  read(place: string): Promise<KeptStep[]>;
  put(kept: KeptStep): Promise<void>;
  remove(keys: readonly string[], committed?: string | null): Promise<void>;
  /** The versions of a dataset that have steps. */
  list(dataset: string): Promise<KeptCount[]>;
  /** Calls back when another tab changed a version's steps. */
  listen(onnews: (news: TabNews) => void): void;
}

export class KeptSteps implements StepStore {
  #opened: Promise<IDBDatabase> | null = null;
  #last = 0;
  readonly #tabs = new BroadcastChannel(NAME);

  constructor(readonly factory: IDBFactory) {}

  listen(onnews: (news: TabNews) => void): void {
    this.#tabs.onmessage = ({ data }: MessageEvent<TabNews>) => onnews(data);
  }

  keyOf(place: string): string {
    this.#last = Math.max(this.#last + 1, Date.now());
    const noise = Math.random().toString(36).slice(2, 8);
    return `${place}\n${this.#last.toString(36).padStart(ID_DIGITS, "0")}${noise}`;
  }

  async read(place: string): Promise<KeptStep[]> {
    const range = IDBKeyRange.bound(`${place}\n`, `${place}\n${LAST}`);
    return this.#do("readonly", (store) => store.getAll(range) as IDBRequest<KeptStep[]>);
  }

  async put(kept: KeptStep): Promise<void> {
    await this.#do("readwrite", (store) => store.put(kept));
    this.#tell([kept.key]);
  }

  async remove(keys: readonly string[], committed: string | null = null): Promise<void> {
    await this.#do("readwrite", (store) => {
      let last: IDBRequest = store.count();
      for (const key of keys) last = store.delete(key);
      return last;
    });
    this.#tell(keys, committed);
  }

  async list(dataset: string): Promise<KeptCount[]> {
    const keys = await this.#do("readonly", (store) => store.getAllKeys(IDBKeyRange.bound(`${dataset}\n`, `${dataset}\n${LAST}`)));
    const counts = new Map<string, KeptCount>();
    for (const key of keys as string[]) {
      const [, version = "", digest = ""] = key.split("\n");
      const place = placeOf(dataset, version, digest);
      counts.set(place, { version, digest, count: (counts.get(place)?.count ?? 0) + 1 });
    }
    return [...counts.values()];
  }

  #tell(keys: readonly string[], committed: string | null = null): void {
    for (const place of new Set(keys.map((key) => key.slice(0, key.lastIndexOf("\n"))))) this.#tabs.postMessage({ place, committed } satisfies TabNews);
  }

  async #do<T>(mode: IDBTransactionMode, ask: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
    this.#opened ??= this.#open();
    const database = await this.#opened.catch((error: unknown) => {
      this.#opened = null; // the next step tries again
      throw error;
    });
    const transaction = database.transaction(STORE, mode, { durability: "strict" }); // on the disk, not in a buffer
    const request = ask(transaction.objectStore(STORE));
    transaction.commit(); // now: the page may end at once
    return new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = () => reject(transaction.error ?? new Error("the browser ended it"));
    });
  }

  #open(): Promise<IDBDatabase> {
    return new Promise((resolve, reject) => {
      const request = this.factory.open(NAME, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "key" });
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error ?? new Error("the browser refused"));
    });
  }
}

/** The name of a version's steps. */
export function placeOf(dataset: string, version: string, digest: string): string {
  return `${dataset}\n${version}\n${digest}`;
}
