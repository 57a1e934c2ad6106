/** The position of an image on the screen while zooming and panning. */
import { containFit, type Extent, type Fit } from "./geometry";

/** Maximum screen pixels per pixel of the sample. */
const CLOSEST = 64;
const WHEEL_NOTCH = 100; // pixels of deltaY that most mice report
const WHEEL_FACTOR = 1.25;

export interface Point {
  x: number;
  y: number;
}

/** The zoom factor of a wheel event. */
export function wheelFactor(deltaY: number): number {
  return WHEEL_FACTOR ** (-deltaY / WHEEL_NOTCH);
}

/** Zooms about a point of the area, which stays fixed. */
export function zoomAt(fit: Fit, factor: number, at: Point, image: Extent, area: Extent): Fit {
  const least = Math.min(1, containFit(image, area).scale);
  const scale = Math.min(CLOSEST, Math.max(least, fit.scale * factor));
  const ratio = scale / fit.scale;
  return keepInSight({ scale, x: at.x - (at.x - fit.x) * ratio, y: at.y - (at.y - fit.y) * ratio }, image, area);
}

export function panBy(fit: Fit, delta: Point, image: Extent, area: Extent): Fit {
  return keepInSight({ ...fit, x: fit.x + delta.x, y: fit.y + delta.y }, image, area);
}

/** An image smaller than the area is centred; a larger one covers it. */
function keepInSight(fit: Fit, image: Extent, area: Extent): Fit {
  const place = (position: number, length: number, room: number) =>
    length <= room ? (room - length) / 2 : Math.min(0, Math.max(room - length, position));
  return {
    scale: fit.scale,
    x: place(fit.x, image.width * fit.scale, area.width),
    y: place(fit.y, image.height * fit.scale, area.height),
  };
}
