/** A camera that circles a scene: x, y to the sides, z up, without perspective, so that lengths can be compared. */
import type { Extent, Point } from "../../canvas/geometry";

export type Vector = readonly [number, number, number];

export interface Camera {
  /** Radians; as the server draws thumbnails (media/scenes.py). */
  azimuth: number;
  elevation: number;
  /** The middle of what is seen, and half of the shorter side of the view, in the scene's units. */
  target: Vector;
  reach: number;
}

export interface Bounds {
  low: Vector;
  high: Vector;
}

const AZIMUTH = -Math.PI / 3;
const ELEVATION = Math.PI / 6;
const STEEPEST = Math.PI / 2;
const ZOOM = 1.25; // of a step
const OUTER = 0.005;
const SAMPLED = 20_000; // points that the core is taken of

/** The least and the greatest place of finite points. */
export function boundsOf(xyz: ArrayLike<number>): Bounds {
  const [low, high] = [[Infinity, Infinity, Infinity], [-Infinity, -Infinity, -Infinity]];
  for (let i = 0; i < xyz.length; i += 1) {
    const [axis, value] = [i % 3, xyz[i] ?? 0];
    if (!Number.isFinite(value)) continue;
    if (value < (low[axis] ?? 0)) low[axis] = value;
    if (value > (high[axis] ?? 0)) high[axis] = value;
  }
  return low.includes(Infinity) ? { low: [0, 0, 0], high: [0, 0, 0] } : { low: low as unknown as Vector, high: high as unknown as Vector };
}

/** The same without the outer points of each axis, as the server draws thumbnails: one far return would make the rest a dot. */
export function coreOf(xyz: ArrayLike<number>): Bounds {
  const step = 3 * Math.max(1, Math.floor(xyz.length / 3 / SAMPLED));
  const sides = [0, 1, 2].map((axis) => {
    const sampled: number[] = [];
    for (let i = axis; i < xyz.length; i += step) if (Number.isFinite(xyz[i])) sampled.push(xyz[i] ?? 0);
    sampled.sort((a, b) => a - b);
    const at = (share: number) => sampled[Math.round(share * (sampled.length - 1))] ?? 0;
    return [at(OUTER), at(1 - OUTER)] as const;
  });
  return { low: sides.map(([low]) => low) as unknown as Vector, high: sides.map(([, high]) => high) as unknown as Vector };
}

/** Sees a whole scene. */
export function wholeOf({ low, high }: Bounds): Camera {
  const sides = high.map((value, axis) => value - (low[axis] ?? 0));
  const target = low.map((value, axis) => value + (sides[axis] ?? 0) / 2) as unknown as Vector;
  return { azimuth: AZIMUTH, elevation: ELEVATION, target, reach: Math.hypot(...sides) / 2 || 1 };
}

/** Where a camera puts a place of the scene, in pixels of a view. */
export function projectorOf(camera: Camera, { width, height }: Extent): (place: Vector) => Point {
  const { right, up } = axesOf(camera);
  const scale = Math.min(width, height) / 2 / camera.reach;
  const along = (axis: Vector, place: Vector) => place.reduce((sum, value, i) => sum + (axis[i] ?? 0) * (value - (camera.target[i] ?? 0)), 0);
  return (place) => [width / 2 + scale * along(right, place), height / 2 - scale * along(up, place)];
}

export function turned(camera: Camera, right: number, up: number): Camera {
  return { ...camera, azimuth: camera.azimuth - right, elevation: Math.min(STEEPEST, Math.max(-STEEPEST, camera.elevation + up)) };
}

export function zoomed(camera: Camera, steps: number): Camera {
  return { ...camera, reach: camera.reach / ZOOM ** steps };
}

/** Moves the view by shares of its reach. */
export function moved(camera: Camera, right: number, up: number): Camera {
  const axes = axesOf(camera);
  const target = camera.target.map((value, i) => value + camera.reach * (right * (axes.right[i] ?? 0) + up * (axes.up[i] ?? 0)));
  return { ...camera, target: target as unknown as Vector };
}

/** Unit vectors: to the right and up on the screen, and towards the camera. */
export function axesOf({ azimuth, elevation }: Pick<Camera, "azimuth" | "elevation">): { right: Vector; up: Vector; near: Vector } {
  const [sinA, cosA, sinE, cosE] = [Math.sin(azimuth), Math.cos(azimuth), Math.sin(elevation), Math.cos(elevation)];
  return { right: [-sinA, cosA, 0], up: [-sinE * cosA, -sinE * sinA, cosE], near: [cosE * cosA, cosE * sinA, sinE] };
}
