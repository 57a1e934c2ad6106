/**
 * Draws points and triangles into pixels, the nearest one wins: no graphics processor is needed, and none is shared.
 * 10⁵ points are a few milliseconds, 2 · 10⁶ some tens.
 */
import type { Extent } from "../../canvas/geometry";
import { axesOf, type Camera } from "./orbit";

export interface Scene {
  /** Three numbers a point. */
  xyz: ArrayLike<number>;
  /** Three numbers of points a triangle; null draws the points. */
  faces: ArrayLike<number> | null;
  /** Three bytes a point. */
  rgb: ArrayLike<number>;
}

const LIGHT = [0.35, -0.5, 0.79] as const;
const [AMBIENT, DIFFUSE] = [0.3, 0.7];
const OPAQUE = 0xff000000;

export class Raster {
  pixels = new Uint32Array();
  #depth = new Float32Array();
  #placed = new Float32Array();
  #size: Extent = { width: 0, height: 0 };

  /** Draws each `every`th point or triangle; points as squares of `side` pixels. */
  draw(scene: Scene, camera: Camera, size: Extent, { side = 1, every = 1 } = {}): Uint32Array {
    const { width, height } = size;
    if (this.#size.width !== width || this.#size.height !== height) {
      this.#size = { width, height };
      this.pixels = new Uint32Array(width * height);
      this.#depth = new Float32Array(width * height);
    }
    this.pixels.fill(0);
    this.#depth.fill(-Infinity);
    this.#place(scene, camera);
    if (scene.faces === null) this.#drawPoints(scene, side, every);
    else this.#drawFaces(scene, scene.faces, every);
    return this.pixels;
  }

  /** Points on the screen: column, row, and how near. */
  #place({ xyz }: Scene, camera: Camera): void {
    if (this.#placed.length !== xyz.length) this.#placed = new Float32Array(xyz.length);
    const placed = this.#placed;
    const { right, up, near } = axesOf(camera);
    const { width, height } = this.#size;
    const scale = Math.min(width, height) / 2 / camera.reach;
    const [x0, y0, z0] = camera.target;
    for (let i = 0; i < xyz.length; i += 3) {
      const [x, y, z] = [(xyz[i] ?? 0) - x0, (xyz[i + 1] ?? 0) - y0, (xyz[i + 2] ?? 0) - z0];
      placed[i] = width / 2 + scale * (x * right[0] + y * right[1]);
      placed[i + 1] = height / 2 - scale * (x * up[0] + y * up[1] + z * up[2]);
      placed[i + 2] = x * near[0] + y * near[1] + z * near[2];
    }
  }

  #drawPoints({ rgb }: Scene, side: number, every: number): void {
    const [placed, pixels, depths] = [this.#placed, this.pixels, this.#depth];
    const { width, height } = this.#size;
    const half = side / 2;
    for (let i = 0; i < placed.length; i += 3 * every) {
      const [left, top] = [Math.round((placed[i] ?? 0) - half), Math.round((placed[i + 1] ?? 0) - half)];
      if (!(left >= 0 && top >= 0 && left + side <= width && top + side <= height)) continue; // NaN, too
      const depth = placed[i + 2] ?? 0;
      const color = OPAQUE | ((rgb[i + 2] ?? 0) << 16) | ((rgb[i + 1] ?? 0) << 8) | (rgb[i] ?? 0);
      for (let y = top; y < top + side; y += 1) {
        for (let at = y * width + left; at < y * width + left + side; at += 1) {
          if (depth < (depths[at] ?? 0)) continue;
          depths[at] = depth;
          pixels[at] = color;
        }
      }
    }
  }

  #drawFaces(scene: Scene, faces: ArrayLike<number>, every: number): void {
    for (let i = 0; i + 2 < faces.length; i += 3 * every) this.#drawFace(scene, 3 * (faces[i] ?? 0), 3 * (faces[i + 1] ?? 0), 3 * (faces[i + 2] ?? 0));
  }

  /** Fills the pixels whose centres are inside of a triangle, of either side, shaded by its slope. */
  #drawFace({ xyz, rgb }: Scene, a: number, b: number, c: number): void {
    const [placed, pixels, depths] = [this.#placed, this.pixels, this.#depth];
    const { width, height } = this.#size;
    const [ax, ay, bx, by, cx, cy] = [placed[a] ?? 0, placed[a + 1] ?? 0, placed[b] ?? 0, placed[b + 1] ?? 0, placed[c] ?? 0, placed[c + 1] ?? 0];
    const area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
    if (area === 0 || Number.isNaN(area)) return;
    const [left, right] = [Math.max(0, Math.ceil(Math.min(ax, bx, cx) - 0.5)), Math.min(width - 1, Math.floor(Math.max(ax, bx, cx) - 0.5))];
    const [top, bottom] = [Math.max(0, Math.ceil(Math.min(ay, by, cy) - 0.5)), Math.min(height - 1, Math.floor(Math.max(ay, by, cy) - 0.5))];
    if (left > right || top > bottom) return;
    const light = lightOf(xyz, a, b, c);
    const shade = (channel: number) => Math.min(255, Math.round((rgb[a + channel] ?? 0) * light));
    const color = OPAQUE | (shade(2) << 16) | (shade(1) << 8) | shade(0);
    const [da, db, dc] = [placed[a + 2] ?? 0, placed[b + 2] ?? 0, placed[c + 2] ?? 0];
    for (let y = top; y <= bottom; y += 1) {
      for (let x = left; x <= right; x += 1) {
        const [px, py] = [x + 0.5, y + 0.5];
        const wb = ((px - ax) * (cy - ay) - (py - ay) * (cx - ax)) / area;
        const wc = ((bx - ax) * (py - ay) - (by - ay) * (px - ax)) / area;
        const wa = 1 - wb - wc;
        if (wa < 0 || wb < 0 || wc < 0) continue;
        const [at, depth] = [y * width + x, wa * da + wb * db + wc * dc];
        if (depth < (depths[at] ?? 0)) continue;
        depths[at] = depth;
        pixels[at] = color;
      }
    }
  }
}

function lightOf(xyz: ArrayLike<number>, a: number, b: number, c: number): number {
  const edge = (from: number, to: number, axis: number) => (xyz[to + axis] ?? 0) - (xyz[from + axis] ?? 0);
  const [ux, uy, uz, vx, vy, vz] = [edge(a, b, 0), edge(a, b, 1), edge(a, b, 2), edge(a, c, 0), edge(a, c, 1), edge(a, c, 2)];
  const normal = [uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx] as const;
  const length = Math.hypot(...normal);
  if (length === 0) return AMBIENT;
  return AMBIENT + (DIFFUSE * Math.abs(normal[0] * LIGHT[0] + normal[1] * LIGHT[1] + normal[2] * LIGHT[2])) / length;
}
