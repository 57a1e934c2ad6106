/**
 * The points of a map, in the units of a square of 1,000 × 1,000, with y downwards as on a screen.
 *
 * The server sends them in Morton order: blocks of consecutive points have small bounds, so that a lasso and the pointer
 * look at the few blocks that they touch.
 */
import { formatCount, formatPlural } from "../../format";
import type { RowSet } from "../../state/rows/row-set";
import { parseNpz } from "../../fetch/numpy/npz";

export const SIDE = 1000;
export const BLOCK = 512;
const BLOCKS_OF_A_PART = 32; // a fraction of a millisecond

export interface Points {
  count: number;
  /** x and y of each point, one after the other. */
  xy: Float32Array;
  /** The row of each point in the version. */
  rows: ArrayLike<number>;
  /** Class codes, or numbers, by which points are coloured; null for one colour. */
  values: ArrayLike<number> | null;
  /** left, top, right, bottom of each block. */
  blocks: Float32Array;
  /** Rows that were looked at. */
  projected: number;
}

export function readPoints(buffer: ArrayBuffer): Points {
  const arrays = parseNpz(buffer);
  const xy = fitSquare(arrays.get("xy")?.values ?? []);
  return {
    count: xy.length / 2,
    xy,
    rows: arrays.get("row")?.values ?? [],
    values: arrays.get("color")?.values ?? null,
    blocks: boundBlocks(xy),
    projected: arrays.get("projected")?.values[0] ?? 0,
  };
}

/** Scales coordinates into the square, less a margin, with one scale for both axes. */
export function fitSquare(given: ArrayLike<number>): Float32Array {
  const bounds = new Float64Array([Infinity, Infinity, -Infinity, -Infinity]);
  grow(bounds, 0, given, 0, given.length);
  const [left = 0, top = 0, right = 0, bottom = 0] = bounds;
  const extent = Math.max(right - left, bottom - top);
  const scale = extent > 0 ? (SIDE * 0.96) / extent : 1;
  const xy = new Float32Array(given.length);
  for (let i = 0; i < xy.length; i += 2) {
    xy[i] = SIDE / 2 + ((given[i] ?? 0) - (left + right) / 2) * scale;
    xy[i + 1] = SIDE / 2 - ((given[i + 1] ?? 0) - (top + bottom) / 2) * scale;
  }
  return xy;
}

export function boundBlocks(xy: Float32Array): Float32Array {
  const count = Math.ceil(xy.length / 2 / BLOCK);
  const blocks = new Float32Array(4 * count);
  for (let block = 0; block < count; block += 1) {
    blocks.set([Infinity, Infinity, -Infinity, -Infinity], 4 * block);
    grow(blocks, 4 * block, xy, 2 * BLOCK * block, Math.min(xy.length, 2 * BLOCK * (block + 1)));
  }
  return blocks;
}

function grow(bounds: Float32Array | Float64Array, at: number, xy: ArrayLike<number>, start: number, stop: number): void {
  for (let i = start; i < stop; i += 2) {
    const [x, y] = [xy[i] ?? 0, xy[i + 1] ?? 0];
    if (x < (bounds[at] ?? 0)) bounds[at] = x;
    if (y < (bounds[at + 1] ?? 0)) bounds[at + 1] = y;
    if (x > (bounds[at + 2] ?? 0)) bounds[at + 2] = x;
    if (y > (bounds[at + 3] ?? 0)) bounds[at + 3] = y;
  }
}

/** Indices of the blocks that touch a rectangle. */
function touching(points: Points, left: number, top: number, right: number, bottom: number): number[] {
  const found: number[] = [];
  const { blocks } = points;
  for (let at = 0; at < blocks.length; at += 4) {
    const isBeside = (blocks[at] ?? 0) > right || (blocks[at + 2] ?? 0) < left;
    if (!isBeside && (blocks[at + 1] ?? 0) <= bottom && (blocks[at + 3] ?? 0) >= top) found.push(at / 4);
  }
  return found;
}

/**
 * Adds to `found` the included rows of the points inside a closed outline (x, y, x, y, …), by the even-odd rule; in parts.
 *
 * A block that no edge touches is inside or outside as a whole: of a million points, those of few blocks are looked at.
 */
export function* findInside(points: Points, outline: readonly number[], included: Pick<RowSet, "has"> | null, found: RowSet): Generator<void, void> {
  const bounds = new Float64Array([Infinity, Infinity, -Infinity, -Infinity]);
  grow(bounds, 0, outline, 0, outline.length);
  const [left = 0, top = 0, right = 0, bottom = 0] = bounds;
  for (const [at, block] of touching(points, left, top, right, bottom).entries()) {
    if (at % BLOCKS_OF_A_PART === 0) yield;
    const { edges, isCut } = edgesNear(points, block, outline);
    const [start, stop] = [block * BLOCK, Math.min(points.count, (block + 1) * BLOCK)];
    const isIn = (i: number) => isInside(edges, points.xy[2 * i] ?? 0, points.xy[2 * i + 1] ?? 0);
    if (!isCut && !isIn(start)) continue;
    for (let i = start; i < stop; i += 1) {
      const row = points.rows[i] ?? 0;
      if ((!isCut || isIn(i)) && (included === null || included.has(row))) found.add(row);
    }
  }
}

/** The edges that a ray to the right can cross from a point of the block (x, y, x, y of each), and whether one may touch it. */
function edgesNear(points: Points, block: number, outline: readonly number[]): { edges: number[]; isCut: boolean } {
  const [left = 0, top = 0, right = 0, bottom = 0] = points.blocks.subarray(4 * block, 4 * block + 4);
  const edges: number[] = [];
  let isCut = false;
  for (let i = 0; i < outline.length; i += 2) {
    const [x, y] = [outline[i] ?? 0, outline[i + 1] ?? 0];
    const [nextX, nextY] = [outline[(i + 2) % outline.length] ?? 0, outline[(i + 3) % outline.length] ?? 0];
    if (Math.max(x, nextX) < left || Math.max(y, nextY) < top || Math.min(y, nextY) > bottom) continue;
    edges.push(x, y, nextX, nextY);
    isCut ||= Math.min(x, nextX) <= right;
  }
  return { edges, isCut };
}

function isInside(edges: readonly number[], x: number, y: number): boolean {
  let is = false;
  for (let i = 0; i < edges.length; i += 4) {
    const [y1, y2] = [edges[i + 1] ?? 0, edges[i + 3] ?? 0];
    if (y1 > y === y2 > y) continue;
    const [x1, x2] = [edges[i] ?? 0, edges[i + 2] ?? 0];
    if (x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) is = !is;
  }
  return is;
}

/** The point closest to a place, within a distance; null where there is none. */
export function nearest(points: Points, x: number, y: number, distance: number): number | null {
  let [best, found] = [distance ** 2, -1];
  for (const block of touching(points, x - distance, y - distance, x + distance, y + distance)) {
    for (let i = block * BLOCK; i < Math.min(points.count, (block + 1) * BLOCK); i += 1) {
      const away = ((points.xy[2 * i] ?? 0) - x) ** 2 + ((points.xy[2 * i + 1] ?? 0) - y) ** 2;
      if (away <= best) [best, found] = [away, i];
    }
  }
  return found < 0 ? null : found;
}

/** How many points there are, and why not one for each of the version's rows. */
export function describePoints(points: Points | null, rows: number): string[] {
  if (points === null) return [];
  const missing = points.projected - points.count;
  return [
    formatPlural(points.count, "point"),
    ...(missing > 0 ? [`${formatCount(missing)} without a vector`] : []),
    ...(points.projected < rows ? [`of ${formatPlural(points.projected, "row")} that are spread over all`] : []),
  ];
}
