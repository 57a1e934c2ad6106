/**
 * Drawing shapes on a canvas: boxes, polygons, skeletons and their labels.
 *
 * Only visible shapes are drawn. Boxes are drawn as rectangles, or rasterised when there are more than a
 * thousand (box-raster.ts). Outlines and skeletons of one style share a path. Opacity applies to fills only.
 */
import type { Shape } from "../lenses";
import type { OverlayStyle } from "./layers";
import { rasterizeBoxes } from "./box-raster";
import { type Extent, type Fit, isInSight, type Point } from "../canvas/geometry";
import { LABEL_HEIGHT, placeLabels } from "./labels";
import { eachBoxInSight, FAINT, batchesOf, type Batch } from "./batches";
import { patternFill } from "./pattern-fill";

const STROKE = 2;
const DASH = [6, 4];
const FILL = 0.25; // of the opacity: boxes overlap
const PATTERN_FILL = 0.75; // the figure of a pattern covers half, and must be seen
const DENSE = 1000; // boxes in sight
const JOINT = 3;
const LABEL_FONT = "600 11px 'Inter Variable', system-ui, sans-serif";
const LABEL_INK = "#06101f"; // on every class colour: contrast of at least 4.5

/** The area to draw on, from the canvas origin, and whether it has room for labels. */
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
  const batches = batchesOf(shapes, style.palette);
  const isDense = hasDenseBoxes(batches, fit, area);
  context.lineWidth = STROKE;
  context.lineJoin = "miter"; // for boxes: round joins take the slow path
  if (isDense) rasterizeBoxes(context, batches, fit, area);
  for (const look of batches) {
    context.setLineDash(look.isDashed ? DASH : []);
    context.fillStyle = patternFill(context, look.color, look.pattern);
    context.strokeStyle = look.color;
    const strength = { lines: look.isFaint ? FAINT : 1, fills: look.isFaint ? 0 : (look.pattern === "plain" ? FILL : PATTERN_FILL) * style.opacity };
    if (!isDense) drawBoxes(context, look.boxes, { fit, area }, strength);
    if (look.others.length > 0) drawPaths(context, look.others.filter((shape) => isInSight(shape, fit, area)), fit, strength);
  }
  context.globalAlpha = 1;
  context.setLineDash([]);
  if (hasLabels) drawLabels(context, shapes, fit, style, area);
}

function hasDenseBoxes(batches: readonly Batch[], fit: Fit, area: Extent): boolean {
  let inSight = 0;
  for (const { boxes } of batches) eachBoxInSight(boxes, fit, area, () => (inSight += 1));
  return inSight > DENSE;
}

/** Opacities. */
interface Strength {
  lines: number;
  fills: number;
}

function drawBoxes(
  context: CanvasRenderingContext2D,
  boxes: Float64Array,
  { fit, area }: { fit: Fit; area: Extent },
  { lines, fills }: Strength,
): void {
  context.globalAlpha = fills;
  if (fills > 0) eachBoxInSight(boxes, fit, area, (x, y, width, height) => context.fillRect(x, y, width, height));
  context.globalAlpha = lines;
  eachBoxInSight(boxes, fit, area, (x, y, width, height) => context.strokeRect(x, y, width, height));
}

/** Draws outlines and skeletons of one batch, as one path per kind. */
function drawPaths(context: CanvasRenderingContext2D, shapes: readonly Shape[], fit: Fit, { lines, fills }: Strength): void {
  const paths: Paths = { fill: new Path2D(), lines: new Path2D(), dots: new Path2D(), rings: new Path2D() };
  for (const shape of shapes) trace(shape, fit, paths);
  context.globalAlpha = fills;
  context.fill(paths.fill);
  context.globalAlpha = lines;
  context.stroke(paths.fill);
  context.stroke(paths.lines);
  context.setLineDash([]);
  context.fillStyle = context.strokeStyle; // a joint is too small for a pattern
  context.fill(paths.dots);
  context.stroke(paths.rings);
}

interface Paths {
  fill: Path2D;
  lines: Path2D;
  dots: Path2D;
  rings: Path2D;
}

function trace(shape: Shape, fit: Fit, paths: Paths): void {
  const { path } = shape;
  const x = (value: number) => fit.x + value * fit.scale;
  const y = (value: number) => fit.y + value * fit.scale;
  if (path.kind === "outline") {
    const points = clockwise(path.points);
    points.forEach(([left, top], i) => (i === 0 ? paths.fill.moveTo(x(left), y(top)) : paths.fill.lineTo(x(left), y(top))));
    paths.fill.closePath();
  } else if (path.kind === "wires") {
    for (const [from, to] of path.lines) {
      paths.lines.moveTo(x(from[0]), y(from[1]));
      paths.lines.lineTo(x(to[0]), y(to[1]));
    }
  } else if (path.kind === "skeleton") {
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

/** Outlines in one path need the same winding order, or nested ones become holes. */
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
