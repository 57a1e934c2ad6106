/**
 * Objects over an image, as steps: a box that comes or goes takes along its label and all else that is declared `per` it.
 */
import type { CellValue, Row, TensorInfo } from "../../api/client";
import { isSummary } from "../../api/client";
import { imageOf, isPredicted, lensOf, type Gesture } from "../../lenses";
import type { Extent } from "../../canvas/geometry";
import type { Part, Step } from "./steps";

/** The tensors over an image that a hand can edit; predictions are a model's. */
export function editableTensors(tensors: readonly TensorInfo[], image: TensorInfo): TensorInfo[] {
  return tensors.filter((one) => lensOf(one).edit !== undefined && !isPredicted(one) && (imageOf(one, tensors) ?? image.name) === image.name);
}

/** A change of one object's drawing; undefined where it has none. */
export function shapeStep(row: Row, tensor: TensorInfo, gesture: Gesture, image: Extent): Step | undefined {
  const value = row[tensor.name] ?? null;
  const changed = lensOf(tensor).edit?.(value, gesture, tensor, image);
  return changed === undefined || row._row === null || isSummary(value) ? undefined : [{ tensor: tensor.name, rows: [row._row], before: [value], value: changed }];
}

export function labelStep(row: Row, labels: TensorInfo, object: number, code: number): Step | undefined {
  const codes = row[labels.name];
  if (!Array.isArray(codes) || row._row === null || object >= codes.length) return undefined;
  return [{ tensor: labels.name, rows: [row._row], before: [codes], value: codes.with(object, code) }];
}

interface Context {
  row: Row;
  tensors: TensorInfo[];
  image: Extent;
}

/** One object more, with a class; a text says why not. */
export function addStep(tensor: TensorInfo, gesture: Extract<Gesture, { kind: "add" }>, code: number, context: Context): Step | string {
  if (tensor.per != null) return `${tensor.name} has one object for each of ${tensor.per}: draw one of those.`;
  const added = shapeStep(context.row, tensor, gesture, context.image);
  if (added === undefined) return `${tensor.name} of this row cannot be edited here.`;
  return withMembers(added, tensor, context, (member, values) => {
    if (member.kind === "class_label") return [...values, code];
    const item = emptyItem(member, values);
    return item === undefined ? undefined : [...values, item];
  });
}

export function removeStep(tensor: TensorInfo, object: number, context: Context): Step | string {
  const owner = context.tensors.find(({ name }) => name === tensor.per) ?? tensor;
  const removed = shapeStep(context.row, owner, { kind: "remove", object }, context.image);
  if (removed === undefined) return `${owner.name} of this row cannot be edited here.`;
  return withMembers(removed, owner, context, (_, values) => values.toSpliced(object, 1));
}

function withMembers(step: Step, owner: TensorInfo, { row, tensors }: Context, change: (member: TensorInfo, values: CellValue[]) => CellValue[] | undefined): Step | string {
  const members = tensors.filter((one) => one.per === owner.name);
  const count = lengthOf(row[owner.name]) ?? 0;
  const parts: Part[] = [...step];
  for (const member of members) {
    const value = row[member.name] ?? (count === 0 ? [] : null);
    const changed = Array.isArray(value) && value.length === count ? change(member, value) : undefined;
    if (changed === undefined || row._row === null) return `${member.name} has a value for each of ${owner.name}, which cannot be edited here: no box can come or go.`;
    parts.push({ tensor: member.name, rows: [row._row], before: [(row[member.name] as CellValue | undefined) ?? null], value: changed });
  }
  return parts;
}

/** What a new object has in another tensor: zeros, as of joints that nobody labelled. */
function emptyItem(member: TensorInfo, values: CellValue[]): CellValue | undefined {
  if (member.kind === "keypoints") {
    const joints = member.names?.length || (lengthOf(values[0]) ?? 0);
    return joints === 0 ? undefined : Array.from({ length: joints }, () => [0, 0, 0]);
  }
  if (member.kind !== "array") return undefined;
  const zeros = (shape: readonly (number | null)[]): CellValue | undefined => {
    const [length, ...inner] = shape;
    if (length === undefined) return 0;
    if (length === null) return undefined;
    const item = zeros(inner);
    return item === undefined ? undefined : Array.from({ length }, () => item);
  };
  return zeros(member.shape?.slice(1) ?? []);
}

/** How many objects a value has; null where that is not known. */
function lengthOf(value: unknown): number | null {
  if (Array.isArray(value)) return value.length;
  const shape = typeof value === "object" && value !== null && "shape" in value ? value.shape : null;
  return Array.isArray(shape) && typeof shape[0] === "number" ? shape[0] : null;
}
