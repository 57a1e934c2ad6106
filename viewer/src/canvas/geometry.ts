/** Geometry: rectangles, and how images fit into areas. */
export interface Extent {
  width: number;
  height: number;
}

export interface Bounds extends Extent {
  x: number;
  y: number;
}

export type Point = readonly [x: number, y: number];

export interface Fit {
  scale: number;
  x: number;
  y: number;
}

/** Scales an image to fit inside an area. */
export function containFit(image: Extent, area: Extent): Fit {
  const scale = Math.min(area.width / image.width, area.height / image.height);
  return { scale, x: (area.width - image.width * scale) / 2, y: (area.height - image.height * scale) / 2 };
}

export function placeBounds(bounds: Bounds, fit: Fit): Bounds {
  return {
    x: fit.x + bounds.x * fit.scale,
    y: fit.y + bounds.y * fit.scale,
    width: bounds.width * fit.scale,
    height: bounds.height * fit.scale,
  };
}

/** Whether bounds intersect an area at the origin. */
export function isInSight(bounds: Bounds, fit: Fit, area: Extent): boolean {
  const [left, top] = [fit.x + bounds.x * fit.scale, fit.y + bounds.y * fit.scale];
  const isBeside = left > area.width || left + bounds.width * fit.scale < 0;
  return !isBeside && top <= area.height && top + bounds.height * fit.scale >= 0;
}
