/** Edits of one version: done, undone and done again; kept in the browser until they are committed. */
import type { CellValue, Row } from "../../api/client";
import { Changes, type Change, type Step } from "./steps";
import type { Carried } from "./carry";
import { placeOf, type KeptCount, type KeptStep, type StepStore, type TabNews } from "./kept-steps";

export class Edits {
  /** Whether edits are shown: where a bar for them is. */
  isOpen = $state(false);
  /** Whether what was kept is read: what is done before would be out of order. */
  isReady = $state(false);
  /** Other versions of the dataset that have edits. */
  elsewhere = $state.raw<readonly KeptCount[]>([]);
  /** How many writes are on their way to the browser's disk. */
  keeping = $state(0);
  /** Why the browser keeps nothing; "" while it does. */
  problem = $state("");
  /** The version as which another tab committed the edits. */
  committed = $state<string | null>(null);
  #dataset = "";
  #place = "";
  /** Raised with every step of this tab: what is read meanwhile lacks it. */
  #revision = 0;
  readonly #changes = new Changes();
  /** Raised with every change: the map of a million cells is no signal. */
  #ticks = $state(0);
  #done = $state.raw<readonly KeptStep[]>([]);
  #undone = $state.raw<readonly KeptStep[]>([]);

  constructor(readonly store: StepStore) {
    store.listen((news) => void this.#follow(news));
  }

  get canUndo(): boolean {
    return this.#done.length > 0;
  }

  get canRedo(): boolean {
    return this.#undone.length > 0;
  }

  /** How many cells differ from the version. */
  get count(): number {
    void this.#ticks;
    return this.isOpen ? this.#changes.count : 0;
  }

  get tensors(): readonly string[] {
    void this.#ticks;
    return this.#changes.tensors;
  }

  /** What differs in a tensor, by row. */
  of(tensor: string): ReadonlyMap<number, Change> {
    void this.#ticks;
    return this.#changes.of(tensor);
  }

  isEdited(row: number): boolean {
    void this.#ticks;
    return this.isOpen && this.#changes.hasRow(row);
  }

  /** A row as it will be. */
  apply(row: Row): Row {
    void this.#ticks;
    return this.isOpen ? this.#changes.onto(row) : row;
  }

  /** A cell as it will be. */
  valueOf(tensor: string, row: number, stored: CellValue): CellValue {
    const change = this.of(tensor).get(row);
    return change === undefined ? stored : change.value;
  }

  /** Continues the edits of a version. */
  async open(dataset: string, version: string, digest: string): Promise<void> {
    this.close();
    const place = (this.#place = placeOf(dataset, version, digest));
    [this.isOpen, this.#dataset] = [true, dataset];
    const kept = await this.#keep(() => this.store.read(place), []);
    if (this.#place !== place) return;
    this.#replay(kept);
    this.isReady = true;
    await this.#lookElsewhere();
  }

  close(): void {
    this.isOpen = this.isReady = false;
    [this.#place, this.committed, this.elsewhere] = ["", null, []];
    this.#forget();
  }

  /** Reads the steps again: another tab may have made, taken back or committed some. */
  async refresh(): Promise<void> {
    const place = this.#place;
    let [kept, revision] = [this.#done, NaN];
    while (revision !== this.#revision) {
      revision = this.#revision;
      kept = await this.#keep(() => this.store.read(place), kept);
      if (this.#place !== place || !this.isReady) return;
    }
    if (kept.map(({ key }) => key).join() !== this.#done.map(({ key }) => key).join()) this.#replay(kept);
  }

  /** The steps of another version. */
  async stepsOf({ version, digest }: KeptCount): Promise<readonly Step[]> {
    const kept = await this.#keep(() => this.store.read(placeOf(this.#dataset, version, digest)), []);
    return kept.map(({ step }) => step);
  }

  /** Takes over steps of another version, and leaves there what does not fit. */
  async take({ version, digest }: KeptCount, { steps, left }: Carried): Promise<void> {
    const other = placeOf(this.#dataset, version, digest);
    for (const step of steps) await this.do(step);
    await this.#keep(async () => {
      const gone = await this.store.read(other);
      for (const step of left) await this.store.put({ key: this.store.keyOf(other), step });
      await this.store.remove(gone.map(({ key }) => key));
    });
    await this.#lookElsewhere();
  }

  /** A key for the commit of just these edits to a branch: another tab that commits them has the same. */
  keyFor(branch: string): string {
    const keys = this.#done.map(({ key }) => key);
    return `${(keys.at(-1) ?? "").slice(this.#place.length + 1)}-${hash([branch, ...keys].join("\n"))}`;
  }

  async #follow({ place, committed }: TabNews): Promise<void> {
    if (!this.isOpen || !place.startsWith(`${this.#dataset}\n`)) return;
    if (place !== this.#place) return this.#lookElsewhere();
    if (committed !== null) this.committed = committed;
    await this.refresh();
  }

  /** Finds the edits of other versions, and counts their cells. */
  async #lookElsewhere(): Promise<void> {
    const [place, dataset] = [this.#place, this.#dataset];
    const places = await this.#keep(() => this.store.list(dataset), []);
    const others = places.filter(({ version, digest }) => placeOf(dataset, version, digest) !== place);
    const counted = await Promise.all(
      others.map(async (one) => {
        const changes = new Changes();
        for (const step of await this.stepsOf(one)) changes.apply(step);
        return { ...one, count: changes.count };
      }),
    );
    if (this.#place === place) this.elsewhere = counted.filter(({ count }) => count > 0);
  }

  #replay(kept: readonly KeptStep[]): void {
    this.#changes.clear();
    for (const { step } of kept) this.#changes.apply(step);
    [this.#done, this.#undone] = [kept, []];
    this.#ticks += 1;
  }

  /** Applies a step at once; resolves when the browser has it on its disk. */
  async do(step: Step): Promise<void> {
    const kept = { key: this.store.keyOf(this.#place), step };
    [this.#done, this.#undone] = [[...this.#done, kept], []];
    this.#changes.apply(step);
    this.#note();
    await this.#keep(() => this.store.put(kept));
  }

  /** Takes the last step back, and returns it. */
  undo(): Step | undefined {
    const last = this.#done.at(-1);
    if (last === undefined) return undefined;
    [this.#done, this.#undone] = [this.#done.slice(0, -1), [...this.#undone, last]];
    this.#changes.revert(last.step);
    this.#note();
    void this.#keep(() => this.store.remove([last.key]));
    return last.step;
  }

  redo(): Step | undefined {
    const last = this.#undone.at(-1);
    if (last === undefined) return undefined;
    [this.#done, this.#undone] = [[...this.#done, last], this.#undone.slice(0, -1)];
    this.#changes.apply(last.step);
    this.#note();
    void this.#keep(() => this.store.put(last));
    return last.step;
  }

  /** Forgets all steps: they are committed, as a version, or discarded. */
  async clear(committed: string | null = null): Promise<void> {
    const keys = this.#done.map(({ key }) => key);
    this.#forget();
    await this.#keep(() => this.store.remove(keys, committed));
  }

  #note(): void {
    this.#revision += 1;
    this.#ticks += 1;
    this.committed = null;
  }

  #forget(): void {
    this.#changes.clear();
    this.#done = this.#undone = [];
    this.#revision += 1;
    this.#ticks += 1;
  }

  async #keep(work: () => Promise<void>): Promise<void>;
  async #keep<T>(work: () => Promise<T>, otherwise: T): Promise<T>;
  async #keep<T>(work: () => Promise<T>, otherwise?: T): Promise<T | undefined> {
    this.keeping += 1;
    try {
      const result = await work();
      this.problem = "";
      return result;
    } catch (error) {
      const cause = error instanceof Error ? error.message : String(error);
      this.problem = `This browser keeps no edits (${cause}): commit before you leave the page.`;
      return otherwise;
    } finally {
      this.keeping -= 1;
    }
  }
}

/** FNV-1a of 32 bits: keys of different edits differ already in their last step, or in what is before it. */
function hash(text: string): string {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return (value >>> 0).toString(16).padStart(8, "0");
}
