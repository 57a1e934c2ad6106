/**
 * The panels beside the rows: how wide each is, and whether it is folded. Remembered in this browser: unlike the
 * layout of the rows, it suits a screen and not a link.
 */

export type Side = "left" | "right";

interface Kept {
  /** Null for the default of the page's width. */
  width: number | null;
  isFolded: boolean;
}

const KEY = "tensorlake-panels";
export const LEAST_WIDTH = 160;
const SHARE = 0.45; // of the page, at most: rows keep a tenth and more between two panels
const FOLD_BELOW = 100; // dragged narrower than this, a panel folds
/** From the widest page to the narrowest. */
const DEFAULTS: readonly { from: number; left: number; right: number }[] = [
  { from: 1800, left: 320, right: 480 },
  { from: 1081, left: 240, right: 360 },
  { from: 0, left: 200, right: 280 },
];

export function defaultWidth(side: Side, page: number): number {
  return DEFAULTS.find(({ from }) => page >= from)?.[side] ?? LEAST_WIDTH;
}

export function mostWidth(page: number): number {
  return Math.max(LEAST_WIDTH, Math.floor(SHARE * page));
}

export class SidePanels {
  #kept: Record<Side, Kept>;

  constructor(readonly storage: Pick<Storage, "getItem" | "setItem">) {
    this.#kept = $state.raw(readKept(storage.getItem(KEY)));
  }

  isFolded(side: Side): boolean {
    return this.#kept[side].isFolded;
  }

  /** The width of a panel that is not folded. */
  widthOf(side: Side, page: number): number {
    return Math.min(this.#kept[side].width ?? defaultWidth(side, page), mostWidth(page));
  }

  fold(side: Side): void {
    this.#put(side, { ...this.#kept[side], isFolded: !this.isFolded(side) });
  }

  /** Sets the width within its limits; far below the least one, folds. */
  resize(side: Side, width: number, page: number): void {
    if (width < FOLD_BELOW) return this.#put(side, { ...this.#kept[side], isFolded: true });
    this.#put(side, { width: Math.round(Math.min(mostWidth(page), Math.max(LEAST_WIDTH, width))), isFolded: false });
  }

  /** Back to the default width. */
  reset(side: Side): void {
    this.#put(side, { width: null, isFolded: false });
  }

  #put(side: Side, kept: Kept): void {
    this.#kept = { ...this.#kept, [side]: kept };
    this.storage.setItem(KEY, JSON.stringify(this.#kept));
  }
}

/** What another version of this page, or a person, may have written. */
export function readKept(text: string | null): Record<Side, Kept> {
  const fresh = { left: { width: null, isFolded: false }, right: { width: null, isFolded: false } };
  if (text === null) return fresh;
  try {
    const given = JSON.parse(text) as Partial<Record<Side, Partial<Kept>>> | null;
    const read = (one: Partial<Kept> | undefined): Kept => ({
      width: typeof one?.width === "number" && one.width >= LEAST_WIDTH ? one.width : null,
      isFolded: one?.isFolded === true,
    });
    return { left: read(given?.left), right: read(given?.right) };
  } catch (error) {
    if (error instanceof SyntaxError) return fresh;
    throw error;
  }
}
