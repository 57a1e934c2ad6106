/** Arrays and embeddings: shape and the first numbers. */
import { isSummary } from "../api/client";
import { formatNumber, isNaming } from "../format";
import { formatShape, shortDtype, shortShape } from "./dtype";
import type { Lens, Value } from "./lens";
import { readText } from "./text";

const SHOWN = 6;

export const arrayLens: Lens = {
  brief: (tensor) => `${shortDtype(tensor.dtype)} ${shortShape(tensor.shape)}`.trim(),
  describe(value, tensor) {
    const show = (one: Value) => (isNaming(tensor.name) ? readText(one) : showNumber(one));
    if (isSummary(value)) {
      const head = flatten(value.preview ?? []).slice(0, SHOWN).map(show).join(", ");
      const shape = formatShape(value.shape ?? []);
      return head === "" ? shape : `${shape} · ${head}, …`;
    }
    const numbers = flatten(value);
    const head = numbers.slice(0, SHOWN).map(show).join(", ");
    return `${formatShape(shapeOf(value))} · ${head}${numbers.length > SHOWN ? ", …" : ""}`;
  },
};

export function flatten(value: Value): Value[] {
  return Array.isArray(value) ? value.flatMap(flatten) : [value];
}

export function shapeOf(value: Value): number[] {
  if (!Array.isArray(value)) return [];
  return [value.length, ...(value[0] === undefined ? [] : shapeOf(value[0]))];
}

function showNumber(value: Value): string {
  return typeof value === "number" ? formatNumber(value) : readText(value);
}
