/** The three planes through one voxel of a volume: across its axes 0, 1 and 2 (z, y and x, as the array has them). */
import { containFit, type Extent } from "../../canvas/geometry";

export type Axis = 0 | 1 | 2;
export type Triple = readonly [number, number, number];

export const AXES = ["z", "y", "x"] as const;

/** The axes of a plane: down and across the screen. */
export function sidesOf(axis: Axis): readonly [Axis, Axis] {
  return axis === 0 ? [1, 2] : axis === 1 ? [0, 2] : [0, 1];
}

/** Where a plane lies in an area, in CSS pixels: whole, and with its voxels as long as they are. */
export function placeOf(axis: Axis, shape: Triple, spacing: Triple, area: Extent): { x: number; y: number; width: number; height: number } {
  const [down, across] = sidesOf(axis);
  const extent = { width: shape[across] * spacing[across], height: shape[down] * spacing[down] };
  const { x, y, scale } = containFit(extent, area);
  return { x, y, width: extent.width * scale, height: extent.height * scale };
}

/** The voxel under shares of a plane's width and height. */
export function voxelAt(axis: Axis, at: Triple, shape: Triple, right: number, below: number): Triple {
  const [down, across] = sidesOf(axis);
  const next: [number, number, number] = [...at];
  next[across] = bounded(Math.floor(right * shape[across]), shape[across]);
  next[down] = bounded(Math.floor(below * shape[down]), shape[down]);
  return next;
}

export function stepped(axis: Axis, at: Triple, shape: Triple, by: number): Triple {
  const next: [number, number, number] = [...at];
  next[axis] = bounded(at[axis] + by, shape[axis]);
  return next;
}

function bounded(value: number, length: number): number {
  return Math.min(Math.max(0, value), Math.max(0, length - 1));
}
