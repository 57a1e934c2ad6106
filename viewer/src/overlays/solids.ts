/** Boxes in space over a scene of points or triangles: the visible ones of its row, as shapes of a camera's view. */
import { isSummary, type Row, type TensorInfo } from "../api/client";
import type { Point } from "../canvas/geometry";
import { lensOf, type Shape, type Solid } from "../lenses";
import type { Vector } from "../players/scene/orbit";
import type { OverlayStyle } from "./layers";

const EDGES = [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4], [0, 4], [1, 5], [2, 6], [3, 7]] as const;

export interface Solids {
  visible: readonly Solid[];
  /** Boxes without a place (NaN), and those that are too many for a page. */
  missing: number;
}

export function collectSolids(row: Row, tensors: TensorInfo[], scene: TensorInfo, style: OverlayStyle): Solids {
  const found = { visible: [] as Solid[], missing: 0 };
  for (const tensor of tensors) {
    const [value, lens] = [row[tensor.name], lensOf(tensor)];
    if (lens.solids === undefined || value == null || style.hiddenTensors.has(tensor.name) || sceneOf(tensor, tensors) !== scene.name) continue;
    if (isSummary(value)) found.missing += value.shape?.[0] ?? 0;
    const shown = lens.solids(value, tensor, { row, tensors, classes: style.classes }).filter(({ code }) => code === null || !style.hiddenCodes.has(code));
    found.visible.push(...shown.filter(({ corners }) => corners !== null));
    found.missing += shown.filter(({ corners }) => corners === null).length;
  }
  return found;
}

/** What the boxes are of: the declared one, else the first points or mesh of the schema. */
function sceneOf(tensor: TensorInfo, tensors: readonly TensorInfo[]): string | null {
  return tensor.of ?? tensors.find(({ kind }) => kind === "point_cloud" || kind === "mesh")?.name ?? null;
}

/** Solids as a camera sees them. */
export function wiresOf(solids: readonly Solid[], project: (point: Vector) => Point): Shape[] {
  return solids.flatMap(({ corners, ...solid }) => {
    if (corners === null) return [];
    const points = corners.map(project);
    const [across, down] = [points.map(([x]) => x), points.map(([, y]) => y)];
    const [x, y] = [Math.min(...across), Math.min(...down)];
    const lines = EDGES.map(([from, to]) => [points[from] ?? [0, 0], points[to] ?? [0, 0]] as const);
    return [{ ...solid, x, y, width: Math.max(...across) - x, height: Math.max(...down) - y, path: { kind: "wires", lines } }];
  });
}
