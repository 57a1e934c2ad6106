/** A moment that others wait for: the first rows are seen. */
export class Sight {
  #settle: () => void = () => {};
  readonly first = new Promise<void>((resolve) => (this.#settle = resolve));

  note(): void {
    this.#settle();
  }
}
