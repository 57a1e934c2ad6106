/** What lies over an image: the shapes and masks of its row that are not hidden. */
import type { Extent } from "../canvas/geometry";
import type { Row, TensorInfo } from "../api/client";
import { isMask, lensOf, type Pixel, type Shape } from "../lenses";
import type { ClassTable } from "../classes/class-table";

/** What is shown of the overlays, and how: one object for the grid, the row and the closest look. */
export interface OverlayStyle {
  hiddenTensors: ReadonlySet<string>;
  hiddenCodes: ReadonlySet<number>;
  classes: ClassTable;
  palette: { color(code: number | null, object?: number): string };
  /** Of fills, 0 to 1; lines are always drawn whole. */
  opacity: number;
}

export interface Layer {
  tensor: TensorInfo;
  pixel: (code: number) => Pixel | null;
}

export function collectShapes(
  row: Row,
  tensors: TensorInfo[],
  image: { tensor: TensorInfo; extent: Extent },
  style: OverlayStyle,
): Shape[] {
  const context = { row, tensors, image: image.extent, classes: style.classes };
  return tensors.flatMap((tensor) => {
    const value = row[tensor.name];
    if (value === undefined || value === null || !liesOn(tensor, image.tensor, style)) return [];
    const shapes = lensOf(tensor).shapes?.(value, tensor, context) ?? [];
    return shapes.filter((shape) => shape.code === null || !style.hiddenCodes.has(shape.code));
  });
}

/** The masks that are drawn over an image, in the schema's order. */
export function maskTensors(tensors: TensorInfo[], imageTensor: TensorInfo | null, style: OverlayStyle): TensorInfo[] {
  if (imageTensor === null) return [];
  return tensors.filter((tensor) => isMask(tensor) && liesOn(tensor, imageTensor, style));
}

/** What the codes of a mask mean in this row; a hidden class means nothing. */
export function layerOf(tensor: TensorInfo, row: Row, tensors: TensorInfo[], style: OverlayStyle): Layer {
  const meaning = lensOf(tensor).pixels?.(tensor, { row, tensors, classes: style.classes }) ?? (() => null);
  const pixel = (code: number) => {
    const found = meaning(code);
    return found?.code != null && style.hiddenCodes.has(found.code) ? null : found;
  };
  return { tensor, pixel };
}

function liesOn(tensor: TensorInfo, imageTensor: TensorInfo, style: OverlayStyle): boolean {
  const isElsewhere = tensor.of != null && tensor.of !== imageTensor.name;
  return !isElsewhere && !style.hiddenTensors.has(tensor.name);
}
