/**
 * The geometry of a virtual grid, without a browser.
 *
 * Browsers clamp an element's height at 33,554,430 px, which a million rows in one column exceed.
 * So there are two lengths: the *content* (all rows at their height) and the *track* (the scrolled
 * element, at most TRACK_MAX). A position on the track maps to the content proportionally; below
 * the limit both are the same.
 */

/** Below the 33,554,430 px at which Chromium and Firefox clamp. */
export const TRACK_MAX = 32_000_000;
export const GAP = 8;

export interface Layout {
  count: number;
  columns: number;
  cellWidth: number;
  cellHeight: number;
  /** The part of its height above the caption. */
  imageHeight: number;
  /** From one line of cells to the next. */
  pitch: number;
  content: number;
  track: number;
  viewport: number;
}

export interface Size {
  width: number;
  height: number;
}

/** The least width of a cell; images keep their shape as cells stretch, cards their height. */
export interface CellSize extends Size {
  keepsShape: boolean;
  /** The height of the caption below the image: not part of `height`, and never stretched. */
  foot?: number;
}

/** Fit as many columns as `cell.width` allows; cells then stretch to fill the line. */
export function makeLayout(count: number, area: Size, cell: CellSize): Layout {
  const inner = Math.max(0, area.width - 2 * GAP);
  const columns = Math.max(1, Math.floor((inner + GAP) / (cell.width + GAP)));
  const cellWidth = Math.max(1, Math.floor((inner - (columns - 1) * GAP) / columns)); // whole pixels: sharp edges
  const stretch = cell.keepsShape ? cellWidth / cell.width : 1;
  const imageHeight = Math.max(1, Math.round(cell.height * stretch));
  const cellHeight = imageHeight + (cell.foot ?? 0);
  const pitch = cellHeight + GAP;
  const content = Math.ceil(count / columns) * pitch + GAP;
  return {
    count,
    columns,
    cellWidth,
    cellHeight,
    imageHeight,
    pitch,
    content,
    track: Math.min(content, TRACK_MAX),
    viewport: area.height,
  };
}

/** Content position at the top of the viewport, for a scroll position on the track. */
export function contentTop(layout: Layout, scrollTop: number): number {
  return clampTop(layout, scrollTop * ratio(layout));
}

/** Scroll position that shows the content position `top` first. */
export function trackTop(layout: Layout, top: number): number {
  return clampTop(layout, top) / ratio(layout);
}

export function clampTop(layout: Layout, top: number): number {
  return Math.min(Math.max(0, top), Math.max(0, layout.content - layout.viewport));
}

/**
 * The cells to have in the document: the visible lines and `overscan` more each way.
 *
 * The number of lines is constant, so that scrolling reuses cells.
 */
export function visibleCells(layout: Layout, top: number, overscan: number): { start: number; stop: number } {
  const first = Math.floor((top - GAP) / layout.pitch) - overscan;
  const start = Math.max(0, first) * layout.columns;
  const stop = Math.max(0, first * layout.columns + countSlots(layout, overscan));
  return { start, stop: Math.max(start, Math.min(layout.count, stop)) };
}

/** The number of cells that is enough at any scroll position. */
export function countSlots(layout: Layout, overscan: number): number {
  return (Math.ceil(layout.viewport / layout.pitch) + 1 + 2 * overscan) * layout.columns;
}

/** Positions, or lines, ordered by the slot that each is in. */
export function inSlotOrder(start: number, stop: number, slots: number): number[] {
  const all = Array.from({ length: Math.max(0, stop - start) }, (_, i) => start + i);
  return all.sort((a, b) => (a % slots) - (b % slots));
}

export function lineOf(layout: Layout, position: number): number {
  return Math.floor(position / layout.columns);
}

/** The first line that is wholly or mostly in sight. */
export function lineAt(layout: Layout, top: number): number {
  return Math.max(0, Math.round(top / layout.pitch));
}

/** The content position that shows the line of a position first. */
export function lineTop(layout: Layout, position: number): number {
  return clampTop(layout, lineOf(layout, Math.min(position, Math.max(0, layout.count - 1))) * layout.pitch);
}

/** A point of the content that stays where it is on the screen while the layout changes. */
export interface Anchor {
  position: number;
  /** Where in its cell the point is: 0 at the top, 1 at the bottom. */
  share: number;
  /** How far below the top of the viewport. */
  offset: number;
}

/** The point at an offset from the viewport's corner, or in the middle of a cell. */
export function anchorAt(layout: Layout, top: number, at: { x: number; y: number }): Anchor {
  const line = Math.max(0, Math.floor((top + at.y - GAP / 2) / layout.pitch));
  const column = Math.min(layout.columns - 1, Math.max(0, Math.floor((at.x - GAP / 2) / (layout.cellWidth + GAP))));
  const position = Math.min(line * layout.columns + column, Math.max(0, layout.count - 1));
  return { position, share: (top + at.y - GAP - line * layout.pitch) / layout.cellHeight, offset: at.y };
}

export function anchorOf(layout: Layout, top: number, position: number): Anchor {
  const middle = GAP + lineOf(layout, position) * layout.pitch + layout.cellHeight / 2;
  return { position, share: 0.5, offset: middle - top };
}

/** The content position that shows an anchor at its offset again. */
export function anchoredTop(layout: Layout, { position, share, offset }: Anchor): number {
  return clampTop(layout, GAP + lineOf(layout, position) * layout.pitch + share * layout.cellHeight - offset);
}

/** Lines that share an origin: scrolling within them moves no cell. */
const BLOCK = 64;

/** The line that visible cells are positioned from; changes once per block. */
export function originLine(layout: Layout, range: { start: number }): number {
  return BLOCK * Math.floor(Math.floor(range.start / layout.columns) / BLOCK);
}

/**
 * Whether the frame of cells is on the track and scrolled by the browser alone. Else it sticks to the top of the
 * viewport and is moved here: where the track is shorter than the content, and where positions exceed the
 * browser's 24 bits of precision.
 */
export function isOnTrack(layout: Layout): boolean {
  return layout.track === layout.content && layout.track < 2 ** 24;
}

/** The position of the frame of cells: on the track, or relative to the top of the viewport. */
export function frameTop(layout: Layout, origin: number, top: number): number {
  return origin * layout.pitch - (isOnTrack(layout) ? 0 : top);
}

/** The position of a cell in its frame. */
export function cellPlace(layout: Layout, position: number, origin: number): { x: number; y: number } {
  const line = Math.floor(position / layout.columns) - origin;
  const column = position % layout.columns;
  return { x: GAP + column * (layout.cellWidth + GAP), y: GAP + line * layout.pitch };
}

/** From the left edge of a line's first cell to the right edge of its last. */
export function lineWidth(layout: Layout): number {
  return layout.columns * (layout.cellWidth + GAP) - GAP;
}

/** The least change of `top` that brings a cell wholly into the viewport. */
export function revealTop(layout: Layout, position: number, top: number): number {
  const line = Math.floor(position / layout.columns) * layout.pitch;
  if (line < top) return clampTop(layout, line);
  const bottom = line + layout.pitch + GAP - layout.viewport;
  return clampTop(layout, Math.max(top, bottom));
}

function ratio(layout: Layout): number {
  const scrollable = layout.track - layout.viewport;
  return scrollable > 0 ? (layout.content - layout.viewport) / scrollable : 1;
}
