/** Edits of one version: done, undone and done again; kept in the browser until they are committed. */
import type { CellValue, Row } from "../../api/client";
import { Changes, type Change, type Step } from "./steps";
import { placeOf, type KeptCount, type KeptStep, type StepStore } from "./kept-steps";

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
  #place = "";
  readonly #changes = new Changes();
  /** Raised with every change: the map of a million cells is no signal. */
  #ticks = $state(0);
  #done = $state.raw<readonly KeptStep[]>([]);
  #undone = $state.raw<readonly KeptStep[]>([]);

  constructor(readonly store: StepStore) {}

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
    this.isOpen = true;
    const [kept, elsewhere] = await this.#keep(() => Promise.all([this.store.read(place), this.store.list(dataset)]), [[], []]);
    if (this.#place !== place) return;
    this.#done = kept;
    for (const { step } of kept) this.#changes.apply(step);
    this.elsewhere = elsewhere.filter((one) => one.version !== version);
    this.isReady = true;
    this.#ticks += 1;
  }

  close(): void {
    this.isOpen = this.isReady = false;
    this.#place = "";
    this.#forget();
  }

  /** Applies a step at once; resolves when the browser has it on its disk. */
  async do(step: Step): Promise<void> {
    const kept = { key: this.store.keyOf(this.#place), step };
    [this.#done, this.#undone] = [[...this.#done, kept], []];
    this.#changes.apply(step);
    this.#ticks += 1;
    await this.#keep(() => this.store.put(kept));
  }

  /** Takes the last step back, and returns it. */
  undo(): Step | undefined {
    const last = this.#done.at(-1);
    if (last === undefined) return undefined;
    [this.#done, this.#undone] = [this.#done.slice(0, -1), [...this.#undone, last]];
    this.#changes.revert(last.step);
    this.#ticks += 1;
    void this.#keep(() => this.store.remove([last.key]));
    return last.step;
  }

  redo(): Step | undefined {
    const last = this.#undone.at(-1);
    if (last === undefined) return undefined;
    [this.#done, this.#undone] = [[...this.#done, last], this.#undone.slice(0, -1)];
    this.#changes.apply(last.step);
    this.#ticks += 1;
    void this.#keep(() => this.store.put(last));
    return last.step;
  }

  /** Forgets all steps: they are committed, or discarded. */
  async clear(): Promise<void> {
    const keys = this.#done.map(({ key }) => key);
    this.#forget();
    await this.#keep(() => this.store.remove(keys));
  }

  #forget(): void {
    this.#changes.clear();
    this.#done = this.#undone = [];
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
