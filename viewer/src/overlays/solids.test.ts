import { expect, test } from "vitest";
import type { Row, TensorInfo } from "../api/client";
import { ClassTable } from "../classes/class-table";
import { COLORS } from "../classes/palette";
import { cornersOf } from "../lenses/bbox3d";
import type { OverlayStyle } from "./layers";
import { collectSolids, wiresOf } from "./solids";

const tensor = (name: string, kind: string, more: Partial<TensorInfo> = {}): TensorInfo => ({ name, kind, type: kind, dtype: null, shape: null, nullable: false, media_type: null, picture: false, ...more });
const points = tensor("points", "point_cloud");
const boxes = tensor("boxes", "bbox_3d", { of: "points", format: "xyzlwhr" });
const tensors = [points, boxes, tensor("labels", "class_label", { per: "boxes", names: ["car", "person"], shape: [null] }), tensor("seen", "bbox_3d", { of: "image" })];
const row: Row = { _row: 0, _row_id: null, boxes: [[0, 0, 0, 4, 2, 2, 0], [1, 1, 1, 2, 2, 2, 0], [0, 0, "NaN", 1, 1, 1, 0]], labels: [0, 1, 0], seen: [[0, 0, 0, 1, 1, 1, 0]] };
const style = (more: Partial<OverlayStyle> = {}): OverlayStyle => ({
  hiddenTensors: new Set(),
  hiddenCodes: new Set(),
  classes: new ClassTable(tensors),
  palette: { color: (code) => COLORS[code ?? 0] ?? COLORS[0], pattern: () => "plain" },
  opacity: 0.5,
  ...more,
});
const collect = (more?: Partial<OverlayStyle>) => collectSolids(row, tensors, points, style(more));

test("boxes of a scene have their classes, and hidden ones are left out", () => {
  expect(collect().visible.map(({ label }) => label)).toEqual(["car", "person"]);
  expect(collect().missing).toBe(1); // a number of it is NaN
  const car = collect().visible[0]?.code ?? -1;
  expect(collect({ hiddenCodes: new Set([car]) })).toMatchObject({ visible: [{ label: "person" }], missing: 0 });
  expect(collect({ hiddenTensors: new Set(["boxes"]) })).toEqual({ visible: [], missing: 0 });
  const many = { ...row, boxes: { $summary: "array", shape: [5000, 7] } } as unknown as Row;
  expect(collectSolids(many, tensors, points, style())).toEqual({ visible: [], missing: 5000 });
});

test("a box is twelve lines with the bounds of its corners", () => {
  const [box] = wiresOf(collect().visible, ([x, y]) => [10 * x, 10 * y]);
  expect(box).toMatchObject({ x: -20, y: -10, width: 40, height: 20, label: "car" });
  expect(box?.path.kind === "wires" && box.path.lines.length).toBe(12);
});

test("a box turns about its own centre, and numbers that are no box have no corners", () => {
  const quarter = cornersOf([5, 5, 5, 4, 2, 2, Math.PI / 2], "xyzlwhr")?.[0]?.map((value) => +value.toFixed(6));
  expect(quarter).toEqual([6, 3, 4]); // its length is along y
  const doubled = cornersOf([5, 5, 5, 4, 2, 2, Math.SQRT2, 0, 0, Math.SQRT2], "xyzlwhq")?.[0]?.map((value) => +value.toFixed(6));
  expect(doubled).toEqual(quarter); // by a quaternion of another length
  expect(cornersOf([0, 0, 0, 2, 2, 2, 0, 0, 0, 0], "xyzlwhq")?.[0]).toEqual([-1, -1, -1]);
  for (const [value, format] of [[[1, 2], "xyzlwhr"], [null, "corners"], [[[0, 0, 0]], "corners"], [[0, 0, 0, 1, 1, 1, "Infinity"], "xyzlwhr"]] as const) expect(cornersOf(value, format)).toBeNull();
});
