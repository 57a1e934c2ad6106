/** Numbers and booleans. */
import { formatNumber, isNaming } from "../format";
import { shortDtype } from "./dtype";
import type { Lens } from "./lens";
import { readText } from "./text";

export const numberLens: Lens = {
  brief: (tensor) => shortDtype(tensor.dtype),
  describe(value, tensor) {
    if (typeof value !== "number") return readText(value);
    return isNaming(tensor.name) && Number.isInteger(value) ? String(value) : formatNumber(value);
  },
};
