/** Labels and scores that belong to the objects of a tensor. */
import type { Row, TensorInfo } from "../api/client";
import type { ClassTable } from "../classes/class-table";
import { isMedia } from "./media";
import { isFrames } from "./sequence";

const SCORE_NAME = /score|conf|prob/i;
const PREDICTED_NAME = /pred|detect|inferr|proposal|model|_hat$/i;

export interface Labels {
  code(object: number): number | null;
  name(object: number): string;
}

/** Whether a tensor holds predictions; decided by its name, the only indication. */
export function isPredicted(tensor: TensorInfo): boolean {
  return PREDICTED_NAME.test(tensor.name);
}

/**
 * The name of the image that shapes or a mask lie over: the declared one, else the one whose name is in theirs
 * (`left_boxes`), else the first of the schema. Over all images, they would be wrong in all but one.
 */
export function imageOf(tensor: TensorInfo, tensors: readonly TensorInfo[]): string | null {
  if (tensor.of != null) return tensor.of;
  const images = tensors.filter((one) => one.picture && !isFrames(one) && !isMedia(one));
  const words = tensor.name.toLowerCase().split(/[^a-z0-9]+/);
  const named = images.filter((image) => words.join("_").includes(image.name.toLowerCase().replace(/[^a-z0-9]+/g, "_")));
  const [longest] = named.sort((a, b) => b.name.length - a.name.length);
  return (longest ?? images[0])?.name ?? null;
}

/** The tensor with the classes of these objects: declared `per` them, else `per` what they are `per` themselves. */
export function labelsOf(objects: TensorInfo, tensors: readonly TensorInfo[]): TensorInfo | null {
  const per = (owner: string) => tensors.find((one) => one.kind === "class_label" && one.per === owner);
  return per(objects.name) ?? (objects.per == null ? null : (per(objects.per) ?? null));
}

/** The labels of these objects; null where no tensor of classes is declared to have one for each. */
export function findLabels(
  objects: TensorInfo,
  count: number,
  { row, tensors, classes }: { row: Row; tensors: TensorInfo[]; classes: ClassTable },
): Labels | null {
  const tensor = labelsOf(objects, tensors);
  const codes = tensor === null ? null : row[tensor.name];
  if (tensor === null || !Array.isArray(codes) || codes.length !== count) return null;
  const at = (object: number) => (typeof codes[object] === "number" ? codes[object] : null);
  return {
    code: (object) => {
      const code = at(object);
      return code === null ? null : classes.codeOf(tensor, code);
    },
    name: (object) => {
      const code = at(object);
      return code === null ? "" : (tensor.names?.[code] ?? String(code));
    },
  };
}

/** The scores of these objects: a list of numbers of the same length, with a score-like name closest to theirs. */
export function findScores(objects: TensorInfo, count: number, row: Row, tensors: TensorInfo[]): number[] | null {
  const lists = tensors.filter((tensor) => {
    const value = row[tensor.name];
    const isList = Array.isArray(value) && value.length === count && value.every((one) => typeof one === "number");
    return isList && tensor.kind !== "class_label" && SCORE_NAME.test(tensor.name);
  });
  const ofSameMaker = lists.filter((tensor) => isPredicted(tensor) === isPredicted(objects));
  const choice = ofSameMaker.length > 0 ? ofSameMaker : isPredicted(objects) ? lists : [];
  const [best] = choice.sort((a, b) => likeness(b.name, objects.name) - likeness(a.name, objects.name));
  return best === undefined ? null : (row[best.name] as number[]);
}

function likeness(a: string, b: string): number {
  let same = 0;
  while (same < a.length && a[same] === b[same]) same += 1;
  return same;
}
