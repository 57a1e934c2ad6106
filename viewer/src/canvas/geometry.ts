/** Where an image lies on the screen, and what lies on it. */
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

/** The image covers the cell: its shorter side fits, the longer one is cut evenly. */
export function coverFit(image: Extent, area: Extent): Fit {
  const scale = Math.max(area.width / image.width, area.height / image.height);
  return { scale, x: (area.width - image.width * scale) / 2, y: (area.height - image.height * scale) / 2 };
}

/** Small images (digits, icons) would be cut to a blur: they are shown whole. */
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

/** Whether any of it lies in an area from the origin on. */
export function isInSight(bounds: Bounds, fit: Fit, area: Extent): boolean {
  const [left, top] = [fit.x + bounds.x * fit.scale, fit.y + bounds.y * fit.scale];
  const isBeside = left > area.width || left + bounds.width * fit.scale < 0;
  return !isBeside && top <= area.height && top + bounds.height * fit.scale >= 0;
}
