/**
 * Drawing shapes on a canvas: boxes, outlines, skeletons, and the words on them.
 *
 * Boxes are drawn one by one, as rectangles: five thousand take 9 ms, as one path of each colour
 * they take 55 (benchmarks/viewer). Outlines and skeletons of one colour are one path. Fills follow
 * the opacity, lines never do.
 */
import type { Bounds, Point, Shape } from "../lenses";
import type { OverlayStyle } from "./collect";
import { placeBounds, type Fit } from "./fit";
import { LABEL_HEIGHT, placeLabels } from "./labels";

const STROKE = 2;
const DASH = [6, 4];
const FILL = 0.25; // of the opacity: boxes lie over each other
const JOINT = 3;
const LABEL_FONT = "600 11px 'Inter Variable', system-ui, sans-serif";
const LABEL_INK = "#06101f"; // dark on every class colour: contrast 4.5 at least

export function drawShapes(
  context: CanvasRenderingContext2D,
  shapes: readonly Shape[],
  fit: Fit,
  style: OverlayStyle,
  options: { labelsWithin: number | null },
): void {
  context.lineWidth = STROKE;
  context.lineJoin = "miter"; // of boxes; round corners are a path, and slow
  for (const [key, group] of groupByLook(shapes, style)) {
    const color = key.slice(1);
    const fill = new Path2D();
    const dots = new Path2D();
    const rings = new Path2D();
    const lines = new Path2D();
    const boxes: Bounds[] = [];
    for (const shape of group) trace(shape, fit, { fill, lines, dots, rings, boxes });
    context.setLineDash(key.startsWith("-") ? DASH : []);
    context.fillStyle = color;
    context.strokeStyle = color;
    context.globalAlpha = FILL * style.opacity;
    for (const { x, y, width, height } of boxes) context.fillRect(x, y, width, height);
    context.fill(fill);
    context.globalAlpha = 1;
    for (const { x, y, width, height } of boxes) context.strokeRect(x, y, width, height);
    context.stroke(fill);
    context.stroke(lines);
    context.setLineDash([]);
    context.fill(dots);
    context.stroke(rings);
  }
  if (options.labelsWithin !== null) drawLabels(context, shapes, fit, style, options.labelsWithin);
}

/** Shapes by "-" or "+" (dashed or not) and their colour. */
function groupByLook(shapes: readonly Shape[], style: OverlayStyle): Map<string, Shape[]> {
  const groups = new Map<string, Shape[]>();
  for (const shape of shapes) {
    const key = `${shape.isPredicted ? "-" : "+"}${style.palette.color(shape.code)}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [shape]);
    else group.push(shape);
  }
  return groups;
}

interface Paths {
  fill: Path2D;
  lines: Path2D;
  dots: Path2D;
  rings: Path2D;
  boxes: Bounds[];
}

function trace(shape: Shape, fit: Fit, paths: Paths): void {
  const x = (value: number) => fit.x + value * fit.scale;
  const y = (value: number) => fit.y + value * fit.scale;
  const { path } = shape;
  if (path.kind === "box") {
    paths.boxes.push(placeBounds(shape, fit));
  } else if (path.kind === "outline") {
    const points = clockwise(path.points);
    points.forEach(([left, top], i) => (i === 0 ? paths.fill.moveTo(x(left), y(top)) : paths.fill.lineTo(x(left), y(top))));
    paths.fill.closePath();
  } else {
    for (const [from, to] of path.bones) {
      const [a, b] = [path.joints[from], path.joints[to]];
      if (a?.isShown !== true || b?.isShown !== true) continue;
      paths.lines.moveTo(x(a.at[0]), y(a.at[1]));
      paths.lines.lineTo(x(b.at[0]), y(b.at[1]));
    }
    for (const joint of path.joints) {
      if (!joint.isShown) continue;
      const target = joint.isSeen ? paths.dots : paths.rings;
      target.moveTo(x(joint.at[0]) + JOINT, y(joint.at[1]));
      target.arc(x(joint.at[0]), y(joint.at[1]), JOINT, 0, 2 * Math.PI);
    }
  }
}

/** Outlines of one path must turn one way, or one inside another would be a hole. */
export function clockwise(points: readonly Point[]): readonly Point[] {
  let area = 0;
  points.forEach(([x, y], i) => {
    const [nextX, nextY] = points[(i + 1) % points.length] ?? [x, y];
    area += x * nextY - nextX * y;
  });
  return area < 0 ? [...points].reverse() : points;
}

function drawLabels(
  context: CanvasRenderingContext2D,
  shapes: readonly Shape[],
  fit: Fit,
  style: OverlayStyle,
  within: number,
): void {
  context.font = LABEL_FONT;
  context.textBaseline = "middle";
  const widths = new Map<string, number>();
  const measure = (text: string) => {
    const width = widths.get(text) ?? context.measureText(text).width;
    widths.set(text, width);
    return width;
  };
  for (const { place, shape, text } of placeLabels(shapes, fit, within, measure)) {
    context.fillStyle = style.palette.color(shape.code);
    context.fillRect(place.x, place.y, place.width, place.height);
    context.fillStyle = LABEL_INK;
    context.fillText(text, place.x + 4, place.y + LABEL_HEIGHT / 2 + 0.5);
  }
}
