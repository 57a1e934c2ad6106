/** The scroll position of the rows, in pixels of their content; `layout.ts` maps it to the browser's own. */
import { type Anchor, anchorAt, anchoredTop, anchorOf, clampTop, contentTop, GAP, type Layout, trackTop } from "./layout";

export class GridScroll {
  top = $state(0);
  scroller: HTMLElement | null = null;
  track: HTMLElement | null = null;
  #expected = -1; // ignores the scroll event caused by setting scrollTop
  #pointer: { x: number; y: number } | null = null;
  #before: Layout | null = null;

  constructor(readonly layout: () => Layout) {}

  show(next: number): void {
    const { scroller, track } = this;
    if (scroller === null || track === null) return;
    const layout = this.layout();
    this.top = clampTop(layout, next);
    this.#expected = Math.round(trackTop(layout, this.top));
    track.style.height = `${layout.track}px`; // set now: the browser clamps to the current height
    if (Math.round(scroller.scrollTop) !== this.#expected) scroller.scrollTop = this.#expected;
  }

  /** After larger cells or a wider page: the point under the pointer stays, or `row`, or the first row in sight. */
  follow(row: number | null): void {
    const [now, old] = [this.layout(), this.#before];
    this.#before = now;
    const isSame = old === null || (old.pitch === now.pitch && old.columns === now.columns && old.count === now.count);
    if (!isSame && old.count === now.count) this.show(anchoredTop(now, this.#anchor(old, row)));
  }

  onscroll = (): void => {
    const position = this.scroller?.scrollTop ?? 0;
    if (Math.abs(position - this.#expected) > 1) this.top = contentTop(this.layout(), position);
    this.#expected = -1;
  };

  onpointermove = (event: PointerEvent): void => {
    const place = this.scroller?.getBoundingClientRect();
    if (place !== undefined) this.#pointer = { x: event.clientX - place.left, y: event.clientY - place.top };
  };

  onpointerleave = (): void => {
    this.#pointer = null;
  };

  /** Scrolls by wheel pixels where the track is shorter than the content; attached only there, because a non-passive listener delays every scroll step. */
  listenToWheel = (element: HTMLElement): (() => void) => {
    const onwheel = (event: WheelEvent) => {
      if (event.ctrlKey) return;
      event.preventDefault();
      this.show(this.top + event.deltaY * (event.deltaMode === 1 ? 20 : 1));
    };
    element.addEventListener("wheel", onwheel, { passive: false });
    return () => element.removeEventListener("wheel", onwheel);
  };

  #anchor(old: Layout, row: number | null): Anchor {
    if (this.#pointer !== null) return anchorAt(old, this.top, this.#pointer);
    const chosen = row === null ? null : anchorOf(old, this.top, row);
    const isInSight = chosen !== null && chosen.offset > 0 && chosen.offset < old.viewport;
    return isInSight ? chosen : anchorAt(old, this.top, { x: 0, y: GAP });
  }
}
