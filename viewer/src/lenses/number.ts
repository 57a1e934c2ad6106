/** Numbers and booleans. */
import { formatNumber } from "../format";
import { shortDtype } from "./dtype";
import type { Lens } from "./lens";
import { readText } from "./text";

export const numberLens: Lens = {
  brief: (tensor) => shortDtype(tensor.dtype),
  describe: (value) => (typeof value === "number" ? formatNumber(value) : readText(value)),
};
