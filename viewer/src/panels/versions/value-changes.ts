/** What differs in a row and is no shape: a label, a number, a text. It is said on the image, in words. */
import type { TensorInfo } from "../../api/client";
import { describeValue, isOverlay } from "../../lenses";
import type { Change } from "../../state/diff";
import type { RowVersion } from "./row-version";

export interface ValueChange {
  name: string;
  /** The value on this side. */
  text: string;
  /** What it was or becomes, as shapes say it; "" where there is no other side. */
  word: string;
}

const LONG = 80;

/** What each side says of a change; nothing where the row is only in one version, for all of it is new or gone. */
export function valueChanges(change: Change, before: RowVersion | null, after: RowVersion | null): { before: ValueChange[]; after: ValueChange[] } {
  if (before === null || after === null) return { before: [], after: [] };
  const names = change.tensors.filter((name) => [before, after].every(({ info }) => isSaid(find(info.tensors, name))));
  const notes = names.map((name) => ({ name, was: textOf(before, name), is: textOf(after, name) }));
  return {
    before: notes.map(({ name, was, is }) => ({ name, text: was, word: was === is ? "differs" : `becomes ${is}` })),
    after: notes.map(({ name, was, is }) => ({ name, text: is, word: was === is ? "differs" : `was ${was}` })),
  };
}

/** Shapes say it themselves, and so do the labels of shapes; an image is seen. */
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
