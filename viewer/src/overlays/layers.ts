/** Overlays of an image: the visible shapes and masks of its row. */
import type { Extent } from "../canvas/geometry";
import type { Row, TensorInfo } from "../api/client";
import { imageOf, isMask, isOverlay, lensOf, type Pixel, type Shape } from "../lenses";
import type { ClassTable } from "../classes/class-table";
import type { Pattern } from "../classes/palette";

/** Which overlays are visible, and how they are drawn: shared by the grid, the row panel and the detail view. */
export interface OverlayStyle {
  hiddenTensors: ReadonlySet<string>;
  hiddenCodes: ReadonlySet<number>;
  classes: ClassTable;
  palette: { color(code: number | null, object?: number): string; pattern(code: number | null, object?: number): Pattern };
  /** Opacity of fills, 0 to 1; lines are always opaque. */
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
    if (value === undefined || value === null || !liesOn(tensor, image.tensor, tensors, style)) return [];
    const shapes = lensOf(tensor).shapes?.(value, tensor, context) ?? [];
    return shapes.filter((shape) => shape.code === null || !style.hiddenCodes.has(shape.code));
  });
}

/** The masks that are drawn over an image, in the schema's order. */
export function maskTensors(tensors: TensorInfo[], imageTensor: TensorInfo | null, style: OverlayStyle): TensorInfo[] {
  if (imageTensor === null) return [];
  return tensors.filter((tensor) => isMask(tensor) && liesOn(tensor, imageTensor, tensors, style));
}

/** The meaning of a mask's codes in this row; hidden classes map to null. */
export function layerOf(tensor: TensorInfo, row: Row, tensors: TensorInfo[], style: OverlayStyle): Layer {
  const meaning = lensOf(tensor).pixels?.(tensor, { row, tensors, classes: style.classes }) ?? (() => null);
  const pixel = (code: number) => {
    const found = meaning(code);
    return found?.code != null && style.hiddenCodes.has(found.code) ? null : found;
  };
  return { tensor, pixel };
}

function liesOn(tensor: TensorInfo, imageTensor: TensorInfo, tensors: readonly TensorInfo[], style: OverlayStyle): boolean {
  const image = imageOf(tensor, tensors);
  return isOverlay(tensor) && (image ?? imageTensor.name) === imageTensor.name && !style.hiddenTensors.has(tensor.name);
}
