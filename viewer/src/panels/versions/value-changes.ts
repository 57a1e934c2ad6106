/** Changed values of a row that are not shapes (labels, numbers, text), shown as text on the image. */
import type { TensorInfo } from "../../api/client";
import { describeValue, isOverlay } from "../../lenses";
import type { Change } from "../../state/versions/diff";
import type { RowVersion } from "./row-version";

export interface ValueChange {
  name: string;
  /** The value on this side. */
  text: string;
  /** The change, as for shapes: "was cat", "becomes dog". */
  word: string;
}

const LONG = 80;

/** The changes to show on each version; none if the row is in one version only. */
export function valueChanges(change: Change, before: RowVersion | null, after: RowVersion | null): { before: ValueChange[]; after: ValueChange[] } {
  if (before === null || after === null) return { before: [], after: [] };
  const names = change.tensors.filter((name) => [before, after].every(({ info }) => isSaid(find(info.tensors, name))));
  const notes = names.map((name) => ({ name, was: textOf(before, name), is: textOf(after, name) }));
  return {
    before: notes.map(({ name, was, is }) => ({ name, text: was, word: was === is ? "differs" : `becomes ${is}` })),
    after: notes.map(({ name, was, is }) => ({ name, text: is, word: was === is ? "differs" : `was ${was}` })),
  };
}

/** Shapes and their labels show changes themselves, and images are visible. */
function isSaid(tensor: TensorInfo | undefined): boolean {
  return tensor !== undefined && !tensor.picture && !isOverlay(tensor) && tensor.per == null;
}

function find(tensors: readonly TensorInfo[], name: string): TensorInfo | undefined {
  return tensors.find((tensor) => tensor.name === name);
}

function textOf({ info, row }: RowVersion, name: string): string {
  const tensor = find(info.tensors, name);
  const text = tensor === undefined ? "" : describeValue(row[name], tensor);
  return text.length > LONG ? `${text.slice(0, LONG)}…` : text;
}
