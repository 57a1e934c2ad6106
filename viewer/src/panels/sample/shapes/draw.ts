/** Drawing of what a hand edits: the selected object with its handles, and what is being drawn. */
import { type Fit, placeBounds, type Point } from "../../../canvas/geometry";
import { handlesOf, type Shape } from "../../../lenses";

const HANDLE = 4; // half of its side, in pixels of the screen
const LINE = "#ffffff";
const INK = "#06101f";

interface Selection {
  shape: Shape | null;
  handle: number | null;
  drawing: readonly Point[];
  pointer: Point | null;
  isBox: boolean;
  fit: Fit;
}

export function drawSelection(context: CanvasRenderingContext2D, { shape, handle, drawing, pointer, isBox, fit }: Selection): void {
  const place = ([x, y]: Point): Point => [fit.x + x * fit.scale, fit.y + y * fit.scale];
  context.lineWidth = 1.5;
  if (shape !== null) {
    const { x, y, width, height } = placeBounds(shape, fit);
    context.setLineDash([4, 3]);
    context.strokeStyle = LINE;
    context.strokeRect(x, y, width, height);
    context.setLineDash([]);
    handlesOf(shape).forEach((point, i) => drawHandle(context, place(point), i === handle));
  }
  const [first] = drawing;
  if (first === undefined || pointer === null) return;
  context.strokeStyle = LINE;
  context.beginPath();
  if (isBox) {
    const [a, b] = [place(first), place(pointer)];
    context.rect(Math.min(a[0], b[0]), Math.min(a[1], b[1]), Math.abs(a[0] - b[0]), Math.abs(a[1] - b[1]));
  } else for (const point of [...drawing, pointer]) context.lineTo(...place(point));
  context.stroke();
  if (!isBox) for (const point of drawing) drawHandle(context, place(point), false);
}

function drawHandle(context: CanvasRenderingContext2D, [x, y]: Point, isChosen: boolean): void {
  context.fillStyle = isChosen ? INK : LINE;
  context.strokeStyle = isChosen ? LINE : INK;
  context.fillRect(x - HANDLE, y - HANDLE, 2 * HANDLE, 2 * HANDLE);
  context.strokeRect(x - HANDLE, y - HANDLE, 2 * HANDLE, 2 * HANDLE);
}
