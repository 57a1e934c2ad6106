/** Drawing a picture and the shapes over it on a canvas. */
import type { Row, TensorInfo } from "../api";
import { lensOf, type Extent, type Shape } from "../lenses";

export interface Palette {
  color(code: number | null): string;
}

export interface Place extends Extent {
  x: number;
  y: number;
}

export interface Fit {
  scale: number;
  x: number;
  y: number;
}

/** The picture covers the cell: its shorter side fits, the longer one is cut evenly. */
export function coverFit(picture: Extent, area: Extent): Fit {
  const scale = Math.max(area.width / picture.width, area.height / picture.height);
  return { scale, x: (area.width - picture.width * scale) / 2, y: (area.height - picture.height * scale) / 2 };
}

/** Small pictures (digits, icons) would be cut to a blur: they are shown whole. */
export function containFit(picture: Extent, area: Extent): Fit {
  const scale = Math.min(area.width / picture.width, area.height / picture.height);
  return { scale, x: (area.width - picture.width * scale) / 2, y: (area.height - picture.height * scale) / 2 };
}

export function collectShapes(
  row: Row,
  tensors: TensorInfo[],
  picture: { tensor: TensorInfo; extent: Extent },
  hidden: { tensors: ReadonlySet<string>; codes: ReadonlySet<number> },
): Shape[] {
  return tensors.flatMap((tensor) => {
    const value = row[tensor.name];
    const isElsewhere = tensor.of != null && tensor.of !== picture.tensor.name;
    if (value === undefined || value === null || isElsewhere || hidden.tensors.has(tensor.name)) return [];
    const shapes = lensOf(tensor).shapes?.(value, tensor, row, tensors, picture.extent) ?? [];
    return shapes.filter((shape) => shape.code === null || !hidden.codes.has(shape.code));
  });
}

const STROKE = 2;
const LABEL_FONT = "600 11px system-ui, sans-serif";
const LABEL_HEIGHT = 15;
const LABEL_INK = "#06101f"; // dark on every class colour: contrast 5 at least

export function drawShapes(
  context: CanvasRenderingContext2D,
  shapes: Shape[],
  fit: Fit,
  palette: Palette,
  options: { labelsWithin: number | null },
): void {
  context.lineWidth = STROKE;
  for (const shape of shapes) {
    const color = palette.color(shape.code);
    const box = placeShape(shape, fit);
    context.fillStyle = `${color}18`;
    context.fillRect(box.x, box.y, box.width, box.height);
    context.strokeStyle = color;
    context.strokeRect(box.x, box.y, box.width, box.height);
  }
  if (options.labelsWithin === null) return;
  context.font = LABEL_FONT;
  context.textBaseline = "middle";
  const measure = (label: string) => context.measureText(label).width;
  for (const { place, shape } of placeLabels(shapes, fit, options.labelsWithin, measure)) {
    context.fillStyle = palette.color(shape.code);
    context.fillRect(place.x, place.y, place.width, place.height);
    context.fillStyle = LABEL_INK;
    context.fillText(shape.label, place.x + 4, place.y + LABEL_HEIGHT / 2 + 0.5);
  }
}

/**
 * Where labels stand: above their box where there is room, else inside it. One that would cover
 * another is left out, the larger box's staying: in a crowd every word would be unreadable.
 */
export function placeLabels(
  shapes: Shape[],
  fit: Fit,
  within: number,
  measure: (label: string) => number,
): { place: Place; shape: Shape }[] {
  const placed: { place: Place; shape: Shape }[] = [];
  const largestFirst = [...shapes].sort((a, b) => b.width * b.height - a.width * a.height);
  for (const shape of largestFirst) {
    if (shape.label === "") continue;
    const box = placeShape(shape, fit);
    const width = measure(shape.label) + 8;
    const place = {
      x: Math.max(0, Math.min(box.x - STROKE / 2, within - width)),
      y: box.y >= LABEL_HEIGHT ? box.y - LABEL_HEIGHT : Math.max(0, box.y),
      width,
      height: LABEL_HEIGHT,
    };
    if (!placed.some((other) => overlaps(other.place, place))) placed.push({ place, shape });
  }
  return placed;
}

function overlaps(a: Place, b: Place): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

export function placeShape(shape: Shape, fit: Fit): Place {
  return {
    x: fit.x + shape.x * fit.scale,
    y: fit.y + shape.y * fit.scale,
    width: shape.width * fit.scale,
    height: shape.height * fit.scale,
  };
}
