/** Tiles: how several images of equal importance share an area. */
import type { Bounds, Extent } from "./geometry";

const SPACE = 2; // between two tiles

/** Divides an area into `count` tiles of one size, in reading order; the number of columns is the one that makes the tiles largest. */
export function placeTiles(count: number, area: Extent, shape = 0.75): Bounds[] {
  let best = { columns: 1, side: 0 };
  for (let columns = 1; columns <= count; columns += 1) {
    const tile = tileSize(columns, Math.ceil(count / columns), area);
    const side = Math.min(tile.width, tile.height / shape); // the width of an image of this shape in it
    if (side > best.side) best = { columns, side };
  }
  const { width, height } = tileSize(best.columns, Math.ceil(count / best.columns), area);
  return Array.from({ length: count }, (_, i) => ({
    x: (i % best.columns) * (width + SPACE),
    y: Math.floor(i / best.columns) * (height + SPACE),
    width,
    height,
  }));
}

function tileSize(columns: number, lines: number, area: Extent): Extent {
  return {
    width: Math.max(1, (area.width - (columns - 1) * SPACE) / columns),
    height: Math.max(1, (area.height - (lines - 1) * SPACE) / lines),
  };
}
