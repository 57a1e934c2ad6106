/**
 * Drawing shapes on a canvas: boxes, outlines, skeletons, and the words on them.
 *
 * Only what is in sight is drawn. Boxes are drawn one by one, as rectangles: as one path of each
 * colour they take six times as long. Outlines and skeletons of one colour are one path. Fills
 * follow the opacity, lines never do. A crowd has thin lines and no fills: a thousand of them over
 * each other are a fog, and most of the time that five thousand boxes take (benchmarks/viewer).
 */
import type { Bounds, Extent, Point, Shape } from "../lenses";
import type { OverlayStyle } from "./collect";
import { isInSight, placeBounds, type Fit } from "./fit";
import { LABEL_HEIGHT, placeLabels } from "./labels";

const STROKE = 2;
const DASH = [6, 4];
const FILL = 0.25; // of the opacity: boxes lie over each other
const CROWD = 1000; // boxes in sight
const JOINT = 3;
const LABEL_FONT = "600 11px 'Inter Variable', system-ui, sans-serif";
const LABEL_INK = "#06101f"; // dark on every class colour: contrast 4.5 at least

/** What of the canvas is drawn on, from its origin, and whether there is room for words. */
export interface View {
  area: Extent;
  hasLabels: boolean;
}

export function drawShapes(
  context: CanvasRenderingContext2D,
  shapes: readonly Shape[],
  fit: Fit,
  style: OverlayStyle,
  { area, hasLabels }: View,
): void {
  const inSight = shapes.filter((shape) => isInSight(shape, fit, area));
  const isCrowd = inSight.length > CROWD;
  context.lineWidth = STROKE;
  context.lineJoin = "miter"; // of boxes; round corners are a path, and slow
  for (const [look, group] of groupByLook(inSight, style)) {
    const isDashed = look.startsWith(DASHED);
    const color = isDashed ? look.slice(DASHED.length) : look;
    const fill = new Path2D();
    const dots = new Path2D();
    const rings = new Path2D();
    const lines = new Path2D();
    const boxes: Bounds[] = [];
    for (const shape of group) trace(shape, fit, { fill, lines, dots, rings, boxes });
    context.setLineDash(isDashed ? DASH : []);
    context.fillStyle = color;
    context.strokeStyle = color;
    if (isCrowd) drawThin(context, boxes);
    else drawBoxes(context, boxes, FILL * style.opacity);
    context.globalAlpha = FILL * style.opacity;
    context.fill(fill);
    context.globalAlpha = 1;
    context.stroke(fill);
    context.stroke(lines);
    context.setLineDash([]);
    context.fill(dots);
    context.stroke(rings);
  }
  if (hasLabels) drawLabels(context, shapes, fit, style, area);
}

function drawBoxes(context: CanvasRenderingContext2D, boxes: readonly Bounds[], opacity: number): void {
  context.globalAlpha = opacity;
  for (const { x, y, width, height } of boxes) context.fillRect(x, y, width, height);
  context.globalAlpha = 1;
  for (const { x, y, width, height } of boxes) context.strokeRect(x, y, width, height);
}

/** Lines of one pixel, on the pixels. */
function drawThin(context: CanvasRenderingContext2D, boxes: readonly Bounds[]): void {
  context.lineWidth = 1;
  for (const { x, y, width, height } of boxes) {
    context.strokeRect(Math.round(x) + 0.5, Math.round(y) + 0.5, Math.round(width), Math.round(height));
  }
  context.lineWidth = STROKE;
}

const DASHED = "dashed ";

/** Shapes by their colour, dashed ones apart. */
function groupByLook(shapes: readonly Shape[], style: OverlayStyle): Map<string, Shape[]> {
  const groups = new Map<string, Shape[]>();
  for (const shape of shapes) {
    const color = style.palette.color(shape.code);
    const look = shape.isPredicted ? DASHED + color : color;
    const group = groups.get(look);
    if (group === undefined) groups.set(look, [shape]);
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
  const { path } = shape;
  if (path.kind === "box") {
    paths.boxes.push(placeBounds(shape, fit));
    return;
  }
  const x = (value: number) => fit.x + value * fit.scale;
  const y = (value: number) => fit.y + value * fit.scale;
  if (path.kind === "outline") {
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
  area: Extent,
): void {
  context.font = LABEL_FONT;
  context.textBaseline = "middle";
  const widths = new Map<string, number>();
  const measure = (text: string) => {
    const width = widths.get(text) ?? context.measureText(text).width;
    widths.set(text, width);
    return width;
  };
  for (const { place, shape, text } of placeLabels(shapes, fit, area, measure)) {
    context.fillStyle = style.palette.color(shape.code);
    context.fillRect(place.x, place.y, place.width, place.height);
    context.fillStyle = LABEL_INK;
    context.fillText(text, place.x + 4, place.y + LABEL_HEIGHT / 2 + 0.5);
  }
}
