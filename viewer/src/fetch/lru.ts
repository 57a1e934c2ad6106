/** A least-recently-used cache with a budget for the total size of its values. */
export class Lru<K, V> {
  #entries = new Map<K, { value: V; size: number }>();
  #size = 0;

  constructor(
    public budget: number,
    readonly onEvict: (value: V) => void = () => {},
  ) {}

  get size(): number {
    return this.#size;
  }

  has(key: K): boolean {
    return this.#entries.has(key);
  }

  get(key: K): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry); // a Map keeps the order of insertion: the newest is last
    return entry.value;
  }

  set(key: K, value: V, size: number): void {
    this.delete(key);
    this.#entries.set(key, { value, size });
    this.#size += size;
    for (const oldest of this.#entries.keys()) {
      if (this.#size <= this.budget || oldest === key) break;
      this.delete(oldest);
    }
  }

  delete(key: K): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#size -= entry.size;
    this.onEvict(entry.value);
  }

  clear(): void {
    for (const key of this.#entries.keys()) this.delete(key);
  }
}
