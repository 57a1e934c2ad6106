/** The objects over one image, the one that is selected, and what is done to it. Created in a component. */
import type { CellValue, TensorInfo } from "../../../api/client";
import type { Extent, Point } from "../../../canvas/geometry";
import { handlesOf, labelsOf, lensOf, type Gesture, type Shape } from "../../../lenses";
import { addStep, editableTensors, labelStep, removeStep, shapeStep } from "../../../state/edits/objects";
import type { Step } from "../../../state/edits/steps";
import type { Shown, Viewer } from "../../../state/viewer.svelte";

export interface Selected {
  tensor: string;
  object: number;
  /** A corner, a vertex or a joint of it. */
  handle: number | null;
}

interface EditedObject {
  tensor: TensorInfo;
  object: number;
  shape: Shape;
}

/** The values of a gesture that is not done yet, by tensor. */
export type Draft = Readonly<Record<string, CellValue>>;

interface Over {
  viewer: Viewer;
  shown: Shown;
  imageTensor: TensorInfo;
  extent: Extent;
  draft: Draft;
}

export class ShapeEditing {
  /** The tensor that new objects are of. */
  chosen = $state<string | null>(null);
  selected = $state.raw<Selected | null>(null);
  /** The corners of a polygon, or the first of a box, that is being drawn. */
  drawing = $state.raw<readonly Point[]>([]);
  /** The class of the next object. */
  code = $state(0);
  note = $state("");

  readonly #over: () => Over;
  readonly #ondraft: (draft: Draft) => void;
  #row = $derived.by(() => ({ ...this.#over().shown.row, ...this.#over().draft }));
  tensors: TensorInfo[] = $derived.by(() => editableTensors(this.#over().viewer.tensors, this.#over().imageTensor));
  active: TensorInfo | null = $derived.by(() => this.tensors.find(({ name }) => name === this.chosen) ?? this.tensors.find(({ per }) => per == null) ?? null);
  objects: EditedObject[] = $derived.by(() => this.tensors.flatMap((tensor) => this.#shapesOf(tensor).map((shape, object) => ({ tensor, object, shape }))));
  current: EditedObject | null = $derived.by(() => this.objects.find(({ tensor, object }) => tensor.name === this.selected?.tensor && object === this.selected.object) ?? null);
  labels: TensorInfo | null = $derived.by(() => {
    const tensor = this.current?.tensor ?? this.active;
    return tensor === null ? null : labelsOf(tensor, this.#over().viewer.tensors);
  });
  /** The class of the selected object, else of the next one. */
  className: string = $derived.by(() => {
    const codes = this.labels === null ? null : this.#over().shown.row[this.labels.name];
    const code = this.current === null ? this.code : Array.isArray(codes) ? codes[this.current.object] : null;
    return typeof code === "number" ? (this.labels?.names?.[code] ?? String(code)) : "class";
  });

  constructor(over: () => Over, ondraft: (draft: Draft) => void) {
    this.#over = over;
    this.#ondraft = ondraft;
  }

  get isReady(): boolean {
    const { viewer, shown } = this.#over();
    return viewer.edits.isReady && shown.row._row !== null;
  }

  /** Another row, or another image: nothing of it is selected. */
  forget(): void {
    [this.selected, this.drawing, this.note] = [null, [], ""];
    this.#ondraft({});
  }

  select(object: EditedObject): void {
    [this.selected, this.note] = [{ tensor: object.tensor.name, object: object.object, handle: null }, ""];
  }

  selectNext(by: 1 | -1): void {
    const from = this.current === null ? (by > 0 ? -1 : 0) : this.objects.indexOf(this.current);
    const next = this.objects.at((from + by + this.objects.length) % Math.max(1, this.objects.length));
    if (next !== undefined) this.select(next);
  }

  selectNextHandle(): void {
    const { current, selected } = this;
    if (current !== null && selected !== null) this.selected = { ...selected, handle: ((selected.handle ?? -1) + 1) % handlesOf(current.shape).length };
  }

  /** Discards what was begun, then the handle, then the object; false where there is none of them. */
  leave(): boolean {
    this.note = "";
    if (this.drawing.length > 0) this.drawing = [];
    else if (this.selected?.handle != null) this.selected = { ...this.selected, handle: null };
    else if (this.selected !== null) this.selected = null;
    else return false;
    return true;
  }

  apply(gesture: Gesture): boolean {
    const { shown, extent } = this.#over();
    return this.current !== null && this.#put(shapeStep(shown.row, this.current.tensor, gesture, extent));
  }

  /** Puts the numbers of a damaged box right. */
  mend(): void {
    if (this.current !== null) this.apply({ kind: "mend", object: this.current.object });
  }

  /** Shows what a gesture would do. */
  preview(gesture: Gesture): void {
    const { shown, extent } = this.#over();
    const [part] = this.current === null || !this.isReady ? [] : (shapeStep(shown.row, this.current.tensor, gesture, extent) ?? []);
    if (part !== undefined) this.#ondraft({ [part.tensor]: part.value });
  }

  add(points: readonly Point[]): void {
    const { active } = this;
    this.drawing = [];
    if (active === null) return;
    const object = this.#shapesOf(active).length;
    if (this.#put(addStep(active, { kind: "add", points }, this.code, this.#context))) this.selected = { tensor: active.name, object, handle: null };
  }

  /** Ends the polygon that is being drawn. */
  close(): void {
    if (this.drawing.length > 2) this.add(this.drawing);
    else if (this.drawing.length > 0) this.note = "A polygon needs three corners.";
  }

  /** All joints of an object, in a line around a point: each is moved to its place. */
  addJoints([x, y]: Point): void {
    const { shown, extent } = this.#over();
    const value = this.active === null ? null : shown.row[this.active.name];
    const known = Array.isArray(value) && Array.isArray(value[0]) ? value[0].length : 0;
    const count = this.active?.names?.length || known;
    const step = extent.width / (2 * Math.max(1, count));
    if (count === 0) this.note = "How many points an object has is not known.";
    else this.add(Array.from({ length: count }, (_, i): Point => [x + (i - (count - 1) / 2) * step, y]));
  }

  /** The selected vertex goes; where none is selected, the object. */
  remove(): void {
    const { current, selected } = this;
    if (current === null || selected === null) return;
    const { kind } = current.shape.path;
    const isPoint = kind !== "box" && selected.handle !== null;
    if (isPoint && kind === "outline" && this.apply({ kind: "cut", object: current.object, handle: selected.handle ?? 0 })) this.selected = { ...selected, handle: null };
    else if (isPoint) this.note = kind === "outline" ? "A polygon keeps three corners: Esc, then Del deletes all of it." : "A point is not deleted: h hides it, and Esc, then Del deletes its object.";
    else if (this.#put(removeStep(current.tensor, current.object, this.#context))) this.selected = null;
  }

  label(code: number): void {
    this.code = code;
    if (this.current !== null && this.labels !== null) this.#put(labelStep(this.#over().shown.row, this.labels, this.current.object, code));
  }

  /** The selected object in words: its class, tensor and place, and the joint. */
  describe(): string {
    const { current } = this;
    if (current === null) return "";
    const { tensor, object, shape } = current;
    const round = (value: number) => Math.round(value * 10) / 10;
    const place = `${round(shape.width)} × ${round(shape.height)} at ${round(shape.x)}, ${round(shape.y)}`;
    return [shape.label, `${tensor.name} ${object}`, place, shape.damage ?? "", this.#describeJoint(current)].filter((part) => part !== "").join(" · ");
  }

  #describeJoint({ tensor, shape: { path } }: EditedObject): string {
    const handle = this.selected?.handle ?? null;
    const joint = path.kind === "skeleton" && handle !== null ? path.joints[handle] : undefined;
    if (joint === undefined || handle === null) return "";
    return `${tensor.names?.[handle] ?? `point ${handle}`}: ${!joint.isShown ? "not labelled" : joint.isSeen ? "seen" : "hidden"}`;
  }

  get #context() {
    const { viewer, shown, extent } = this.#over();
    return { row: shown.row, tensors: viewer.tensors, classes: viewer.style.classes, image: extent };
  }

  #shapesOf(tensor: TensorInfo): Shape[] {
    const value = this.#row[tensor.name];
    return value == null ? [] : (lensOf(tensor).shapes?.(value, tensor, { ...this.#context, row: this.#row }) ?? []);
  }

  #put(step: Step | string | undefined): boolean {
    this.#ondraft({});
    this.note = typeof step === "string" ? step : "";
    if (step === undefined || typeof step === "string" || !this.isReady) return false;
    void this.#over().viewer.edits.do(step);
    return true;
  }
}
